# SPDX-License-Identifier: Apache-2.0
"""
Collision checking against independent geometry.

The lowest points of bodies are found by a product of DH matrices, swept checks by dense sampling;
what the bodies are, and which of them are checked, is in `test_arm_shapes`.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import independent_arm
import numpy as np
import pytest
from calibration_files import calibrated_arm
from motion_planners import tool_down
from scenes import box_at
from solids import HALF_CUBE, SCENE, UR5, elbow_up_at

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME, UR_TYPES, inverse, load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies
from ur5_pick_place.planning.collision.collision import RESOLUTION, TOUCH_DEPTH, CollisionModel
from ur5_pick_place.planning.collision.geometry import ClearanceTests, Geometry


def lowest_points(q, scene):
    """How low each body of a UR5 and of what it holds reaches, by name [m]."""
    frames = np.diag([-1.0, -1.0, 1.0, 1.0]) @ independent_arm.frames(q[None])[0]
    corners = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T
    T_tool_part = scene.tool.T_tool_tcp @ scene.part.T_tcp_part
    bodies = [(LINKS[body.link], frames[body.link], body.vertices) for body in arm_bodies(UR5)]
    bodies += [(s.name, frames[6] @ s.T_tool_box, corners * s.size) for s in scene.tool.shapes]
    bodies.append(('part', frames[6] @ T_tool_part, corners * scene.part.size))
    found = {}
    for name, T, points in bodies:
        low = (points @ T[2, :3] + T[2, 3]).min()
        found[name] = min(low, found.get(name, np.inf))
    return {name: low for name, low in found.items() if name not in ('base', 'shoulder')}


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


def test_every_two_bodies_are_checked_but_neighbours_and_those_that_cannot_meet():
    held, things = ('gripper', 'fingers', 'part'), ('post', 'shelf')
    expected = set(itertools.combinations(LINKS, 2)) - set(itertools.pairwise(LINKS))
    expected -= {('wrist_1', 'wrist_3')}  # always apart
    expected |= set(itertools.product(LINKS[:6], held))
    expected |= set(itertools.product((*LINKS[1:], *held), things))
    expected |= set(itertools.product((*LINKS[2:], *held), ('table',)))
    assert set(Geometry(UR5, crowded()).pairs) == expected


def test_the_table_is_measured_to_the_lowest_point_of_each_body(rng):
    geometry = Geometry(UR5, crowded())
    for q in rng.uniform(-np.pi, np.pi, (5, 6)):
        distances, found = all_distances(geometry, q[None])[0], {}
        for pair, distance in zip(geometry.pairs, distances, strict=True):
            if 'table' in pair:
                (name,) = set(pair) - {'table'}
                found[name] = min(distance, found.get(name, np.inf))
        assert found == pytest.approx(lowest_points(q, crowded()), abs=2e-4)


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


def test_paths_near_others_are_judged_as_if_they_were_alone(rng):
    """On motions up to a contact; that of a stretched arm needs nearly all of the bound."""
    alone, found = CollisionModel(UR5, SCENE), []
    starts = random_free(rng, alone, 8)
    starts[4:] = [0.0, -0.6, 0.0, 0.0, 0.0, 0.0]
    ends = starts + rng.normal(0.0, 0.8, starts.shape)
    ends[4:] = starts[4:] + [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    for begin, end in zip(starts, ends, strict=True):
        if (first := alone.check_path([begin, end])) is None:
            continue
        nearby, ahead = CollisionModel(UR5, SCENE), 10.0 ** rng.uniform(-2.5, -1.0)
        for at in first.sample + ahead * np.linspace(-1.5, 0.5, 100):
            path = begin + np.array([[at], [at + ahead]])[: rng.integers(1, 3)] * (end - begin)
            contact = nearby.check_nearby(path)
            assert str(contact) == str(alone.check_path(path))
            found.append(contact is not None)
    assert 0.2 < np.mean(found) < 0.8


def test_few_paths_of_a_slow_motion_are_tested(monkeypatch):
    """Nearly none far from all bodies, and less than one in two as the fingers approach."""
    tested, is_free = [], ClearanceTests.is_free
    monkeypatch.setattr(ClearanceTests, 'is_free', lambda *of: tested.append(1) or is_free(*of))
    heights = np.linspace(0.2, HALF_CUBE, 300)
    q = np.array([elbow_up_at(0.45, 0.0, height) for height in heights])
    collision, counts = CollisionModel(UR5, SCENE), []
    for here, ahead in zip(q, q[10:], strict=False):
        before = len(tested)
        assert collision.check_nearby(here[None]) is None
        assert collision.check_nearby(np.array([here, ahead])) is None
        counts.append(len(tested) - before)
    assert np.mean(counts[:100]) < 0.5
    assert np.mean(counts) < 1.0, 'three alone'


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
