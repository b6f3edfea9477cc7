# SPDX-License-Identifier: Apache-2.0
"""The cockpit as a client of the cell's nodes: what it requests and what it receives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from moveit_msgs.srv import GetPositionIK
from rcl_interfaces.msg import Log
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from visualization_msgs.msg import MarkerArray
from visualization_msgs.srv import GetInteractiveMarkers

from ur5_pick_place.client import requests
from ur5_pick_place.client.connection import (
    PLANNER,
    SIM_DRIVER,
    STATES,
    TASK,
    Connection,
    Event,
)
from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.errors import one_line
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall
from ur5_pick_place.task.places.names import HOME

_LARGEST_DRAWING = 4_194_304  # [bytes] of the markers of a plan
_SOLUTION_TIME = 1.0  # [s] after which the solutions of a dragged pose are no longer wanted
_WARNING_PERIOD = 10.0  # [s]
_LONGEST = 400  # characters of a reason that are shown


@dataclass(frozen=True)
class Offers:
    """What the nodes of the cell offer at present."""

    # places that can be taught from the joints, those that can be taught by a pose (all but home),
    # and which of these a drag can teach: the others are read from TF
    teachable: tuple[str, ...] = ()
    pose_teachable: tuple[str, ...] = ()
    movable: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()  # of the simulated cell; empty for another
    is_simulated: bool = False


class CellLink(Connection):
    """
    The connection of the cockpit.

    `base_link`: with the prefix. `on_event`: takes an event of the task node. `on_drawing`: takes
    a name and a MarkerArray: `plan` or `path`. `on_jog`: takes what the planner logs about a jog:
    why it was refused, slowed or ended. `on_figures`: takes the values of the task node's
    diagnostics, by name.
    """

    def __init__(
        self,
        node: Node,
        base_link: str,
        on_event: Callable[[Event], object],
        on_drawing: Callable[[str, MarkerArray], object],
        on_jog: Callable[[str], object],
        on_figures: Callable[[dict[str, str]], object],
    ) -> None:
        super().__init__(node, ReentrantCallbackGroup())
        self._base_link, self._on_event = base_link, on_event
        self._on_jog, self._on_figures = on_jog, on_figures
        self._poses: dict[str, Any] = {}
        self._task_nodes = 0
        self._movable: set[str] | None = None  # until the task node has reported it
        self.state = CellState()
        self._ik = self.client(GetPositionIK, 'compute_ik_all')
        self._solving = RepeatedCall(self._ik, _SOLUTION_TIME)
        markers = f'{TASK}/teach_markers/get_interactive_markers'
        self._finding = RepeatedCall(self.client(GetInteractiveMarkers, markers))
        self.hear_state(TASK, self._on_task, LATCHED)
        self.hear_state(PLANNER, self._on_planner, LATCHED)
        self.hear_events(self._show_event)
        self.hear_planner(self._on_log)
        for topic, name, qos in (
            (f'{TASK}/markers', 'plan', LATCHED),
            ('planned_path', 'path', QoSProfile(depth=1)),
        ):
            self.hear(MarkerArray, topic, partial(on_drawing, name), qos, _LARGEST_DRAWING)
        figures = QoSProfile(depth=100)
        self.hear(DiagnosticArray, '/diagnostics', self._on_diagnostics, figures)

    def _on_task(self, text: str) -> None:
        self.state = CellState(one_line(text)[:_LONGEST], self.state.planner)

    def _on_planner(self, text: str) -> None:
        self.state = CellState(self.state.task, one_line(text)[:_LONGEST])

    def _show_event(self, event: Event) -> None:
        try:
            self._on_event({key: _shown(value) for key, value in event.items()})
        except Exception as error:  # whatever another node publishes, the page stays
            self.node.get_logger().warning(
                one_line(f'{TASK}/event: {type(error).__name__}: {error}; the event is ignored: '
                         f'list its publishers: ros2 topic info -v {TASK}/event'),
                throttle_duration_sec=_WARNING_PERIOD,
            )

    def _on_log(self, message: Log) -> None:
        if message.msg.startswith('jog'):
            self._on_jog(one_line(message.msg)[:_LONGEST])

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        task = f'{self.node.get_namespace().rstrip("/")}/{TASK}'
        for status in message.status:
            if status.name == task:
                self._on_figures({item.key: item.value for item in status.values})

    # -- what is offered -------------------------------------------------------------------------

    def poll_offers(self) -> Offers:
        """Return what the nodes offer; call this once a second. Ends requests without answer."""
        node = self.node
        task_nodes = node.count_publishers(STATES[TASK])
        if not task_nodes:
            self._on_task('')
        if task_nodes != self._task_nodes:
            self._task_nodes, self._movable = task_nodes, None
        if self._movable is None and self._finding.is_there:
            # Only the task node knows which places it reads from TF: those cannot be dragged.
            self._finding.send(GetInteractiveMarkers.Request(), self._take_movable)
        if not node.count_publishers(STATES[PLANNER]):
            self._on_planner('')
        self.expire()
        teachable = self.services(f'{TASK}/teach_')
        # Home is defined by its joints: no pose can teach it.
        pose_teachable = tuple(place for place in teachable if place != HOME)
        simulated = self.services(f'{SIM_DRIVER}/')
        return Offers(
            teachable=teachable,
            pose_teachable=pose_teachable,
            movable=tuple(pose_teachable if (known := self._movable) is None else known),
            faults=self.services(f'{SIM_DRIVER}/faults/'),
            is_simulated='clear_faults' in simulated,
        )

    def _take_movable(self, reply: Any) -> None:
        self._movable = {str(marker.name) for marker in reply.markers}

    # -- requests; may be called from any thread --------------------------------------------------

    def send_pose(self, topic: str, T_base_link_pose: Array) -> None:
        """Publish a pose (4, 4) in `base_link`."""
        self.prepare_pose(topic)
        self._poses[topic].publish(requests.stamped(T_base_link_pose, self._base_link))

    def prepare_pose(self, topic: str) -> None:
        """Create a topic's publisher early: a pose sent before discovery would be lost."""
        if topic not in self._poses:
            self._poses[topic] = self.node.create_publisher(PoseStamped, topic, 10)

    def solve(
        self, T_base_link_tcp: Array, link: str, on_reply: Callable[[Any], None]
    ) -> None:
        """Request all solutions of a pose of `link`; nothing happens without the IK node."""
        if self._ik.service_is_ready():
            pose = requests.stamped(T_base_link_tcp, self._base_link)
            self._solving.send(requests.ik_request(pose, link, True), on_reply)


def _shown(value: Any) -> Any:
    """
    Return a value of an event for the page.

    Text becomes one line. Of a dict only the keys are shown. A list becomes the word 'list' unless
    it holds numbers only. Other values are unchanged.
    """
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):  # such as what a conversion has changed
        return one_line(', '.join(value))
    if isinstance(value, list) and not all(isinstance(item, (int, float)) for item in value):
        return type(value).__name__
    return value
