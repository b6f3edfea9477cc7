# SPDX-License-Identifier: Apache-2.0
"""Collect what `task.preflight` checks, within ten seconds; nothing moves or is changed."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from controller_manager_msgs.srv import ListControllers
from diagnostic_msgs.msg import DiagnosticArray
from moveit_msgs.msg import PlanningScene
from moveit_msgs.srv import GetPositionFK
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import (
    DurabilityPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_profile_parameters,
)
from rclpy.task import Future
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_dashboard_msgs.srv import GetRobotModel
from ur_msgs.msg import ToolDataMsg

from ur5_pick_place.client.connection import IK, PLANNER, TASK, Connection, own_node
from ur5_pick_place.client.requests import fk_request
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.cell.node_list import REMAPPINGS
from ur5_pick_place.nodes.driver.joint_listener import OneSource
from ur5_pick_place.nodes.driver.one_driver import SERVICES
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.messages.conversions import (
    is_of_this_arm,
    joints_from_state,
    pose_to_matrix,
    to_seconds,
)
from ur5_pick_place.nodes.messages.scene_messages import read_scene
from ur5_pick_place.nodes.ros.diagnostics import ACCEPTED, GRIPPER, GRIPPER_ADVICE, STREAMS
from ur5_pick_place.nodes.ros.distro import count_servers, origin_of
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.latched_from import LatchedFrom
from ur5_pick_place.nodes.ros.qos import LATCHED, mismatches
from ur5_pick_place.nodes.scene.planning_scene import SCENE_OWNER, SCENE_TOPIC
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.planning.scene.world import shown
from ur5_pick_place.task.preflight import NODES, OWN, SHARED, Observed

_IO = 'io_and_status_controller'
_LOG = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# That only one node may offer:
_SERVICE = {IK: 'compute_ik_all', PLANNER: f'{PLANNER}/stop', TASK: f'{TASK}/run'}
_SENSOR = QoSProfile(depth=500, reliability=ReliabilityPolicy.BEST_EFFORT)
# [s] of wall-clock time; together less than ten
_DISCOVERY, _REPLY, _SAMPLE = 4.0, 1.5, 2.0
# In the driver's message that the robot's type or series is not that of `ur_type`, which is
# readable for ten seconds (Universal_Robots_ROS2_Driver, pull requests 1771 and 1794)
_VERIFICATION = 'connected robot is of type'
_LATCHED_TIME = 0.5  # [s] for latched messages to arrive


def collect(namespace: str = '', is_ended: Callable[[], bool] = lambda: False) -> Observed:
    """
    Return what is seen of a cell within ten seconds; nothing moves and nothing is changed.

    It has a context of its own, so that it can run in a thread of any program; once `is_ended`
    returns True, as that program ends, it no longer waits for anything.

    Raises `InvalidInput`: the namespace or ROS_DOMAIN_ID is malformed.
    """
    remap = [word for a, b in REMAPPINGS for word in ('-r', f'{a}:={b}')]
    name = f'preflight_{os.getpid()}_{time.monotonic_ns()}'
    node = own_node(SerialNode, name, namespace, cli_args=['--ros-args', *remap])
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    try:
        return _Collector(node, executor, is_ended).observed()
    finally:
        executor.shutdown()
        node.destroy_node()
        node.context.try_shutdown()


class _Collector:
    """Subscribes, sends requests and samples."""

    def __init__(
        self, node: SerialNode, executor: SingleThreadedExecutor, is_ended: Callable[[], bool]
    ) -> None:
        self._node, self._executor, self._is_ended = node, executor, is_ended
        self._seen = Observed(where=_where(node))
        self._clock: float | None = None  # of /clock
        self._state: JointState | None = None
        self._source = OneSource(node)
        self._is_sampling = False
        self._names: tuple[str, ...] = JOINT_NAMES
        self._asking: dict[str, Client[Any, Any]] = {
            # With a depth for all replies: the default one of 10 drops what is not read at once.
            name: node.create_client(
                GetParameters, f'{name}/get_parameters', qos_profile=qos_profile_parameters
            )
            for name in NODES
        }
        self._connection = Connection(node)
        listing = 'controller_manager/list_controllers'
        self._list = self._connection.client(ListControllers, listing)
        model = 'dashboard_client/get_robot_model'
        self._model = self._connection.client(GetRobotModel, model)
        self._fk = self._connection.client(GetPositionFK, 'compute_fk')
        self._subscribe()

    def _subscribe(self) -> None:
        seen, subscribe = self._seen, self._node.create_subscription

        def keep(name: str, field: str = 'data') -> Callable[[Any], None]:
            return lambda message: setattr(seen, name, getattr(message, field))

        for name, field in ((TASK, 'task_state'), (PLANNER, 'motion_state')):
            self._connection.hear_state(name, partial(setattr, seen, field), LATCHED)
        subscribe(RobotMode, f'{_IO}/robot_mode', keep('robot_mode', 'mode'), LATCHED)
        subscribe(SafetyMode, f'{_IO}/safety_mode', keep('safety_mode', 'mode'), LATCHED)
        running = f'{_IO}/robot_program_running'
        subscribe(Bool, running, keep('program_running'), LATCHED)
        volts = keep('tool_voltage', 'tool_output_voltage')
        subscribe(ToolDataMsg, f'{_IO}/tool_data', volts, _SENSOR)
        scaling = 'speed_scaling_state_broadcaster/speed_scaling'
        subscribe(Float64, scaling, self._on_scaling, _SENSOR)
        subscribe(Clock, '/clock', self._on_clock, _SENSOR)
        subscribe(JointState, 'joint_states', self._on_joints, _SENSOR)
        subscribe(DiagnosticArray, '/diagnostics', self._on_diagnostics, _SENSOR)
        subscribe(Log, '/rosout', self._on_log, _LOG)
        LatchedFrom(self._node, PlanningScene, SCENE_TOPIC, SCENE_OWNER, self._on_scene)

    def observed(self) -> Observed:
        """Return what is seen, in three steps."""
        seen = self._seen
        self._spin(_DISCOVERY, lambda: all(c.service_is_ready() for c in self._asking.values()))
        self._spin(_LATCHED_TIME)
        seen.servers = {name: count_servers(self._node, _SERVICE[name]) for name in NODES}
        seen.driver_servers = {name: count_servers(self._node, name) for name in SERVICES}
        self._ask_parameters()
        prefix = seen.parameter('tf_prefix') or ''
        self._names = tuple(prefix + name for name in JOINT_NAMES)
        frames = Frames(self._node, prefix, None)
        self._is_sampling = True
        self._spin(_SAMPLE)
        self._is_sampling = False
        self._ask_robot()
        seen.unheard = self._unheard()
        self._compare(frames, prefix)
        return seen

    def _spin(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + seconds
        while not is_done() and (left := end - time.monotonic()) > 0.0:
            if self._is_ended():
                return
            self._executor.spin_once(timeout_sec=min(left, 0.1))

    def _replies(self, requests: 'Mapping[Any, Future[Any]]') -> dict[Any, Any]:
        """Return the replies that come in time, by name."""
        self._spin(_REPLY, lambda: all(future.done() for future in requests.values()))
        return {name: future.result() for name, future in requests.items() if future.done()}

    def _ask_parameters(self) -> None:
        names = {node: [*SHARED, *OWN[node]] for node in NODES}
        # One by one: a node that lacks one name of a request returns none of its values.
        requests = {
            (node, name): client.call_async(GetParameters.Request(names=[name]))
            for node, client in self._asking.items()
            if client.service_is_ready()
            for name in names[node]
        }
        for (node, name), reply in self._replies(requests).items():
            values = self._seen.parameters.setdefault(node, {})
            if reply.values and (value := parameter_value_to_python(reply.values[0])) is not None:
                values[name] = value

    def _ask_robot(self) -> None:
        """Ask for the controllers, and for the robot's model, which not every dashboard gives."""
        questions = (
            ('controllers', self._list, ListControllers.Request()),
            ('model', self._model, GetRobotModel.Request()),
        )
        replies = self._replies({
            name: client.call_async(request)
            for name, client, request in questions
            if client.service_is_ready()
        })
        if listed := replies.get('controllers'):
            self._seen.controllers = {c.name: c.state for c in listed.controller}
        if (told := replies.get('model')) and told.success:
            self._seen.robot_model = told.robot_model

    def _unheard(self) -> dict[str, str]:
        """Return the topics of this namespace on which a publisher does not reach our nodes."""
        space = self._node.get_namespace().rstrip('/') + '/'
        found: dict[str, str] = {}
        for topic, _types in self._node.get_topic_names_and_types():
            if topic.startswith(space):
                reasons = mismatches(self._node, topic, NODES)
                for name, why in reasons.items():
                    found[topic] = f'{name} publishes with {why}'
        return found

    def _compare(self, frames: Frames, prefix: str) -> None:
        """Look tool0 up in TF, and in our kinematics at the joints of the same moment."""
        if self._state is not None and self._fk.service_is_ready():
            requests = {
                link: self._fk.call_async(fk_request(link, f'{prefix}base', self._state))
                for link in ('tool0', 'tcp')
            }
            poses = {
                name: pose_to_matrix(reply.pose_stamped[0].pose)
                for name, reply in self._replies(requests).items()
                if reply.pose_stamped
            }
            self._seen.T_fk = poses.get('tool0')
            if len(poses) == len(requests):
                self._seen.T_tcp = inverse_transform(poses['tool0']) @ poses['tcp']
        try:
            self._seen.T_tf = frames.T_base_frame(f'{prefix}tool0')
        except Ur5PickPlaceError:
            self._seen.T_tf = None

    # -- callbacks -----------------------------------------------------------------------------

    def _on_clock(self, message: Clock) -> None:
        self._clock = to_seconds(message.clock)

    def _on_joints(self, message: JointState, info: Mapping[str, Any]) -> None:
        if not is_of_this_arm(message, self._names):
            return
        if problem := self._source.problem(message, self._names, *origin_of(info)):
            self._seen.bad_joints = problem
            return
        try:
            joints_from_state(message, self._names)
        except InvalidInput as error:
            self._seen.bad_joints = str(error)
            return
        self._state = message
        if not self._is_sampling:
            return
        stamp = to_seconds(message.header.stamp)
        is_simulated = self._seen.parameter('use_sim_time')
        now = self._clock if is_simulated else time.time()
        self._seen.arrivals.append(time.monotonic())
        self._seen.stamps.append(stamp)
        if now is not None:
            self._seen.ages.append(now - stamp)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        space, seen = self._node.get_namespace().rstrip('/'), self._seen
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            if status.name == f'{space}/{PLANNER}' and STREAMS in values:
                seen.why_no_stream = '' if values[STREAMS] == ACCEPTED else values[STREAMS]
            elif status.name == f'{space}/{TASK}':
                seen.gripper = values.get(GRIPPER, '')
                seen.gripper_advice = values.get(GRIPPER_ADVICE, '')

    def _on_log(self, message: Log) -> None:
        if _VERIFICATION in message.msg:
            self._seen.driver_refusal = message.msg

    def _on_scaling(self, message: Float64) -> None:
        self._seen.scaling = message.data / 100.0  # the driver publishes percent

    def _on_scene(self, data: bytes) -> None:
        try:
            world = read_scene(read_message(data, PlanningScene)).world
        except InvalidInput as error:
            self._seen.objects, self._seen.refused = [], f'{SCENE_TOPIC}: {error}'
            return
        self._seen.objects = [shown(name) for name in (*world.objects, *world.attached)]
        self._seen.refused = world.refusal


def _where(node: Node) -> str:
    variables = ('ROS_AUTOMATIC_DISCOVERY_RANGE', 'RMW_IMPLEMENTATION')
    chosen = [f'{name}={os.environ[name]}' for name in variables if name in os.environ]
    domain = f'ROS_DOMAIN_ID {node.context.get_domain_id()}'
    return ', '.join([domain, f'namespace {node.get_namespace()}', *chosen])
