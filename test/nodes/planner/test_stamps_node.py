# SPDX-License-Identifier: Apache-2.0
"""A pose that a camera on the arm saw before the arm moved, taught through real nodes."""

import numpy as np
import pytest
from cells import KillableCell, execute, killable_cell
from cycle_poses import MODEL
from geometry_msgs.msg import TransformStamped
from task_client import START, pose
from tf2_ros import StaticTransformBroadcaster

from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.nodes.messages.conversions import (
    matrix_to_pose,
    matrix_to_transform,
    pose_to_matrix,
    time_to_msg,
)

pytestmark = pytest.mark.nodes

T_TOOL_CAMERA = np.eye(4)
T_TOOL_CAMERA[:3, 3] = 0.06, 0.0, 0.02


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with killable_cell(ros_domain, tmp_path_factory.mktemp('cell')) as cell:
        yield cell


def test_what_a_camera_on_the_arm_saw_is_where_it_saw_it(cell: KillableCell) -> None:
    client = cell.client
    camera = TransformStamped(child_frame_id='camera')
    camera.header.frame_id, camera.transform = 'tool0', matrix_to_transform(T_TOOL_CAMERA)
    broadcaster = StaticTransformBroadcaster(client.node)
    broadcaster.sendTransform(camera)
    client.run(0.5)
    seen_from, at = client.look(), client.time
    seen = np.linalg.inv(T_BASE_BASE_LINK @ forward(MODEL, seen_from) @ T_TOOL_CAMERA)
    seen = seen @ pose_to_matrix(pose(*START).pose)

    execute(cell, seen_from + [0.3, 0.0, 0.0, 0.0, 0.0, 0.0], 2.0)
    cell.time_to_rest(10.0)
    moved = np.linalg.norm(
        (forward(MODEL, client.look()) - forward(MODEL, seen_from))[:3, 3]
    )
    assert moved > 0.1, 'the arm has moved meanwhile'

    message = pose(*START, frame='camera')
    message.pose, message.header.stamp = matrix_to_pose(seen), time_to_msg(at)
    client.until(client.poses['start'].get_subscription_count, 'a subscriber')
    since = len(client.events)
    client.poses['start'].publish(message)
    taught = client.event('taught', since=since, place='start')
    T_base = np.array(taught['pose'][:3])
    np.testing.assert_allclose(
        (np.linalg.inv(T_BASE_BASE_LINK) @ [*T_base, 1.0])[:3], [*START[:2], 0.0225], atol=1e-3
    )
