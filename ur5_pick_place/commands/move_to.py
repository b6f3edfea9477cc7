# SPDX-License-Identifier: Apache-2.0
"""`move_to`: move the TCP to a point, pointing down, and report the error."""

import argparse
import math
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import Pose
from moveit_msgs.action import ExecuteTrajectory
from moveit_msgs.msg import Constraints, OrientationConstraint, PositionConstraint
from moveit_msgs.srv import GetMotionPlan, GetPositionFK
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ur5_pick_place.errors import ExecutionError, InvalidInput, Ur5PickPlaceError, fixed
from ur5_pick_place.kinematics.transforms import log_so3, tool_down
from ur5_pick_place.nodes.driver.joint_listener import OneSource
from ur5_pick_place.nodes.messages.conversions import (
    is_of_this_arm,
    joint_state_msg,
    matrix_to_pose,
    pose_to_matrix,
)
from ur5_pick_place.nodes.ros.distro import origin_of, read
from ur5_pick_place.nodes.ros.process import start_ros
from ur5_pick_place.terminal import Parser, check_metres, quiet_pipe

_SERVER_TIME = 5.0  # [s] wall time for planner and IK service to be available
_REPLY_TIME = 10.0  # [s] wall time for a reply; the planner monitors the motion itself
_CANCEL_TIME = 2.0  # [s] wall time for a late answer to a goal that is to be canceled
_STOP_TIME = 3.0  # [s] wall time for a stop to be answered
_CHECK_PERIOD = 0.05  # [s] wall time between two looks at the signals
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SETTLING = 0.5  # [s] wall time from the end of the motion to the measurement


class MoveTo(Node):
    """
    Plans a PTP motion, executes it and measures the error, through the package's services.

    `signals`: terminating signals so far; waits raise KeyboardInterrupt once there is one.

    """

    def __init__(self, signals: Sequence[int]) -> None:
        super().__init__('move_to')
        self._signals = signals
        self._joints: JointState | None = None
        self._bad_joints, self._source = '', OneSource(self)
        self._names: Sequence[str] = ()  # joint names of the arm, as in the planned trajectory
        self.create_subscription(
            JointState, 'joint_states', self._on_joints, qos_profile_sensor_data
        )
        self._planner: Client[Any, Any] = self.create_client(GetMotionPlan, 'plan_kinematic_path')
        self._fk: Client[Any, Any] = self.create_client(GetPositionFK, 'compute_fk')
        self._mover: ActionClient[Any, Any, Any] = ActionClient(
            self, ExecuteTrajectory, 'execute_trajectory'
        )
        self._stops: list[Client[Any, Any]] = [
            self.create_client(Trigger, f'{node}/stop')
            for node in ('trajectory_planner', 'pick_place')
        ]

    def plan(self, T: np.ndarray, scaling: float) -> Any:
        """Return the planned trajectory to the TCP pose T (4, 4) in base_link."""
        request = GetMotionPlan.Request()
        plan = request.motion_plan_request
        plan.planner_id = 'PTP'
        plan.goal_constraints = [_pose_constraints(T)]
        plan.max_velocity_scaling_factor = plan.max_acceleration_scaling_factor = scaling
        reply = self._call(self._planner, request).motion_plan_response
        _check(reply.error_code, 'planning failed')
        self._names = reply.trajectory.joint_trajectory.joint_names
        return reply.trajectory

    def move(self, trajectory: Any) -> None:
        """Execute a trajectory and wait for its end, without a timeout; stop if interrupted."""
        if not self._spin(self._mover.server_is_ready, _SERVER_TIME):
            raise ExecutionError('action execute_trajectory is not available: start the planner')
        sent = self._mover.send_goal_async(ExecuteTrajectory.Goal(trajectory=trajectory))
        is_over = False
        try:
            handle = self._wait(sent, 'the planner to accept')
            if not handle.accepted:
                is_over = True
                raise ExecutionError(
                    'the planner rejected the motion: look at trajectory_planner/motion_state; '
                    'after a stop call trajectory_planner/rearm'
                )
            outcome = handle.get_result_async()
            self._spin(outcome.done, math.inf)
            is_over = True
        finally:
            if not is_over:
                self._halt(sent)
        _check(outcome.result().result.error_code, 'motion failed')

    def _halt(self, sent: 'Future[Any]') -> None:
        """
        Cancel a goal and wait for its end; have both nodes stop the arm if that does not come.

        Raises `ExecutionError`: neither the cancellation nor a stop was answered.

        """
        if self._spin(sent.done, _CANCEL_TIME, is_ending=True):
            handle: Any = sent.result()
            if not handle.accepted:
                return
            handle.cancel_goal_async()
            ended, known = handle.get_result_async(), len(self._signals)
            # A second Ctrl-C goes straight to the stops.
            self._spin(
                lambda: ended.done() or len(self._signals) > known, _CANCEL_TIME, is_ending=True
            )
            if ended.done():
                print('move_to: motion canceled, the arm is at rest', file=sys.stderr)
                return
        requests: list[Future[Any]] = [
            stop.call_async(Trigger.Request()) for stop in self._stops if stop.service_is_ready()
        ]

        def is_stopped() -> bool:
            replies: list[Any] = [future.result() for future in requests if future.done()]
            return any(reply is not None and reply.success for reply in replies)

        if not self._spin(is_stopped, _STOP_TIME, is_ending=True):
            raise ExecutionError(
                'the planner did not cancel the motion, and neither trajectory_planner/stop nor '
                'pick_place/stop was answered; USE THE EMERGENCY STOP'
            )
        print('move_to: motion stopped; call rearm before the next one', file=sys.stderr)

    def tcp(self, joints: JointState) -> np.ndarray:
        """Return the TCP pose (4, 4) in base_link of a joint state."""
        request = GetPositionFK.Request(fk_link_names=['tcp'])
        request.robot_state.joint_state = joints
        reply = self._call(self._fk, request)
        _check(reply.error_code, 'forward kinematics failed')
        return pose_to_matrix(reply.pose_stamped[0].pose)

    def measure(self) -> JointState:
        """Return the joints after the arm has settled."""
        end = self.get_clock().now().nanoseconds + int(_SETTLING * 1e9)
        self._spin(lambda: self.get_clock().now().nanoseconds >= end, math.inf)
        if self._bad_joints or self._joints is None:
            raise ExecutionError(self._bad_joints or 'no joint_states: is the driver running?')
        return self._joints

    def _on_joints(self, message: JointState, info: Mapping[str, Any]) -> None:
        if is_of_this_arm(message, self._names):
            self._joints = message
            self._bad_joints = self._source.problem(message, self._names, *origin_of(info))

    def _call(self, client: Any, request: Any) -> Any:
        if not self._spin(client.service_is_ready, _SERVER_TIME):
            raise ExecutionError(f'service {client.srv_name} is not available: start the nodes')
        return self._wait(client.call_async(request), client.srv_name)

    def _wait(self, future: 'Future[Any]', what: str) -> Any:
        if not self._spin(future.done, _REPLY_TIME):
            raise ExecutionError(f'timed out after {_REPLY_TIME:.0f} s waiting for {what}')
        return future.result()

    def _spin(
        self, is_done: Callable[[], bool], seconds: float, is_ending: bool = False
    ) -> bool:
        """
        Spin until something is done, and return whether it was in time.

        Raises `KeyboardInterrupt`: a terminating signal was received, and not `is_ending`.

        """
        end = time.monotonic() + seconds
        while not is_done():
            if self._signals and not is_ending:
                raise KeyboardInterrupt
            if time.monotonic() > end:
                return False
            rclpy.spin_once(self, timeout_sec=_CHECK_PERIOD)
        return True


def _noted_signals() -> list[int]:
    """Return a list that gets each terminating signal, so that the arm is stopped first."""
    noted: list[int] = []
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets SIGHUP
            signal.signal(number, lambda got, _frame: noted.append(got))
    return noted


def _pose_constraints(T: np.ndarray) -> Constraints:
    # No frame_id means the arm's own base_link, even if a mobile base has one of that name.
    pose = matrix_to_pose(T)
    position = PositionConstraint(link_name='tcp')
    centre = Pose(position=pose.position)
    position.constraint_region.primitive_poses = [centre]
    orientation = OrientationConstraint(link_name='tcp', orientation=pose.orientation)
    return Constraints(position_constraints=[position], orientation_constraints=[orientation])


def _check(code: Any, what: str) -> None:
    if code.val != code.SUCCESS:
        raise ExecutionError(f'{what}: {read(code, "message", "") or f"code {code.val}"}')


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog='move_to',
        description='Move the TCP to a point in base_link, pointing down. Prints commanded and '
        'measured joints and TCP, and their difference.',
        epilog='Requires the running nodes of a cell. Example: move_to 0.45 -0.2 0.3 30',
    )
    for name, unit in (('X', 'm'), ('Y', 'm'), ('Z', 'm'), ('YAW', 'deg')):
        parser.add_argument(name.lower(), metavar=name, type=float, help=f'[{unit}]')
    parser.add_argument(
        '--scaling', type=float, default=0.0, help="fraction of the limits, 0: planner's default"
    )
    args = parser.parse_args(argv)
    for name in ('x', 'y', 'z', 'yaw', 'scaling'):
        if not math.isfinite(getattr(args, name)):
            raise InvalidInput(f'{name.upper()} = {getattr(args, name)}: must be a finite number')
    if not 0.0 <= args.scaling <= 1.0:
        raise InvalidInput(
            f"--scaling = {args.scaling}: must be 0 (the planner's default) to 1 (full speed)"
        )
    check_metres('X Y Z', (args.x, args.y, args.z))
    return args


def _print_state(title: str, joints: JointState, T: np.ndarray) -> None:
    print(title)
    for name, position in sorted(zip(joints.name, joints.position, strict=True)):
        turned = fixed(math.degrees(position), 3)
        print(f'  {name:<22}{fixed(position, 5):>10} rad{turned:>10} deg')
    x, y, z = (fixed(v, 5) for v in T[:3, 3])
    print(f'  TCP at ({x}, {y}, {z}) m, yaw {fixed(_yaw(T), 3)} deg')


def _yaw(T: np.ndarray) -> float:
    return math.degrees(math.atan2(T[1, 0], T[0, 0]))


def _run(node: MoveTo, args: argparse.Namespace) -> None:
    T_goal = tool_down(args.x, args.y, args.z, math.radians(args.yaw))
    trajectory = node.plan(T_goal, args.scaling)
    message = trajectory.joint_trajectory
    goal = joint_state_msg(np.array(message.points[-1].positions), message.joint_names)
    _print_state('commanded', goal, node.tcp(goal))
    node.move(trajectory)
    measured = node.measure()
    T = node.tcp(measured)
    _print_state('measured', measured, T)
    miss = (T - T_goal)[:3, 3] * 1000.0
    turn = math.degrees(float(np.linalg.norm(log_so3(T_goal[:3, :3].T @ T[:3, :3]))))
    x, y, z = (fixed(v, 3) for v in miss)
    print(f'measured minus commanded: ({x}, {y}, {z}) mm, ', end='')
    print(f'{float(np.linalg.norm(miss)):.3f} mm and {turn:.4f} deg in total')


@quiet_pipe()
def main() -> None:
    """Run the command; exit code 1 if the motion failed, 2 on invalid input, 128 + signal."""
    node = None
    code = 0
    signals: list[int] = [signal.SIGINT]
    try:
        args = _arguments(remove_ros_args(sys.argv)[1:])
        start_ros(SignalHandlerOptions.NO)  # else Ctrl-C shuts ROS down before the cancellation
        signals = _noted_signals()
        node = MoveTo(signals)
        _run(node, args)
    except KeyboardInterrupt:
        code = 128 + signals[0]
    except Ur5PickPlaceError as error:
        print(f'move_to: {error}', file=sys.stderr)
        code = 2 if isinstance(error, InvalidInput) else 1
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    sys.exit(code)
