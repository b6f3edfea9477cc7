# SPDX-License-Identifier: Apache-2.0
"""
Curves are what they are called, and joint paths follow them on one branch or say why not.

Shape is judged by distances and angles of the poses, smoothness by finite differences.
"""

import itertools

import numpy as np
import pytest
from motion_planners import MODEL, PICK
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import IncompletePath, InvalidInput
from ur5_pick_place.kinematics import classify, forward, inverse
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.planning.paths.curves import (
    BlendedCurve,
    Line,
    OffsetCurve,
    arc_about,
    arc_through,
)
from ur5_pick_place.planning.paths.follow import JOINT_STEP, follow
from ur5_pick_place.planning.paths.moves import PathSegment, between_stops

SHARE = np.linspace(0.0, 1.0, 201)


def rotation(axis, angle):
    return Rotation.from_rotvec(angle * np.divide(axis, np.linalg.norm(axis))).as_matrix()


def pose(position, axis=(0, 0, 1), angle=0.0):
    return make_transform(rotation(axis, angle), position)


def random_pose(rng):
    return pose(rng.uniform(-1, 1, 3), rng.normal(size=3), rng.uniform(0, 3))


def turned(poses):
    """Rotation angle [rad] of each pose from the first."""
    R = np.swapaxes(poses[:1, :3, :3], -1, -2) @ poses[:, :3, :3]
    return np.arccos(np.clip((np.trace(R, axis1=1, axis2=2) - 1) / 2, -1, 1))


def assert_constant_axis(poses):
    """Two rotations about one axis commute."""
    R = np.swapaxes(poses[:1, :3, :3], -1, -2) @ poses[:, :3, :3]
    np.testing.assert_allclose(R @ R[-1], R[-1] @ R, atol=1e-9)
    np.testing.assert_allclose(np.diff(turned(poses)), turned(poses)[-1] / 200, atol=1e-6)


def test_a_line_is_straight_and_even_and_turns_about_one_axis(rng):
    for _ in range(20):
        T_start, T_goal = random_pose(rng), random_pose(rng)
        poses = Line(T_start, T_goal)(SHARE)
        expected = T_start[:3, 3] + SHARE[:, None] * (T_goal - T_start)[:3, 3]
        np.testing.assert_allclose(poses[:, :3, 3], expected, atol=1e-12)
        np.testing.assert_allclose(poses[[0, -1]], [T_start, T_goal], atol=1e-12)
        assert_constant_axis(poses)


def test_an_arc_through_a_point_is_round_flat_even_and_meets_all_three(rng):
    for _ in range(20):
        T_start, T_goal, interim = random_pose(rng), random_pose(rng), rng.uniform(-1, 1, 3)
        arc = arc_through(T_start, T_goal, interim)
        poses = arc(SHARE)
        p = poses[:, :3, 3]
        np.testing.assert_allclose(poses[[0, -1]], [T_start, T_goal], atol=1e-9)
        steps = np.linalg.norm(np.diff(p, axis=0), axis=1)
        np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
        assert np.abs(np.linalg.svd(p - p.mean(axis=0))[1][2]) < 1e-9
        turns = np.cross(np.diff(p, axis=0)[:-1], np.diff(p, axis=0)[1:])
        np.testing.assert_allclose(turns, turns[:1].repeat(len(turns), axis=0), atol=1e-9)
        fine = arc(np.linspace(0, 1, 20001))[:, :3, 3]
        assert np.linalg.norm(fine - interim, axis=1).min() < arc.length / 20000
        assert arc.length == pytest.approx(np.linalg.norm(np.diff(fine, axis=0), axis=1).sum())
        assert_constant_axis(poses)


def test_an_arc_about_a_centre_is_the_shorter_one(rng):
    for _ in range(20):
        centre, angle = rng.uniform(-1, 1, 3), rng.uniform(0.1, 3.0)
        normal = rng.normal(size=3)
        radius = np.cross(normal, rng.normal(size=3))
        T_start = pose(centre + radius)
        T_goal = pose(centre + rotation(normal, angle) @ radius)
        p = arc_about(T_start, T_goal, centre)(SHARE)[:, :3, 3]
        expected = [centre + rotation(normal, angle * s) @ radius for s in SHARE]
        np.testing.assert_allclose(p, expected, atol=1e-9)


def test_a_slightly_misplaced_centre_still_leads_to_the_goal():
    T_start, T_goal = pose([0.3, 0, 0.2]), pose([0, 0.3, 0.2])
    poses = arc_about(T_start, T_goal, np.array([4e-4, 0, 0.2]))(SHARE)
    np.testing.assert_allclose(poses[-1], T_goal, atol=1e-12)
    np.testing.assert_allclose(poses[-2], T_goal, atol=3e-3)


ZERO = r'of the arc coincide at \(0\.0000, 0\.0000, 0\.0000\) m'


@pytest.mark.parametrize(
    ('make', 'goal', 'point', 'message'),
    [
        (arc_through, [0.4, 0, 0], [0.2, 0, 0], r'interim point \(0\.2000.*are collinear within'),
        (arc_through, [0.4, 0, 0], [0, 0, 0], f'start and interim point {ZERO}'),
        (arc_through, [0, 0, 0], [0.2, 0, 0], f'start and goal {ZERO}'),
        (arc_through, [0.4, 0, 0], [0.4, 0, 0], r'interim point and goal .*at \(0\.4000, 0'),
        (arc_about, [0.4, 0, 0], [0.2, 0, 0], 'plane of the arc is unknown; give an interim'),
        (arc_about, [0.4, 0, 0], [0.1, 0.1, 0], r'start is 0\.1414 m and goal 0\.3162 m from'),
        (arc_about, [0.4, 0, 0], [0.1, 0.1, 0], r'must agree within 0\.001 m; move the centre'),
        (arc_about, [0, 0, 0], [0.1, 0.1, 0], f'start and goal {ZERO}'),
    ],
)
def test_points_without_a_circle_are_refused_with_numbers(make, goal, point, message):
    with pytest.raises(InvalidInput, match=message):
        make(pose([0, 0, 0]), pose(goal), np.array(point, dtype=float))


def test_a_carried_curve_leads_the_other_frame(rng):
    T_tool_link, line = random_pose(rng), Line(random_pose(rng), random_pose(rng))
    tool = OffsetCurve(line, T_tool_link)
    np.testing.assert_allclose(tool(SHARE) @ T_tool_link, line(SHARE), atol=1e-12)


class TestRounded:
    """Legs with rounded corners: on the legs outside the blends, smooth within."""

    CORNERS = (
        pose([0, 0, 0]),
        pose([0, 0, 0.2], [0, 1, 0], 0.3),
        pose([0.4, 0, 0.2], [1, 1, 0], 0.5),
        pose([0.4, 0.1, 0.1], [1, 0, 1], 1.0),
    )

    @pytest.fixture
    def legs(self):
        a, b, c, d = self.CORNERS
        return [Line(a, b), Line(b, c), arc_through(c, d, np.array([0.42, 0.07, 0.17]))]

    def test_it_is_the_legs_outside_the_blends(self, legs):
        """Which reach up to twice the radius along the longer leg of a corner."""
        whole = BlendedCurve(legs, [0.05, 0.04])
        assert whole.length == pytest.approx(sum(leg.length for leg in legs))
        for way, leg, share in (
            (0.10, legs[0], 0.5),
            (0.15, legs[0], 0.75),
            (0.30, legs[1], 0.10 / 0.4),
            (0.52, legs[1], 0.32 / 0.4),
            (0.64, legs[2], 0.04 / legs[2].length),
        ):
            here = whole(np.array([way / whole.length]))
            np.testing.assert_allclose(here, leg(np.array([share])), atol=1e-12)
        np.testing.assert_allclose(
            whole(np.array([0.0, 1.0])), [self.CORNERS[0], self.CORNERS[-1]], atol=1e-12
        )

    def test_blends_share_a_leg_that_is_too_short_for_twice_their_radii(self):
        corners = [pose([0, 0, 0]), pose([0.1, 0, 0]), pose([0.1, 0.15, 0]), pose([0.2, 0.15, 0])]
        whole = BlendedCurve([Line(*ends) for ends in itertools.pairwise(corners)], [0.05, 0.05])
        p = whole(np.linspace(0, 1, 701))[:, :3, 3]
        np.testing.assert_allclose(p[350], [0.1, 0.075, 0], atol=1e-12)
        on_leg = np.abs(p[:, 0] - 0.1) < 1e-9
        assert on_leg.sum() < 20, 'two blends of 75 mm take its 150 mm'

    def test_it_cuts_the_corner_within_the_radius(self, legs):
        corner = self.CORNERS[1][:3, 3]
        p = BlendedCurve(legs, [0.05, 0.04])(np.linspace(0, 1, 5001))[:, :3, 3]
        nearest = np.linalg.norm(p - corner, axis=1).min()
        assert 0.1 * 0.05 < nearest < 0.5 * 0.05

    def test_its_third_derivative_has_no_jump(self, legs):
        """Half the spacing halves the steps of a third derivative that does not jump."""
        whole = BlendedCurve(legs, [0.05, 0.04])

        def largest_jump(n):
            poses = whole(np.linspace(0, 1, n))[:, :3].reshape(n, 12)
            return np.abs(np.diff(poses, n=4, axis=0)).max() * n**3

        assert largest_jump(4001) < 0.6 * largest_jump(2001)

    def test_short_legs_are_refused_with_numbers(self, legs):
        with pytest.raises(InvalidInput, match=r'move 1 is 0\.2000 m long.* 0\.2500 m of it'):
            BlendedCurve(legs, [0.25, 0.04])

    def test_moves_are_run_together_between_stops(self):
        blends = [0.05, 0.0, 0.02, 0.02]
        groups = between_stops([PathSegment(np.eye(4), blend=radius) for radius in blends])
        assert [[move.blend for move in group] for group in groups] == [[0.05, 0.0], [0.02, 0.02]]


def test_a_joint_path_follows_its_line_on_one_branch_in_small_steps(rng):
    followed = 0
    while followed < 20:
        q = rng.uniform(-2.5, 2.5, 6)
        T = forward(MODEL, q)
        goal = T @ pose(rng.normal(size=3) * 0.1, rng.normal(size=3), rng.uniform(0, 0.5))
        line = Line(T, goal)
        try:
            path = follow(MODEL, line, q)
        except IncompletePath:
            continue
        followed += 1
        between = path.sample(np.linspace(0, 1, 1501))[0]
        p = forward(MODEL, between)[:, :3, 3] - T[:3, 3]
        way = (goal - T)[:3, 3]
        along = p @ way / (way @ way)
        assert np.linalg.norm(p - along[:, None] * way, axis=1).max() < 1e-6
        assert np.diff(along).min() > -1e-9
        assert set(classify(MODEL, path.q[1:-1])) == {int(classify(MODEL, q))}
        assert np.abs(np.diff(path.q, axis=0)).max() < 2 * JOINT_STEP
        np.testing.assert_allclose(path.q[0], q, atol=1e-9)
        np.testing.assert_allclose(forward(MODEL, path.q[-1]), goal, atol=1e-9)


def test_paths_are_refused_if_and_only_if_a_dense_look_finds_no_way_and_there(rng):
    """Dense: 20,001 poses, where a joint that turns 20 degrees between two has jumped."""
    verdicts = []
    for i in range(60):
        q = rng.uniform(-2.5, 2.5, 6)
        T, way = forward(MODEL, q), rng.normal(size=3)
        way *= rng.uniform(0.05, 0.8) / np.linalg.norm(way)
        goal = pose(T[:3, 3] + way, rng.normal(size=3), rng.choice([0.0, 0.8]))
        goal[:3, :3] = T[:3, :3] @ goal[:3, :3]
        interim = T[:3, 3] + 0.5 * way + rng.normal(size=3) * 0.1
        curve = Line(T, goal) if i % 3 else arc_through(T, goal, interim)
        s = np.linspace(0, 1, 20001)
        rows, reached = inverse(MODEL, curve(s), q6=q[5])
        branch = int(classify(MODEL, q))
        there = np.unwrap(np.vstack([q, rows[:, branch]]), axis=0)
        good = reached[:, branch] & (np.abs(np.diff(there, axis=0)).max(axis=1) < 0.35)
        good &= ((there[1:] >= MODEL.q_min) & (there[1:] <= MODEL.q_max)).all(axis=1)
        verdicts.append(bool(good.all()))
        if good.all():
            follow(MODEL, curve, q)
        else:
            with pytest.raises(IncompletePath) as refusal:
                follow(MODEL, curve, q)
            assert refusal.value.fraction == pytest.approx(s[np.argmin(good)], abs=0.02)
    assert 20 < sum(verdicts) < 50


def test_derivatives_of_a_joint_path_are_those_of_its_joints(rng):
    path = follow(MODEL, Line(forward(MODEL, PICK), forward(MODEL, PICK + 0.1)), PICK)
    x, h = rng.uniform(0.1, 0.9, 20), 1e-4
    for order in range(3):
        numeric = (path.sample(x + h)[order] - path.sample(x - h)[order]) / (2 * h)
        np.testing.assert_allclose(path.sample(x)[order + 1], numeric, rtol=1e-4, atol=1e-4)
