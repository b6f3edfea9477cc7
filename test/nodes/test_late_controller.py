# SPDX-License-Identifier: Apache-2.0
"""A controller that accepts goals 0.4 s late, as over a network that lost a packet, and a stop."""

import contextlib
import threading
import time

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')


from cells import nodes_cell  # noqa: E402
from control_msgs.action import FollowJointTrajectory  # noqa: E402
from driver_client import SCALED, goal, rest  # noqa: E402
from moveit_msgs.action import ExecuteTrajectory  # noqa: E402
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse  # noqa: E402
from rclpy.callback_groups import ReentrantCallbackGroup  # noqa: E402
from rclpy.context import Context  # noqa: E402
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from ur5_pick_place.kinematics import HOME  # noqa: E402

pytestmark = [pytest.mark.drill, pytest.mark.nodes]
LATE = 'late_controller'
ACTION = 'follow_joint_trajectory'
DELAY = 0.4  # [s]


class LateController:
    """Passes goals on to the real controller, after a while."""

    def __init__(self):
        self.context = Context()
        rclpy.init(context=self.context)
        self.node = rclpy.create_node('late', context=self.context)
        group = ReentrantCallbackGroup()
        self.delay = DELAY
        self.client = ActionClient(
            self.node, FollowJointTrajectory, f'{SCALED}/{ACTION}', callback_group=group
        )
        self.server = ActionServer(
            self.node,
            FollowJointTrajectory,
            f'{LATE}/{ACTION}',
            self.execute,
            goal_callback=self.consider,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
            callback_group=group,
        )
        self.executor = MultiThreadedExecutor(4, context=self.context)
        self.executor.add_node(self.node)
        self.thread = threading.Thread(target=self.spin)
        self.thread.start()

    def spin(self):
        with contextlib.suppress(ExternalShutdownException):
            self.executor.spin()

    def consider(self, _request):
        time.sleep(self.delay)
        return GoalResponse.ACCEPT

    def execute(self, handle):
        sent = self.client.send_goal_async(handle.request)
        while not sent.done():
            time.sleep(0.005)
        passed = sent.result()
        ended, is_canceling = passed.get_result_async(), False
        while not ended.done():
            if handle.is_cancel_requested and not is_canceling:
                is_canceling = True
                passed.cancel_goal_async()
            time.sleep(0.005)
        handle.canceled() if handle.is_cancel_requested else handle.succeed()
        return ended.result().result

    def close(self):
        self.context.try_shutdown()
        self.thread.join(10.0)


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    late = LateController()
    with nodes_cell(ros_domain, tmp_path_factory.mktemp('cell'), controller=LATE) as cell:
        yield cell
    late.close()


@pytest.mark.parametrize('node', ['trajectory_planner', 'pick_place'])
def test_a_stop_before_the_goal_is_accepted_holds_the_arm(cell, node):
    client = cell.client
    cell.rearm()
    execute = ActionClient(client.node, ExecuteTrajectory, 'execute_trajectory')
    client.until(execute.server_is_ready, 'execute_trajectory')
    request = ExecuteTrajectory.Goal()
    turned = HOME + [1.0, 0, 0, 0, 0, 0]
    request.trajectory.joint_trajectory = goal(rest(HOME, 0.0), rest(turned, 8.0)).trajectory
    handle = client.wait(execute.send_goal_async(request), 'the motion to be taken')
    client.run(0.3)  # 0.15 s on the wall: gated and sent, not accepted yet
    assert client.call(Trigger, f'{node}/stop').success
    client.run(6.0)
    assert np.abs(client.q - HOME).max() < 0.01
    assert client.wait(handle.get_result_async(), 'the end').result.error_code.val != 1
    client.until(lambda: cell.planner.startswith('stopped'), 'the latch')
