# SPDX-License-Identifier: Apache-2.0
"""
Collision checking against independent geometry.

Distances are judged by dense points on one body and the closed-form distance to the other, poses
by a product of DH matrices, swept checks by dense sampling.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import independent_arm
import numpy as np
import pytest
from calibration_files import calibrated_arm
from motion_planners import tool_down
from solids import HALF_CUBE, SCENE, UR5, box_at, elbow_up_at, of_hull

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME, UR_TYPES, inverse, link_frames, load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies, bodies_apart
from ur5_pick_place.planning.collision.collision import RESOLUTION, TOUCH_DEPTH, CollisionModel
from ur5_pick_place.planning.collision.geometry import ClearanceTests, Geometry


class Block:
    """A box for points: distance from it and points on its surface."""

    def __init__(self, name, T, half):
        self.name, self.T, self.half = name, T, np.asarray(half)

    def distance(self, points):
        local = np.abs((points - self.T[:3, 3]) @ self.T[:3, :3])
        return np.linalg.norm(np.maximum(local - self.half, 0.0), axis=1)

    def surface(self, n):
        v, w = (g.ravel() for g in np.meshgrid(*[np.linspace(-1.0, 1.0, n)] * 2))
        faces = [np.insert(np.stack([v, w], 1), i, side, 1) for i in range(3) for side in (-1, 1)]
        return (np.vstack(faces) * self.half) @ self.T[:3, :3].T + self.T[:3, 3]


class Hull:
    """The same for the hull of points."""

    def __init__(self, name, T, vertices, index=None):
        self.name, self.T, self.index = name, T, index
        self.solid = of_hull(np.random.default_rng(0), vertices, points=800)

    def distance(self, points):
        """The smallest distance; of points that cannot be the nearest, a bound suffices."""
        local = (points - self.T[:3, 3]) @ self.T[:3, :3]
        bound = np.maximum(self.solid.bound(local), 0.0)
        order, least = np.argsort(bound), np.inf
        for k in range(0, len(order), 20):
            if bound[order[k]] >= least:
                break
            least = min(least, self.solid.distance(local[order[k : k + 20]]).min())
        return np.array([max(least, 0.0)])

    def surface(self, _):
        return self.solid.surface @ self.T[:3, :3].T + self.T[:3, 3]


def solids(q, scene):
    """Every body of a UR5 in the scene, with the frame it is fixed to (-1: a box of the scene)."""
    frames = np.diag([-1.0, -1.0, 1.0, 1.0]) @ independent_arm.frames(q[None])[0]
    found = [
        (body.link, Hull(LINKS[body.link], frames[body.link], body.vertices, index))
        for index, body in enumerate(arm_bodies(UR5))
    ]
    for shape in scene.tool.shapes:
        found.append((6, Block(shape.name, frames[6] @ shape.T_tool_box, shape.size / 2)))
    if scene.carried:
        T = frames[6] @ scene.tool.T_tool_tcp @ scene.part.T_tcp_part
        found.append((6, Block('part', T, scene.part.size / 2)))
    for box in scene.boxes:
        found.append((-1, Block(box.name, box.T_base_link_box, box.size / 2)))
    return found


def can_meet(a, b):
    """Which bodies may be too close, from the arm's build: see `clearance`."""
    (link_a, solid_a), (link_b, solid_b) = a, b
    if link_a == -1:
        return link_b > 0
    if link_a >= link_b:
        return False
    if solid_b.name not in LINKS:
        return link_a < 6
    return link_b - link_a > 1 and (solid_a.index, solid_b.index) not in bodies_apart(UR5)


def dense_distances(q, scene, n=31):
    """Smallest distance of each two named bodies that may meet, from dense surface points."""
    everything = solids(q, scene)
    points = {id(solid): solid.surface(n) for _, solid in everything}
    found = {}
    for a in everything:
        for b in everything:
            if can_meet(a, b):
                near = min(
                    b[1].distance(points[id(a[1])]).min(), a[1].distance(points[id(b[1])]).min()
                )
                name = frozenset((a[1].name, b[1].name))
                found[name] = min(near, found.get(name, np.inf))
    return found


def crowded():
    post = box_at('post', (0.5, 0.5, 0.3), (0.06, 0.06, 0.6))
    shelf = box_at('shelf', (-0.3, 0.6, 0.7), (0.5, 0.3, 0.02))
    return replace(SCENE, boxes=(post, shelf), carried=True)


def random_free(rng, collision, count):
    q = rng.uniform(-np.pi, np.pi, (40 * count, 6))
    free = q[~collision.collides(q)]
    assert len(free) >= count
    return free[:count]


def all_distances(geometry, q):
    """Return the signed distance of every pair at joints (n, 6), (n, P)."""
    tests = ClearanceTests(geometry, np.zeros(len(geometry.pairs)))
    pairs = range(len(geometry.pairs))
    return np.array([[tests.distance(row, pair)[0] for pair in pairs] for row in q])


def nearest(collision, q):
    """Return the two bodies that are nearest to each other, as a contact."""
    return min(collision.wider(1.0).contacts(q), key=lambda contact: contact.distance)


def nearest_by_name(geometry, q):
    found = {}
    for pair, distance in zip(geometry.pairs, all_distances(geometry, q[None])[0], strict=True):
        name = frozenset(pair)
        found[name] = min(distance, found.get(name, np.inf))
    return found


@pytest.mark.drill
def test_distances_are_those_of_dense_surface_points(rng):
    scene = crowded()
    collision = CollisionModel(UR5, scene)
    for q in random_free(rng, collision, 1):
        ours, dense = nearest_by_name(Geometry(UR5, scene), q), dense_distances(q, scene)
        assert {name for name in ours if 'table' not in name} == set(dense)
        for name, distance in dense.items():
            # The largest faces are sampled every 20 mm, so that a nearest point on a rim can be
            # missed by 10 mm, which is 8 mm in distance at most; coal stops at 1e-6.
            assert distance - 0.008 <= ours[name] <= distance + 5e-6, name
        found = nearest(collision, q)
        assert found.distance == pytest.approx(min(ours.values()), abs=1e-12)
        assert ours[frozenset((found.body_a, found.body_b))] == pytest.approx(found.distance)


def test_the_table_is_measured_to_the_lowest_point_of_each_body(rng):
    for joints in rng.uniform(-np.pi, np.pi, (5, 6)):
        found, dense = nearest_by_name(Geometry(UR5, crowded()), joints), {}
        ours = {min(name - {'table'}): d for name, d in found.items() if 'table' in name}
        for link, solid in solids(joints, crowded()):
            if link > 1:
                low = solid.surface(61)[:, 2].min()
                dense[solid.name] = min(low, dense.get(solid.name, np.inf))
        assert ours == pytest.approx(dense, abs=2e-4)


@pytest.mark.parametrize('margin', [-0.003, 0.005, 0.02, 0.1])
def test_the_test_of_a_clearance_has_the_verdict_of_the_distances(margin, rng):
    """Also of one wider than that for which the bounding boxes were made."""
    geometry = Geometry(UR5, crowded())
    margins = rng.uniform(0.2, 1.0, len(geometry.pairs)) * margin
    tests = ClearanceTests(geometry, np.zeros(len(geometry.pairs)))
    tests.require(margins)
    low = np.array([-np.pi, -2.8, -2.8, -np.pi, -np.pi, -np.pi])
    q = rng.uniform(low, [np.pi, 0.2, 2.8, np.pi, np.pi, np.pi], (300, 6))
    free = np.array([tests.is_free(row) for row in q])
    np.testing.assert_array_equal(free, (all_distances(geometry, q) >= margins).all(axis=1))
    assert free.any() or margin > 0.05


@pytest.mark.parametrize('nominal', [True, False])
def test_no_distance_changes_by_more_than_the_reach_allows(nominal, rng):
    """What the check between samples rests on."""
    geometry = Geometry(UR5 if nominal else calibrated_arm('ur5', rng, 3e-3, 0.01), crowded())
    q = rng.uniform(-np.pi, np.pi, (60, 6))
    step = rng.uniform(-0.2, 0.2, q.shape)
    step[: len(q) // 2] *= np.eye(6)[rng.integers(6, size=len(q) // 2)]  # one joint alone
    before, after = all_distances(geometry, q), all_distances(geometry, q + step)
    change = np.abs(after - before)
    # Only distances apart: how deep two bodies are in each other is not what the sweep needs.
    apart = (before > 0.0) & (after > 0.0)
    bound = np.abs(step) @ geometry.pair_levers.T
    assert (change[apart] <= bound[apart] + 2e-6).all()  # coal stops at 1e-6, twice
    assert (change[apart] > 0.3 * bound[apart]).any(), 'a bound this loose would cost halvings'


def test_cubes_on_the_table_can_be_gripped_all_around_the_arm(rng):
    """The TCP at the centre of a 45 mm cube leaves the fingers 10 mm above the table."""
    collision = CollisionModel(UR5, SCENE)
    for radius in (0.3, 0.4, 0.5, 0.6, 0.7):
        for angle in rng.uniform(-np.pi, np.pi, 6):
            x, y = radius * np.cos(angle), radius * np.sin(angle)
            q, ok = inverse(UR5, tool_down(x, y, HALF_CUBE, rng.uniform(-np.pi, np.pi)))
            assert not collision.collides(q[ok]).all(), f'no branch grips at {radius} m, {angle}'


def test_many_configurations_at_once_give_what_one_at_a_time_gives(rng):
    collision = CollisionModel(UR5, crowded())
    q = rng.uniform(-np.pi, np.pi, (15, 20, 6))
    at_once = collision.collides(q)
    assert at_once.shape == (15, 20)
    assert 0 < at_once.sum() < at_once.size
    for i, j in np.ndindex(at_once.shape):
        assert (collision.check(q[i, j]) is not None) == at_once[i, j]


def test_a_thin_plate_between_two_samples_is_found():
    """Neither sample touches it; the hand passes it in between."""
    plate = box_at('plate', (0.45, 0.0, 0.15), (0.1, 0.001, 0.3))
    collision = CollisionModel(UR5, replace(SCENE, boxes=(plate,)))
    ends = np.array([elbow_up_at(0.45, -0.2, 0.15), elbow_up_at(0.45, 0.2, 0.15)])
    assert not collision.collides(ends).any()
    found = collision.check_path(ends)
    assert found.contact.body_b == 'plate'
    assert 0.0 < found.sample < 0.5, 'the hand is there before its centre is'
    assert str(found) == str(found.contact)
    assert CollisionModel(UR5, SCENE).check_path(ends) is None


def test_before_the_contact_that_a_sweep_finds_nothing_is_nearer_than_it_proves(rng):
    """Judged by dense sampling, along paths with steps of a tenth of a radian and more."""
    scene = crowded()
    collision = CollisionModel(UR5, scene)
    proved = CollisionModel(UR5, replace(scene, margin=scene.margin - RESOLUTION))
    knots = np.arange(4.0)
    found_any = []
    for start in random_free(rng, collision, 30):
        path = start + np.cumsum(np.vstack([np.zeros(6), rng.normal(0.0, 0.12, (3, 6))]), axis=0)
        found = collision.check_path(path)
        end = 3.0 if found is None else found.sample
        dense = np.linspace(0.0, end, 400, endpoint=found is None)
        q = np.stack([np.interp(dense, knots, path[:, j]) for j in range(6)], axis=1)
        assert not proved.collides(q).any()
        found_any.append(found is not None)
        if found is not None:
            there = np.array([np.interp(found.sample, knots, path[:, j]) for j in range(6)])
            contact = collision.check(there)
            assert {contact.body_a, contact.body_b} == {found.contact.body_a, found.contact.body_b}
            # coal stops at 1e-6.
            assert contact.distance == pytest.approx(found.contact.distance, abs=3e-6)
    assert 5 < sum(found_any) < 28


def test_a_contact_late_on_a_long_path_is_counted_from_its_start():
    q = np.linspace(HOME, HOME + np.deg2rad([0, 60, 0, 0, 0, 0]), 1000)
    collision = CollisionModel(UR5, SCENE)
    first = int(collision.collides(q).argmax())
    assert first > 300
    found = collision.check_path(q)
    assert first - 1 < found.sample <= first
    assert collision.check_path(q[:first]) is None


def test_a_long_step_among_short_ones_is_checked():
    """However many times it has to be halved, which the others need not be."""
    plate = box_at('plate', (0.45, 0.0, 0.15), (0.1, 0.001, 0.3))
    collision = CollisionModel(UR5, replace(SCENE, boxes=(plate,)))
    before, after = elbow_up_at(0.45, -0.2, 0.15), elbow_up_at(0.45, 0.2, 0.15)
    found = collision.check_path([before] * 129 + [after] * 140)
    assert 128 < found.sample < 129


def test_a_path_may_be_a_single_configuration():
    collision = CollisionModel(UR5, SCENE)
    assert collision.check_path([HOME]) is None
    found = collision.check_path([elbow_up_at(0.45, -0.2, 0.0)])
    assert found.sample == 0.0
    assert found.contact.body_b == 'table'


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda c: c.check(np.full(6, np.nan)), r'must be finite'),
        (lambda c: c.check(np.zeros((2, 6))), r'q has shape \(2, 6\): must be \(6,\)'),
        (lambda c: c.contacts(np.zeros(5)), r'shape \(5,\)'),
        (lambda c: c.collides(np.zeros((2, 5))), r'shape \(2, 5\)'),
        (lambda c: c.check_path(np.zeros((0, 6))), r'path has shape \(0, 6\): must be \(n, 6\)'),
        (lambda c: c.check_path(np.zeros(6)), r'path has shape \(6,\): must be \(n, 6\)'),
    ],
)
def test_malformed_joints_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call(CollisionModel(UR5, SCENE))


def test_threads_share_a_model(rng):
    wide = CollisionModel(UR5, crowded()).wider(1.0)
    q = rng.uniform(-np.pi, np.pi, (200, 6))
    alone = [wide.check(x).distance for x in q]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: wide.check(x).distance, q))
    assert together == pytest.approx(alone, abs=1e-12)  # coal starts from its last result


def test_an_arm_of_unknown_type_is_dimensioned_by_its_reach():
    double = load_model({'a': 2 * UR5.a, 'd': 2 * UR5.d})
    for ours, theirs in zip(arm_bodies(UR5), arm_bodies(double), strict=True):
        for direction in np.vstack([np.eye(3), -np.eye(3)]):  # a wrist's body may be wider
            assert (2 * ours.vertices @ direction).max() <= (
                theirs.vertices @ direction
            ).max() + 1e-12
        if ours.link < 4:
            np.testing.assert_allclose(theirs.vertices, 2 * ours.vertices, atol=1e-12)


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_bodies_of_neighbouring_links_meet(ur_type, rng):
    """Whatever the joints: there is no gap in the arm through which something could pass."""
    model = load_model(ur_type)
    for q in rng.uniform(-np.pi, np.pi, (3, 6)):
        frames = link_frames(model, q)
        bodies = [(b.link, Hull('', frames[b.link], b.vertices)) for b in arm_bodies(model)]
        for link in range(6):
            gap = min(
                b.distance(a.surface(21)).min()
                for on, a in bodies
                for to, b in bodies
                if (on, to) == (link, link + 1)
            )
            assert gap < 0.01, f'{LINKS[link]} and {LINKS[link + 1]} are {gap} m apart'


UPRIGHT = np.deg2rad([0.0, -90.0, 0.0, -90.0, 0.0, 0.0])
FINGERTIP = 0.158 - 0.145  # how far the fingers reach below the TCP [m]


@pytest.mark.parametrize('ur_type', UR_TYPES)
@pytest.mark.parametrize('q', [HOME, UPRIGHT], ids=['home', 'upright'])
def test_usual_poses_are_free(ur_type, q):
    collision = CollisionModel(load_model(ur_type), SCENE)
    assert collision.check(q) is None
    assert nearest(collision, q).distance > SCENE.margin


@pytest.mark.parametrize('spare', [-0.0005, 0.0005])
def test_the_fingers_may_come_as_near_to_the_table_as_the_margin(spare):
    collision = CollisionModel(UR5, SCENE)
    q = elbow_up_at(0.45, -0.2, FINGERTIP + SCENE.margin + spare)
    contact = collision.check(q)
    assert (contact is None) == (spare > 0)
    if contact is None:
        contact = nearest(collision, q)
    else:
        assert contact.position[:2] == pytest.approx((0.45, -0.2), abs=0.07)
        assert str(contact).startswith('fingers is 4.5 mm from table near (')
        assert str(contact).endswith('required clearance 5.0 mm')
    assert (contact.body_a, contact.body_b) == ('fingers', 'table')
    assert contact.distance == pytest.approx(SCENE.margin + spare, abs=1e-9)


def test_a_carried_part_is_part_of_the_arm():
    low = elbow_up_at(0.45, -0.2, HALF_CUBE + 0.002)
    assert CollisionModel(UR5, SCENE).check(low) is None
    contact = CollisionModel(UR5, replace(SCENE, carried=True)).check(low)
    assert (contact.body_a, contact.body_b) == ('part', 'table')
    assert contact.distance == pytest.approx(0.002, abs=1e-9)


def test_an_allowed_pair_may_touch_but_not_be_pushed_through():
    strict = CollisionModel(UR5, replace(SCENE, carried=True))
    lifting = strict.allowing([('table', 'part')])
    assert lifting.check(elbow_up_at(0.45, -0.2, HALF_CUBE)) is None
    assert strict.check(elbow_up_at(0.45, -0.2, HALF_CUBE)) is not None, (
        'the original is as before'
    )
    contact = lifting.check(elbow_up_at(0.45, -0.2, HALF_CUBE - TOUCH_DEPTH - 0.001))
    assert (contact.body_a, contact.body_b) == ('part', 'table')
    assert str(contact).startswith('part is 4.0 mm inside table')


def test_a_wide_margin_keeps_the_scene_away_but_not_the_arm_from_itself():
    wide = CollisionModel(UR5, replace(SCENE, margin=0.02))
    assert wide.check(HOME) is None
    assert wide.check(elbow_up_at(0.45, -0.2, 0.03)).body_b == 'table'
