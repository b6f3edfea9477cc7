# SPDX-License-Identifier: Apache-2.0
"""The arms of the cell agree with the robot description, and with our tables of each type."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from ur5_pick_place.kinematics import UR_TYPES, forward, load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies
from ur5_pick_place.sim.layouts import LAYOUTS
from ur5_pick_place.sim.physics import arm as physics_arm
from ur5_pick_place.sim.physics.arm import ARM_TYPES, fixed_frames, link_frames, load_arm

UR5 = load_arm('ur5')


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_each_table_of_types_has_this_one(ur_type):
    assert arm_bodies(load_model(ur_type)), 'kinematics/arm_shapes.json'
    assert ur_type in ARM_TYPES, 'sim/arms/<type>.yaml'
    assert ur_type in LAYOUTS, 'sim/layouts.py'


def pose(q, parent, child, prefix='', arm=UR5):
    """Pose (4, 4) of `child` in its ancestor `parent`."""
    T = np.eye(4)
    tree = {f.child: f for f in (*fixed_frames(prefix), *link_frames(arm, q, prefix))}
    while child != parent:
        frame = tree[child]
        step = np.eye(4)
        step[:3, :3] = Rotation.from_quat(frame.quat_xyzw).as_matrix()
        step[:3, 3] = frame.position
        T, child = step @ T, frame.parent
    return T


@pytest.mark.parametrize('ur_type', ARM_TYPES)
def test_tool0_and_wrist_3_are_dh_frame_6_seen_from_base(ur_type, rng):
    arm, model = load_arm(ur_type), load_model(ur_type)
    for q in rng.uniform(-np.pi, np.pi, (10, 6)):
        expected = forward(model, q)
        T_base_link_base = pose(q, 'base_link', 'base')
        for frame in ('tool0', 'wrist_3_link'):
            found = np.linalg.inv(T_base_link_base) @ pose(q, 'base_link', frame, arm=arm)
            assert found == pytest.approx(expected, abs=1e-12)


def test_side_frames_turn_as_described():
    q = np.zeros(6)
    flange = pose(q, 'wrist_3_link', 'flange')
    assert flange[:3, 0] == pytest.approx([0, 0, 1])  # flange x points out, as tool0 z does
    assert pose(q, 'wrist_3_link', 'ft_frame')[:3, :3] == pytest.approx(np.diag([1, -1, -1]))
    assert pose(q, 'world', 'base')[:3, :3] == pytest.approx(np.diag([-1, -1, 1]))


def test_a_prefix_marks_every_frame_but_world(rng):
    frames = (*fixed_frames('left_'), *link_frames(UR5, np.zeros(6), 'left_'))
    names = {f.child for f in frames} | {f.parent for f in frames}
    assert {n for n in names if not n.startswith('left_')} == {'world'}
    q = rng.uniform(-1, 1, 6)
    assert pose(q, 'left_base_link', 'left_tool0', 'left_') == pytest.approx(
        pose(q, 'base_link', 'tool0')
    )


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_series_payload_and_torques_are_those_of_our_tables(ur_type):
    arm, model = load_arm(ur_type), load_model(ur_type)
    assert (arm.cycle, arm.payload) == (model.cycle, model.payload)
    assert (arm.polyscope == '3') == (ur_type in ('ur3', 'ur5', 'ur10'))
    assert arm.cycle == (0.008 if arm.polyscope == '3' else 0.002)
    assert [link.torque for link in arm.links] == model.effort_max.tolist()


def test_an_arm_like_another_differs_in_what_its_file_gives(monkeypatch, tmp_path):
    monkeypatch.setattr(physics_arm, '_ARMS', tmp_path)
    (tmp_path / 'own.yaml').write_text('like: ur5\npayload: 6\ncode: 12\n')
    assert load_arm('own') == replace(UR5, payload=6, code=12)


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_no_housing_stands_out_of_the_bodies_that_the_planner_keeps_clear(ur_type):
    """But for the edges of cylinders, sharper than the housings, by some millimetres."""
    model, arm = load_model(ur_type), load_arm(ur_type)
    hulls = [(body.link, ConvexHull(body.vertices).equations) for body in arm_bodies(model)]
    for i, link in enumerate(arm.links, start=1):
        assert LINKS[i] == link.name
        ca, sa = np.cos(model.alpha[i - 1]), np.sin(model.alpha[i - 1])
        to_dh = np.array([[1, 0, 0], [0, ca, sa], [0, -sa, ca]])  # axes of DH frame i
        for start, end, radius, dome in link.housings:
            along = np.subtract(end, start) / np.linalg.norm(np.subtract(end, start))
            across = np.cross(along, [1, 0, 0] if abs(along[0]) < 0.5 else [0, 1, 0])
            angles = np.linspace(0.0, 2 * np.pi, 24)[:, None]
            ring = radius * (np.cos(angles) * across + np.sin(angles) * np.cross(along, across))
            points = np.vstack([start + ring, end + ring, [end + dome * along]])
            points = (points - [model.a[i - 1], 0.0, 0.0]) @ to_dh.T
            inside = [points @ e[:, :3].T + e[:, 3] for number, e in hulls if number == i]
            outside = np.min([distances.max(axis=1) for distances in inside], axis=0)
            assert outside.max() < 6e-3, (
                f'a housing of {link.name} in sim/arms stands {1e3 * outside.max():.1f} mm out of '
                f'its bodies in kinematics/arm_shapes.json, which {ur_type} may have by `like`'
            )
