# SPDX-License-Identifier: Apache-2.0
"""`move_to`: move the TCP to a point, pointing down, and report the error."""

import argparse
import math
import signal
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import rclpy
from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.srv import GetMotionPlan, GetPositionFK
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState

from ur5_pick_place.client import requests
from ur5_pick_place.client.connection import PLANNER
from ur5_pick_place.client.link import Link
from ur5_pick_place.commands.arguments import finite
from ur5_pick_place.errors import ExecutionError, TimedOut, fixed
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array, pose_distance
from ur5_pick_place.nodes.messages.conversions import joint_state_msg
from ur5_pick_place.nodes.ros.process import start_ros
from ur5_pick_place.terminal import Parser, check_metres, command, ending_signals, number_within

# [s] wall time:
_TIMEOUT = 10.0  # for a server or a reply; the planner monitors the motion itself
_CANCEL_TIME = 2.0  # for a late answer to a goal that is to be canceled, and for its end
_STOP_TIME = 3.0  # for a stop to be answered
_SETTLING = 0.5  # from the end of the motion to the measurement


class MoveTo:
    """
    Plans a PTP motion, executes it and measures the error, through the package's services.

    `signals`: terminating signals so far; waits raise KeyboardInterrupt once there is one.
    """

    def __init__(self, signals: Sequence[int]) -> None:
        self._signals = signals
        node = Node('move_to', start_parameter_services=False)
        self._link = Link(node, _TIMEOUT, self._interrupt)
        self.close = self._link.close

    def _interrupt(self) -> None:
        if self._signals:
            raise KeyboardInterrupt

    def plan(self, T: Array, scaling: float) -> Any:
        """Return the planned trajectory to the TCP pose T (4, 4) in base_link."""
        request = GetMotionPlan.Request()
        plan = request.motion_plan_request
        plan.planner_id = 'PTP'
        plan.goal_constraints = [requests.pose_goal(requests.stamped(T, None))]
        plan.max_velocity_scaling_factor = plan.max_acceleration_scaling_factor = scaling
        reply = self._link.call(GetMotionPlan, 'plan_kinematic_path', request)
        found = reply.motion_plan_response
        requests.check_code(found.error_code, 'planning failed')
        first, *_ = found.trajectory.joint_trajectory.joint_names
        self._link.received.prefix = first.removesuffix(JOINT_NAMES[0])
        return found.trajectory

    def move(self, trajectory: Any) -> None:
        """Execute a trajectory and wait for its end, without a timeout; stop if interrupted."""
        goal = ExecuteTrajectory.Goal(trajectory=trajectory)
        result = self._link.reach(ExecuteTrajectory, 'execute_trajectory', goal, self._halt)
        requests.check_code(result.error_code, 'motion failed')

    def _halt(self, sent: 'Future[Any]') -> None:
        """
        Cancel a goal and wait for its end; have both nodes stop the arm if that does not come.

        Raises `ExecutionError`: neither the cancellation nor a stop was answered.
        """
        if self._comes(sent.done):
            handle: Any = sent.result()
            if not handle.accepted:
                return
            handle.cancel_goal_async()
            ended = self._link.reply_of(handle.get_result_async)
            known = len(self._signals)
            # A second Ctrl-C goes straight to the stops.
            self._comes(lambda: ended.done() or len(self._signals) > known)
            if ended.done():
                print('move_to: motion canceled, the arm is at rest', file=sys.stderr)
                return
        answers: list[bool | None] = []
        self._link.stop(lambda success, _message: answers.append(success))
        if not self._comes(lambda: True in answers, _STOP_TIME):
            raise ExecutionError(
                'the planner did not cancel the motion, and neither trajectory_planner/stop nor '
                'pick_place/stop was answered; USE THE EMERGENCY STOP'
            )
        print('move_to: motion stopped; call rearm before the next one', file=sys.stderr)

    def _comes(self, is_so: Any, seconds: float = _CANCEL_TIME) -> bool:
        """Return whether something is so in time, whatever signals come."""
        try:
            return bool(self._link.wait(is_so, 'an answer', seconds, despite_death=True))
        except TimedOut:
            return False

    @cached_property
    def mounting(self) -> Mounting:
        """How the arm is mounted, which tells where down is."""
        request = GetParameters.Request(names=['mounting'])
        reply = self._link.call(GetParameters, f'{PLANNER}/get_parameters', request)
        return Mounting.read(reply.values[0].string_value) if reply.values else FLOOR

    def tcp(self, joints: JointState) -> Array:
        """Return the TCP pose (4, 4) in base_link of a joint state."""
        request = requests.fk_request('tcp', '', joints)
        return requests.fk_pose(self._link.call(GetPositionFK, 'compute_fk', request))

    def measure(self) -> JointState:
        """Return the joints after the arm has settled."""
        end = time.monotonic() + _SETTLING
        self._link.wait(lambda: time.monotonic() > end, 'the arm to settle')
        return self._link.received.joints()[1]


def _noted_signals() -> list[int]:
    """Return a list that gets each terminating signal, so that the arm is stopped first."""
    noted: list[int] = []
    for number in ending_signals():
        signal.signal(number, lambda got, _frame: noted.append(got))
    return noted


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog='move_to',
        description='Move the TCP to a point in base_link, pointing down. Prints commanded and '
        'measured joints and TCP, and their difference.',
        epilog='Requires the running nodes of a cell. Example: move_to 0.45 -0.2 0.3 30',
    )
    for name, unit in (('X', 'm'), ('Y', 'm'), ('Z', 'm'), ('YAW', 'deg')):
        parser.add_argument(name.lower(), metavar=name, type=finite, help=f'[{unit}]')
    parser.add_argument(
        '--scaling',
        type=number_within(0.0, 1.0),
        default=0.0,
        help="fraction of the limits, 0: the planner's default, 1: full speed",
    )
    args = parser.parse_args(argv)
    check_metres('X Y Z', (args.x, args.y, args.z))
    return args


def _print_state(title: str, joints: JointState, T: Array, mounting: Mounting) -> None:
    print(title)
    for name, position in sorted(zip(joints.name, joints.position, strict=True)):
        turned = fixed(math.degrees(position), 3)
        print(f'  {name:<22}{fixed(position, 5):>10} rad{turned:>10} deg')
    x, y, z = (fixed(v, 5) for v in T[:3, 3])
    print(f'  TCP at ({x}, {y}, {z}) m, yaw {fixed(_yaw(T, mounting), 3)} deg')


def _yaw(T: Array, mounting: Mounting) -> float:
    x, y, _ = mounting.R_up_base_link @ T[:3, 0]
    return math.degrees(math.atan2(y, x))


def _run(mover: MoveTo, args: argparse.Namespace) -> None:
    T_goal = mover.mounting.tool_down(args.x, args.y, args.z, math.radians(args.yaw))
    trajectory = mover.plan(T_goal, args.scaling)
    message = trajectory.joint_trajectory
    goal = joint_state_msg(np.array(message.points[-1].positions), message.joint_names)
    _print_state('commanded', goal, mover.tcp(goal), mover.mounting)
    mover.move(trajectory)
    measured = mover.measure()
    T = mover.tcp(measured)
    _print_state('measured', measured, T, mover.mounting)
    away, turn = pose_distance(T_goal, T)
    x, y, z = (fixed(v, 3) for v in 1e3 * (T - T_goal)[:3, 3])
    print(f'measured minus commanded: ({x}, {y}, {z}) mm, ', end='')
    print(f'{1e3 * away:.3f} mm and {math.degrees(turn):.4f} deg in total')


@command('move_to')
def main() -> int:
    """Run the command; exit code 1 if the motion failed, 2 on invalid input, 128 + signal."""
    mover = None
    signals: list[int] = [signal.SIGINT]
    try:
        args = _arguments(remove_ros_args(sys.argv)[1:])
        start_ros()
        signals = _noted_signals()
        mover = MoveTo(signals)
        _run(mover, args)
    except KeyboardInterrupt:
        return 128 + signals[0]
    finally:
        if mover is not None:
            mover.close()
        rclpy.try_shutdown()
    return 0
