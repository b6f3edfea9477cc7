# SPDX-License-Identifier: Apache-2.0
"""`move_to` as a process: however it is ended, its motion ends too, or it says so."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pace
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped
from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetMotionPlan, GetPositionFK
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.context import Context
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectoryPoint

from ur5_pick_place.kinematics import HOME, JOINT_NAMES

pytestmark = pytest.mark.nodes
SUCCESS = MoveItErrorCodes(val=MoveItErrorCodes.SUCCESS)
MAIN = 'from ur5_pick_place.commands.move_to import main; raise SystemExit(main())'


class Planner(Node):
    """Stands in for the nodes: plans at once, and moves until it is canceled or stopped."""

    def __init__(self, context: Context) -> None:
        super().__init__('trajectory_planner', context=context)
        self.asked, self.moving, self.stopped = (threading.Event() for _ in range(3))
        self.answer = lambda: GoalResponse.ACCEPT
        self.ends: list[str] = []
        group = ReentrantCallbackGroup()
        serve: Any = self.create_service
        serve(GetMotionPlan, 'plan_kinematic_path', self._plan, callback_group=group)
        serve(GetPositionFK, 'compute_fk', self._fk, callback_group=group)
        serve(Trigger, 'trajectory_planner/stop', self._stop, callback_group=group)
        self.action = ActionServer(
            self,
            ExecuteTrajectory,
            'execute_trajectory',
            self._execute,
            goal_callback=self._on_goal,
            cancel_callback=lambda _goal: CancelResponse.ACCEPT,
            callback_group=group,
        )

    def _plan(self, _request: Any, reply: Any) -> Any:
        found = reply.motion_plan_response
        found.error_code = SUCCESS
        found.trajectory.joint_trajectory.joint_names = list(JOINT_NAMES)
        found.trajectory.joint_trajectory.points = [JointTrajectoryPoint(positions=HOME.tolist())]
        return reply

    def _fk(self, _request: Any, reply: Any) -> Any:
        reply.error_code, reply.pose_stamped = SUCCESS, [PoseStamped()]
        return reply

    def _stop(self, _request: Any, reply: Any) -> Any:
        self.stopped.set()
        reply.success = True
        return reply

    def _on_goal(self, _goal: Any) -> GoalResponse:
        self.asked.set()
        return self.answer()

    def _execute(self, goal: Any) -> ExecuteTrajectory.Result:
        self.moving.set()
        while not (goal.is_cancel_requested or self.stopped.is_set()):
            time.sleep(0.01)
        self.ends.append('canceled' if goal.is_cancel_requested else 'stopped')
        goal.canceled() if goal.is_cancel_requested else goal.abort()
        return ExecuteTrajectory.Result()


@pytest.fixture
def planner(ros_domain: int) -> Iterator[Planner]:
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node, executor = Planner(context), MultiThreadedExecutor(4, context=context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield node
    node.stopped.set()
    executor.shutdown()
    thread.join(5.0)
    node.action.destroy()
    node.destroy_node()
    context.try_shutdown()


def ended(by: signal.Signals, after: threading.Event) -> tuple[int, str]:
    """Return exit code and stderr of a move_to that gets a signal after an event."""
    words = [sys.executable, '-c', MAIN, '0.45', '-0.1', '0.2', '30']
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert after.wait(pace.wall(20.0))
            process.send_signal(by)
            return process.wait(pace.wall(20.0)), process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize('by', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_motion(planner, by):
    code, text = ended(by, planner.moving)
    assert (code, planner.ends) == (128 + by, ['canceled'])
    assert text == 'move_to: motion canceled, the arm is at rest\n'


def test_a_signal_before_the_goal_is_answered_cancels_it_once_it_is(planner):
    def late() -> GoalResponse:
        time.sleep(0.7)
        return GoalResponse.ACCEPT

    planner.answer = late
    assert ended(signal.SIGINT, planner.asked)[0] == 130
    assert planner.ends == ['canceled']


def test_a_goal_that_is_never_answered_is_stopped(planner):
    def never() -> GoalResponse:
        planner.stopped.wait(pace.wall(20.0))
        return GoalResponse.REJECT

    planner.answer = never
    code, text = ended(signal.SIGTERM, planner.asked)
    assert (code, text) == (143, 'move_to: motion stopped; call rearm before the next one\n')
    assert planner.stopped.is_set()


def test_a_rejected_goal_is_named_as_that(planner):
    planner.answer = lambda: GoalResponse.REJECT
    words = [sys.executable, '-c', MAIN, '0.45', '-0.1', '0.2', '30']
    done = subprocess.run(words, capture_output=True, text=True, timeout=60.0, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith('move_to: execute_trajectory rejected the goal: look at')
