# SPDX-License-Identifier: Apache-2.0
"""What the simulated driver publishes: every cycle, on change, and for simulations only."""

from collections.abc import Callable
from functools import partial
from typing import Any

from builtin_interfaces.msg import Time
from control_msgs.msg import JointTrajectoryControllerState
from geometry_msgs.msg import (
    PoseArray,
    PoseStamped,
    Quaternion,
    Transform,
    TransformStamped,
    Vector3,
)
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSPresetProfiles
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Header
from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster
from trajectory_msgs.msg import JointTrajectoryPoint
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_msgs.msg import Analog, Digital, IOStates, ToolDataMsg

from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.messages.conversions import duration_to_msg, matrix_to_pose, time_to_msg
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.sim.controllers.controller_manager import (
    IO_AND_STATUS,
    JOINT_STATES,
    PASSTHROUGH,
    SPEED_SCALING,
)
from ur5_pick_place.sim.controllers.goals import Tracking
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.link import JointReport
from ur5_pick_place.sim.physics.arm import Frame, fixed_frames, link_frames, load_arm

SYSTEM_DEFAULT = QoSPresetProfiles.SYSTEM_DEFAULT.value

_TF_PERIOD = 0.048  # [s], 6 cycles of a CB3, 24 of an e-Series; robot_state_publisher has 20 Hz
_TRUTH_PERIOD = 0.040  # [s]


class Publishers:
    """All topics of the cell."""

    def __init__(self, node: Node, driver: Driver, publish_tf: bool) -> None:
        self._driver, self._world, self._prefix = driver, driver.world, driver.tf_prefix
        self._cycles = 0
        self._alphabetical = sorted(range(6), key=lambda i: driver.joint_names[i])
        self._names = [driver.joint_names[i] for i in self._alphabetical]
        self._joint_states = node.create_publisher(JointState, 'joint_states', SYSTEM_DEFAULT)
        # Absolute, so that the remapping that moves the clients' /clock moves this one too.
        self._clock = node.create_publisher(Clock, '/clock', 10)
        self._speed_scaling = node.create_publisher(
            Float64, f'{SPEED_SCALING}/speed_scaling', SYSTEM_DEFAULT
        )
        self._controller_states = {
            name: node.create_publisher(
                JointTrajectoryControllerState, f'{name}/controller_state', SYSTEM_DEFAULT
            )
            for name in driver.trajectory
            if name != PASSTHROUGH
        }
        self._io = _IoPublishers(node, driver)
        self._arm = load_arm(driver.world.settings.ur_type)
        self._tf = TransformBroadcaster(node) if publish_tf else None
        if publish_tf:
            self._static_tf = StaticTransformBroadcaster(node)
            now = time_to_msg(driver.time)
            T_world_base_link = inverse_transform(self._world.T_base_link_world)
            self._static_tf.sendTransform(
                [_transform(f, now) for f in fixed_frames(self._prefix, T_world_base_link)]
            )
        self._part = node.create_publisher(PoseStamped, 'sim_driver/part_pose', 10)
        self._parts = node.create_publisher(PoseArray, 'sim_driver/part_poses', 10)
        self._fingers = node.create_publisher(JointState, 'sim_driver/finger_states', 10)

    def publish(self) -> None:
        """Publish the cycle just run; joint_states first, then /clock with the same time."""
        driver = self._driver
        active = driver.controllers.controllers
        now = time_to_msg(driver.time)
        driver.link.to_clients.advance(driver.time)
        if active[JOINT_STATES].active and driver.report is not None:
            self._publish_joints(now, driver.report)
        self._clock.publish(Clock(clock=now))
        if active[IO_AND_STATUS].active:
            self._io.publish()
        if active[SPEED_SCALING].active:
            # Percent, whatever the driver's documentation says.
            scaling = Float64(data=driver.robot.scaling * 100.0)
            self._send(partial(self._speed_scaling.publish, scaling))
        for name, publisher in self._controller_states.items():
            tracking = driver.trajectory[name].tracking
            if tracking is not None:
                self._send(partial(publisher.publish, self._controller_state(now, tracking)))
        if self._due(_TRUTH_PERIOD):
            self._publish_truth(now)
        self._cycles += 1

    def _due(self, period: float) -> bool:
        return self._cycles % round(period / self._world.cycle) == 0

    def _send(self, publish: Callable[[], object]) -> None:
        self._driver.link.to_clients.send(publish, self._driver.time)

    def _publish_joints(self, now: Time, report: JointReport) -> None:
        """Publish the joints, and the frames that robot_state_publisher makes of them."""
        self._send(partial(self._joint_states.publish, self._joint_state(now, report)))
        if self._tf is not None and self._due(_TF_PERIOD):
            frames = link_frames(self._arm, report.q.tolist(), self._prefix)
            transforms = [_transform(frame, now) for frame in frames]
            self._send(partial(self._tf.sendTransform, transforms))

    def _joint_state(self, now: Time, report: JointReport) -> JointState:
        order = self._alphabetical
        return JointState(
            header=Header(stamp=now, frame_id=f'{self._prefix}base_link'),
            name=self._names,
            position=report.q[order],
            velocity=report.qd[order],
            effort=report.current[order],  # as the driver reports
        )

    def _controller_state(self, now: Time, tracking: Tracking) -> JointTrajectoryControllerState:
        return JointTrajectoryControllerState(
            header=Header(stamp=now),
            joint_names=self._driver.joint_names,
            reference=desired_point(tracking),
            feedback=actual_point(tracking),
            error=error_point(tracking),
            output=JointTrajectoryPoint(positions=tracking.output),
            speed_scaling_factor=tracking.scaling,
        )

    def _publish_truth(self, now: Time) -> None:
        header = Header(stamp=now, frame_id=f'{self._prefix}base_link')
        T_base_link_parts = self._world.T_base_link_world @ self._world.T_world_parts
        self._part.publish(
            PoseStamped(header=header, pose=matrix_to_pose(T_base_link_parts[-1]))
        )
        all_parts = [matrix_to_pose(T) for T in T_base_link_parts]
        self._parts.publish(PoseArray(header=header, poses=all_parts))
        self._fingers.publish(
            JointState(
                header=header,
                name=['left_finger', 'right_finger'],
                position=self._world.hand.travel,
            )
        )


class _IoPublishers:
    """Topics of the io_and_status_controller; modes are latched and sent on change only."""

    def __init__(self, node: Node, driver: Driver) -> None:
        self._driver = driver
        self._io_states = node.create_publisher(
            IOStates, f'{IO_AND_STATUS}/io_states', SYSTEM_DEFAULT
        )
        self._tool_data = node.create_publisher(
            ToolDataMsg, f'{IO_AND_STATUS}/tool_data', SYSTEM_DEFAULT
        )
        self._modes = [
            _OnChange(node, RobotMode, 'robot_mode', lambda: int(driver.robot.mode)),
            _OnChange(node, SafetyMode, 'safety_mode', lambda: int(driver.robot.safety)),
            _OnChange(
                node,
                Bool,
                'robot_program_running',
                lambda: driver.robot.program_running,
                before=False,
            ),
        ]
        pins = driver.io.pins
        self._pins = IOStates(
            digital_in_states=[Digital(pin=i) for i in range(len(pins.digital_in))],
            digital_out_states=[Digital(pin=i) for i in range(len(pins.digital_out))],
            analog_in_states=[Analog(pin=i, domain=Analog.VOLTAGE) for i in range(2)],
            analog_out_states=[Analog(pin=i) for i in range(len(pins.analog_out))],
        )

    def publish(self) -> None:
        """Publish pins and tool, and the modes that have changed."""
        pins, voltage = self._driver.io.pins, self._driver.robot.tool_voltage
        message = self._pins
        for i, state in enumerate(pins.digital_in):
            message.digital_in_states[i].state = state
        for i, state in enumerate(pins.digital_out):
            message.digital_out_states[i].state = state
        for i, fraction in enumerate(pins.analog_out):
            message.analog_out_states[i].state = fraction
            message.analog_out_states[i].domain = pins.analog_domain[i]
        if not self._driver.link.io_states_silent:
            # Serialized: the message is used again while this one may be under way.
            self._send(partial(self._io_states.publish, serialize_message(message)))
        mode = ToolDataMsg.TOOL_RUNNING_MODE if voltage else ToolDataMsg.TOOL_IDLE_MODE
        tool = ToolDataMsg(tool_output_voltage=voltage, tool_mode=mode)
        self._send(partial(self._tool_data.publish, tool))
        for changed in self._modes:
            changed.publish(partial(self._send, reliable=True))

    def _send(self, publish: Callable[[], object], reliable: bool = False) -> None:
        self._driver.link.to_clients.send(publish, self._driver.time, reliable)


class _OnChange:
    """A latched topic, published when its value differs from the last, at first from `before`."""

    def __init__(
        self, node: Node, kind: type, topic: str, read: Callable[[], int], before: int = -1
    ) -> None:
        self._publisher: Publisher[Any] = node.create_publisher(
            kind, f'{IO_AND_STATUS}/{topic}', LATCHED
        )
        self._kind, self._read, self._before = kind, read, before

    def publish(self, send: Callable[[Callable[[], object]], None]) -> None:
        """Send the value if it is new."""
        value = self._read()
        if value != self._before:
            self._before = value
            message = self._kind()
            setattr(message, 'data' if self._kind is Bool else 'mode', value)
            send(partial(self._publisher.publish, message))


def desired_point(tracking: Tracking) -> JointTrajectoryPoint:
    """Return the desired point on the trajectory; its time is scaled time."""
    return JointTrajectoryPoint(
        positions=tracking.reference.q,
        velocities=tracking.reference.qd,
        accelerations=tracking.reference.qdd,
        time_from_start=duration_to_msg(tracking.reference_time),
    )


def actual_point(tracking: Tracking) -> JointTrajectoryPoint:
    """Return the measured joints; the time is not scaled."""
    return JointTrajectoryPoint(
        positions=tracking.q,
        velocities=tracking.qd,
        time_from_start=duration_to_msg(tracking.elapsed),
    )


def error_point(tracking: Tracking) -> JointTrajectoryPoint:
    """Return reference minus measurement; velocities are not compared and stay zero."""
    return JointTrajectoryPoint(
        positions=tracking.error,
        velocities=[0.0] * 6,
        time_from_start=duration_to_msg(tracking.reference_time),
    )


def _transform(frame: Frame, now: Time) -> TransformStamped:
    (x, y, z), (qx, qy, qz, qw) = frame.position, frame.quat_xyzw
    return TransformStamped(
        header=Header(stamp=now, frame_id=frame.parent),
        child_frame_id=frame.child,
        transform=Transform(
            translation=Vector3(x=x, y=y, z=z), rotation=Quaternion(x=qx, y=qy, z=qz, w=qw)
        ),
    )
