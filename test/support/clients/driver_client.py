# SPDX-License-Identifier: Apache-2.0
"""A client of the UR driver for tests: ordinary rclpy, time judged by the stamps of the joints."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pace
import rclpy
from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from ur_msgs.msg import IOStates
from ur_msgs.srv import SetIO, SetSpeedSliderFraction

from ur5_pick_place.kinematics import JOINT_NAMES

ROOT = Path(__file__).parents[3]
SCALED = 'scaled_joint_trajectory_controller'
IO = 'io_and_status_controller'
LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
SHUTDOWN = 3.0  # [s] on the wall: 2 are promised, a busy machine may need one more
STATUS = {
    GoalStatus.STATUS_SUCCEEDED: 'succeeded',
    GoalStatus.STATUS_ABORTED: 'aborted',
    GoalStatus.STATUS_CANCELED: 'canceled',
}


@contextlib.contextmanager
def running_driver(*ros_args: str) -> 'Iterator[DriverClient]':
    """Start a driver and give a client of it; the driver must end in time, in silence."""
    words = [Path(sys.executable).with_name('sim_driver'), '--ros-args', *ros_args]
    with tempfile.TemporaryFile('w+') as said:
        process = subprocess.Popen(words, cwd=ROOT, stderr=said)
        try:
            with contextlib.closing(DriverClient()) as client:
                client.wait_for_driver()
                yield client
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            code, took = process.wait(10.0), time.monotonic() - begin
        finally:
            process.kill()
        said.seek(0)
        errors = said.read()
    assert code == 0 and took < pace.wall(SHUTDOWN) and 'Traceback' not in errors, errors


class DriverClient:
    """Talks to a driver; every wait is bounded on the wall and most are in simulated time."""

    def __init__(self, namespace: str = '') -> None:
        self._context = Context()  # its own, so that one module's mishap stays its own
        rclpy.init(context=self._context)
        self.node = rclpy.create_node('client', namespace=namespace, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._clients: dict = {}
        self._actions: dict = {}
        self._collecting: list = []
        self.joints: list[JointState] = []
        self.io: list[tuple[float, IOStates]] = []
        self.hear(JointState, 'joint_states', self._hear_joints)
        self.hear(IOStates, f'{IO}/io_states', lambda m: self.io.append((self.time, m)))

    def _hear_joints(self, message: JointState) -> None:
        if any(name.endswith(JOINT_NAMES[0]) for name in message.name):  # not another device
            self.joints.append(message)

    def wait_for_driver(self) -> None:
        self.until(lambda: self.joints and self.io, 'the driver', wall=60.0)

    def close(self) -> None:
        self.node.destroy_node()
        self._executor.shutdown()
        self._context.try_shutdown()

    def hear(self, kind, topic, callback, qos=qos_profile_sensor_data):
        return self.node.create_subscription(kind, topic, callback, qos)

    def collect(self, kind, topic, qos=LATCHED) -> list:
        """Every message of a topic from now on, until `forget`."""
        heard: list = []
        self._collecting.append(self.hear(kind, topic, heard.append, qos))
        return heard

    def forget(self) -> None:
        """Stop collecting, and keep of the driver's own messages the last only."""
        for subscription in self._collecting:
            self.node.destroy_subscription(subscription)
        self._collecting.clear()
        del self.joints[:-1], self.io[:-1]

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        if not self.joints:
            return 0.0
        stamp = self.joints[-1].header.stamp
        return stamp.sec + stamp.nanosec * 1e-9

    @property
    def q(self) -> np.ndarray:
        """Measured joints in controller order, (6,) [rad]."""
        return by_name(self.joints[-1], 'position')

    @property
    def qd(self) -> np.ndarray:
        """Measured speeds likewise [rad/s]."""
        return by_name(self.joints[-1], 'velocity')

    def output(self, pin: int) -> bool:
        return self.io[-1][1].digital_out_states[pin].state

    def until(self, condition, what='it', wall: float = 10.0) -> None:
        """Spin until something is true; `what` may be a function that tells it on a timeout."""
        deadline = time.monotonic() + pace.wall(wall)
        while not condition():
            if time.monotonic() >= deadline:
                what = what() if callable(what) else what
                raise AssertionError(f'timed out after {wall} s waiting for {what}')
            self.spin_once(0.1)

    def spin_once(self, seconds: float) -> None:
        self._executor.spin_once(timeout_sec=seconds)

    def look(self) -> np.ndarray:
        """Hear what lay unread; returns the joints as they are now, (6,) [rad]."""
        deadline = time.monotonic() + 0.2
        self.until(lambda: time.monotonic() > deadline, 'the present')
        return self.q if self.joints else np.full(6, np.nan)

    def run(self, seconds: float) -> None:
        """Spin for some simulated time."""
        end = self.time + seconds
        self.until(lambda: self.time >= end, f'{seconds} s of simulated time', seconds + 20.0)

    def wait(self, future, what: str, wall: float = 40.0):
        self.until(future.done, what, wall)
        return future.result()

    def call(self, kind, name: str, request=None, **fields):
        """Call a service and return its response."""
        return self.wait(self.call_later(kind, name, request, **fields), f'an answer of {name}')

    def call_later(self, kind, name: str, request=None, **fields):
        """Call a service and return a future of its response."""
        if name not in self._clients:
            self._clients[name] = self.node.create_client(kind, name)
        self.until(self._clients[name].service_is_ready, f'service {name}')
        return self._clients[name].call_async(request or kind.Request(**fields))

    def dashboard(self, name: str) -> Trigger.Response:
        return self.call(Trigger, f'dashboard_client/{name}')

    def end_protective_stop(self) -> None:
        """Unlock the robot, which keeps it locked for 5 s, and play its program."""
        self.run(5.5)
        for name in ('close_safety_popup', 'unlock_protective_stop', 'play'):
            reply = self.dashboard(name)
            assert reply.success, f'{name}: {reply.message}'

    def set_io(self, fun: int, pin: int, state: float) -> bool:
        return self.call(SetIO, f'{IO}/set_io', fun=fun, pin=pin, state=float(state)).success

    def set_speed(self, fraction: float) -> bool:
        """Move the speed slider, 0 to 1."""
        name = f'{IO}/set_speed_slider'
        return self.call(SetSpeedSliderFraction, name, speed_slider_fraction=fraction).success

    def switch(self, on=(), off=(), strictness=SwitchController.Request.STRICT):
        return self.call(
            SwitchController,
            'controller_manager/switch_controller',
            activate_controllers=list(on),
            deactivate_controllers=list(off),
            strictness=strictness,
            activate_asap=True,
        )

    def active_controllers(self):
        reply = self.call(ListControllers, 'controller_manager/list_controllers')
        return {c.name for c in reply.controller if c.state == 'active'}

    def send(self, goal: FollowJointTrajectory.Goal, controller: str = SCALED, feedback=None):
        """Send a goal and return its handle."""
        name = f'{controller}/follow_joint_trajectory'
        if name not in self._actions:
            self._actions[name] = ActionClient(self.node, FollowJointTrajectory, name)
            self.until(self._actions[name].server_is_ready, f'action {name}')
        future = self._actions[name].send_goal_async(goal, feedback_callback=feedback)
        return self.wait(future, 'the answer to a goal')

    def result(self, handle, wall: float = 30.0) -> tuple[str, int, str]:
        """Status, code and words with which a goal ends."""
        wrapped = self.wait(handle.get_result_async(), 'the result of a goal', wall)
        return STATUS[wrapped.status], wrapped.result.error_code, wrapped.result.error_string

    def move(self, q, duration: float = 1.0) -> None:
        """Go somewhere and be there."""
        handle = self.send(goal(rest(q, duration)))
        assert self.result(handle)[0] == 'succeeded'
        self.run(0.3)
        assert abs(self.q - q).max() < 1e-3


def by_name(message: JointState, field: str = 'position') -> np.ndarray:
    """Values of a message in controller order, (6,)."""
    values = dict(zip(message.name, getattr(message, field), strict=True))
    return np.array([values[name] for name in JOINT_NAMES])


def point(q, seconds: float, **derivatives) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(
        positions=[float(v) for v in q],
        time_from_start=Duration(seconds=seconds).to_msg(),
        **{name: [float(v) for v in values] for name, values in derivatives.items()},
    )


def rest(q, seconds: float) -> JointTrajectoryPoint:
    return point(q, seconds, velocities=[0.0] * 6, accelerations=[0.0] * 6)


def trajectory(*points, names=JOINT_NAMES, stamp: float = 0.0) -> JointTrajectory:
    message = JointTrajectory(joint_names=list(names), points=list(points))
    message.header.stamp.sec = int(stamp)
    message.header.stamp.nanosec = int(stamp % 1 * 1e9)
    return message


def goal(
    *points, path: float = 0.0, goal: float = 0.0, goal_time: float = 0.0, **header
) -> FollowJointTrajectory.Goal:
    def wish(value):
        return [JointTolerance(name=name, position=value) for name in JOINT_NAMES]

    return FollowJointTrajectory.Goal(
        trajectory=trajectory(*points, **header),
        path_tolerance=wish(path),
        goal_tolerance=wish(goal),
        goal_time_tolerance=Duration(seconds=goal_time).to_msg(),
    )
