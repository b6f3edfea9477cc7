# SPDX-License-Identifier: Apache-2.0
"""Monitors and cancels the goals of the robot's trajectory controllers, whoever sent them."""

import time
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.nodes.bounded_reader import BoundedReader
from ur5_pick_place.nodes.conversions import duration_to_msg
from ur5_pick_place.nodes.qos import LATCHED

# Every controller of the UR driver that takes trajectories as goals; one of them is active.
_CONTROLLERS = (
    'scaled_joint_trajectory_controller',
    'joint_trajectory_controller',
    'passthrough_trajectory_controller',
)
_UNDER_WAY = (
    GoalStatus.STATUS_ACCEPTED,
    GoalStatus.STATUS_EXECUTING,
    GoalStatus.STATUS_CANCELING,
)
# What other controllers of the UR driver claim instead of joints to move the arm.
_MODES = ('force_mode', 'trajectory_passthrough')
_LARGEST = 65_536  # [bytes] of a goal status message, for about 2,000 goals
_NOTHING_LEFT = 0.5  # [s] for which a controller has had nothing to cancel
_SWITCH_TIME = 2.0  # [s] the controller manager may take


class ControllerGoals:
    """
    Monitors and cancels the goals of all trajectory controllers.

    Parameters
    ----------
    node : Node
    controller : str
        The one that this package uses.
    joint_names : sequence of str
        With the prefix.
    group : CallbackGroup

    """

    def __init__(
        self, node: Node, controller: str, joint_names: tuple[str, ...], group: CallbackGroup
    ) -> None:
        self._controller, self._joint_names = controller, joint_names
        self._controllers = [
            _OneController(node, name, group)
            for name in dict.fromkeys((controller, *_CONTROLLERS))
        ]
        self._list: Client[Any, Any] = node.create_client(
            ListControllers, 'controller_manager/list_controllers', callback_group=group
        )
        self._switch: Client[Any, Any] = node.create_client(
            SwitchController, 'controller_manager/switch_controller', callback_group=group
        )
        self._log = node.get_logger()

    @property
    def active(self) -> frozenset[bytes]:
        """Ids of the goals that have not ended, as the controllers report."""
        return frozenset().union(*(one.goals for one in self._controllers))

    def cancel(self) -> None:
        """Request every available controller to cancel all its goals."""
        for one in self._controllers:
            one.cancel()

    def take_over(self) -> None:
        """Deactivate other controllers that command the arm's joints, and activate ours."""
        if self._list.service_is_ready():
            listed = self._list.call_async(ListControllers.Request())
            listed.add_done_callback(self._deactivate_others)

    def _deactivate_others(self, listed: 'Future[Any]') -> None:
        reply: Any = listed.result()
        active = [c for c in reply.controller if c.state == 'active']
        others = [c.name for c in active if c.name != self._controller and self._moves(c)]
        if not others:
            return
        self._log.error(f'the arm does not stop: switching off {", ".join(others)}')
        is_on = any(c.name == self._controller for c in active)
        request = SwitchController.Request(
            activate_controllers=[] if is_on else [self._controller],
            deactivate_controllers=others,
            strictness=SwitchController.Request.BEST_EFFORT,
            activate_asap=True,
            timeout=duration_to_msg(_SWITCH_TIME),
        )
        self._switch.call_async(request)

    def _moves(self, controller: Any) -> bool:
        claimed = (name.partition('/')[0] for name in controller.claimed_interfaces)
        return any(c in self._joint_names or c.endswith(_MODES) for c in claimed)


class _OneController:
    """The goals of one controller."""

    def __init__(self, node: Node, name: str, group: CallbackGroup) -> None:
        action = f'{name}/follow_joint_trajectory/_action'
        self._cancel: Client[Any, Any] = node.create_client(
            CancelGoal, f'{action}/cancel_goal', callback_group=group
        )
        topic = f'{action}/status'
        self._reader = BoundedReader(node, GoalStatusArray, topic, _LARGEST)
        node.create_subscription(
            GoalStatusArray,
            topic,
            self._on_message,
            LATCHED,
            callback_group=group,
            raw=True,
        )
        self._goals: frozenset[bytes] = frozenset()
        self._nothing_since: float | None = None

    @property
    def goals(self) -> frozenset[bytes]:
        if self._goals and not self._cancel.service_is_ready():
            self._goals = frozenset()  # the driver has gone, and its goals with it
        return self._goals

    def cancel(self) -> None:
        if self._cancel.service_is_ready():
            answer = self._cancel.call_async(CancelGoal.Request())
            answer.add_done_callback(lambda future: self._on_canceled(future.result()))

    def _on_message(self, data: bytes) -> None:
        message = self._reader.read(data)
        if message is None:
            return
        goals = frozenset(
            bytes(status.goal_info.goal_id.uuid)
            for status in message.status_list
            if status.status in _UNDER_WAY
        )
        if goals - self._goals:
            self._nothing_since = None
        self._goals = goals

    def _on_canceled(self, answer: CancelGoal.Response) -> None:
        # The last status of a killed driver stays latched; its successor publishes none before its
        # first goal, but it replies that it has nothing to cancel.
        now = time.monotonic()
        if answer.goals_canceling:
            self._nothing_since = None
        elif self._nothing_since is None or not self._goals:
            self._nothing_since = now
        elif now - self._nothing_since > _NOTHING_LEFT:
            self._goals = frozenset()
