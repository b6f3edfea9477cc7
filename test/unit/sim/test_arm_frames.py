# SPDX-License-Identifier: Apache-2.0
"""The TF tree agrees with the robot description's check vectors and with the DH product."""

import numpy as np
import pytest
from independent_arm import URDF_POSES
from scipy.spatial.transform import Rotation

from ur5_pick_place.kinematics import forward, load_model
from ur5_pick_place.sim.arm_frames import fixed_frames, link_frames

UR5 = load_model('ur5')


def pose(q, parent, child, prefix=''):
    """Pose (4, 4) of `child` in its ancestor `parent`."""
    T = np.eye(4)
    tree = {f.child: f for f in (*fixed_frames(prefix), *link_frames(UR5, q, prefix))}
    while child != parent:
        frame = tree[child]
        step = np.eye(4)
        step[:3, :3] = Rotation.from_quat(frame.quat_xyzw).as_matrix()
        step[:3, 3] = frame.position
        T, child = step @ T, frame.parent
    return T


@pytest.mark.parametrize(('q', 'position', 'quat_xyzw'), URDF_POSES)
def test_tool0_is_where_the_robot_description_puts_it(q, position, quat_xyzw):
    T = pose(q, 'base_link', 'tool0')
    assert T[:3, 3] == pytest.approx(position, abs=1e-6)
    turn = Rotation.from_matrix(T[:3, :3]) * Rotation.from_quat(quat_xyzw).inv()
    assert turn.magnitude() < 1e-5


def test_tool0_and_wrist_3_are_dh_frame_6_seen_from_base(rng):
    for q in rng.uniform(-np.pi, np.pi, (50, 6)):
        expected = forward(UR5, q)
        T_base_link_base = pose(q, 'base_link', 'base')
        for frame in ('tool0', 'wrist_3_link'):
            found = np.linalg.inv(T_base_link_base) @ pose(q, 'base_link', frame)
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
