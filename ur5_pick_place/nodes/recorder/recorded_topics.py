# SPDX-License-Identifier: Apache-2.0
"""The topics of a recording, and how they are received: as bytes, and polled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

from action_msgs.msg import GoalStatusArray
from control_msgs.msg import JointJog, JointTrajectoryControllerState
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, TwistStamped
from moveit_msgs.msg import PlanningScene
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray, String
from tf2_msgs.msg import TFMessage
from trajectory_msgs.msg import JointTrajectory
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_msgs.msg import IOStates, ToolDataMsg
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode

MOTION_STATE = 'trajectory_planner/motion_state'
TASK_STATE = 'pick_place/state'
EXECUTION_EVENT = 'trajectory_execution_event'

_MB = 2**20
_CONTROLLERS = ('scaled_joint_trajectory_controller', 'joint_trajectory_controller')
_IO = 'io_and_status_controller'


class Delivery(Enum):
    """
    How a topic is received.

    A stream is best effort, so that a recorder that stalls holds nobody up. Its depth holds 0.2 s
    of 500 Hz from an e-Series and 500 Hz from its gripper, in a simulation at twice real time.
    """

    STREAM = QoSProfile(depth=400, reliability=ReliabilityPolicy.BEST_EFFORT)
    EVENTS = QoSProfile(depth=100)
    LATCHED = QoSProfile(depth=32, durability=DurabilityPolicy.TRANSIENT_LOCAL)


@dataclass(frozen=True)
class RecordedTopic:
    name: str  # relative, so that a namespace moves it; `/tf` and `/tf_static` are remapped
    kind: type  # its messages
    delivery: Delivery
    # largest memory for it in the flight recorder [bytes]: 60 s of 500 Hz from an e-Series and 500
    # Hz from its gripper, with reserve
    most: int = 4 * _MB
    is_shown: bool = False  # by a replay; never what commands

    @property
    def is_latched(self) -> bool:
        """Whether whoever comes late receives it too."""
        return self.delivery is Delivery.LATCHED


def recorded_topics(controller: str) -> tuple[RecordedTopic, ...]:
    """Return the topics of a recording; `controller` moves the arm."""
    stream, events, latched = Delivery.STREAM, Delivery.EVENTS, Delivery.LATCHED
    shown = partial(RecordedTopic, is_shown=True)
    topics = [
        shown('joint_states', JointState, stream, 48 * _MB),
        shown(f'{_IO}/io_states', IOStates, stream, 48 * _MB),
        shown(f'{_IO}/tool_data', ToolDataMsg, stream, 12 * _MB),
        shown(f'{_IO}/robot_mode', RobotMode, latched),
        shown(f'{_IO}/safety_mode', SafetyMode, latched),
        shown(f'{_IO}/robot_program_running', Bool, latched),
        shown('speed_scaling_state_broadcaster/speed_scaling', Float64, stream, 12 * _MB),
        RecordedTopic('forward_velocity_controller/commands', Float64MultiArray, events),
        shown(MOTION_STATE, String, latched),
        RecordedTopic('trajectory_planner/sent_goal', JointTrajectory, events, 16 * _MB),
        RecordedTopic('trajectory_planner/delta_twist_cmds', TwistStamped, events),
        RecordedTopic('trajectory_planner/delta_joint_cmds', JointJog, events),
        RecordedTopic(EXECUTION_EVENT, String, events),
        shown('planned_path', MarkerArray, events, 16 * _MB),
        shown('monitored_planning_scene', PlanningScene, latched, 32 * _MB),
        shown(TASK_STATE, String, latched),
        shown('pick_place/event', String, events, 8 * _MB),
        shown('pick_place/markers', MarkerArray, latched, 16 * _MB),
        RecordedTopic('/diagnostics', DiagnosticArray, events),
        shown('/tf', TFMessage, stream, 16 * _MB),
        shown('/tf_static', TFMessage, latched),
        shown('robot_description', String, latched),
        shown('sim_driver/part_pose', PoseStamped, stream),
        shown('sim_driver/finger_states', JointState, stream),
    ]
    for name in dict.fromkeys((controller, *_CONTROLLERS)):
        topics += [
            shown(f'{name}/controller_state', JointTrajectoryControllerState, stream, 48 * _MB),
            RecordedTopic(f'{name}/joint_trajectory', JointTrajectory, events, 16 * _MB),
            RecordedTopic(
                f'{name}/follow_joint_trajectory/_action/status', GoalStatusArray, latched
            ),
        ]
    return tuple(topics)


Take = Callable[[str, RecordedTopic, Sequence[TakenMessage]], object]
"""Takes the resolved name of a topic, the topic, and messages: at least one, oldest first."""


def subscribe_all(
    node: SerialNode, topics: Sequence[RecordedTopic], take: Take, period: float
) -> list[Callable[[], bool]]:
    """
    Have topics polled by the node's reader, each once per period [s].

    Returns what polls each topic at once.
    """

    def subscribe(topic: RecordedTopic) -> Callable[[], bool]:
        take_these = partial(take, node.resolve_topic_name(topic.name), topic)
        return node.reader.subscribe(
            topic.kind, topic.name, take_these, topic.delivery.value, period
        )

    return [subscribe(topic) for topic in topics]
