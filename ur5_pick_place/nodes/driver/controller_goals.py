# SPDX-License-Identifier: Apache-2.0
"""Monitors and cancels the goals of the robot's controllers, whoever sent them."""

import time
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from controller_manager_msgs.srv import ListControllers
from moveit_msgs.action import ExecuteTrajectory
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.control.escalation import StopProgress
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.driver.controller_manager import (
    MODES,
    ControllerManager,
    moves_joints,
)
from ur5_pick_place.nodes.ros.distro import name_method
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader

PASSTHROUGH = 'passthrough_trajectory_controller'
"""The controller that hands whole trajectories to the robot and takes one at a time."""

# Every controller of the UR driver that moves the arm by goals; one of them is active.
_CONTROLLERS = (
    'scaled_joint_trajectory_controller',
    'joint_trajectory_controller',
    PASSTHROUGH,
)
_PRIMITIVES = 'motion_primitive_forward_controller/motion_sequence'  # from Kilted on
_UNDER_WAY = (
    GoalStatus.STATUS_ACCEPTED,
    GoalStatus.STATUS_EXECUTING,
    GoalStatus.STATUS_CANCELING,
)
_LARGEST = 65_536  # [bytes] of a goal status message, for about 2,000 goals
_NOTHING_LEFT = 0.5  # [s] of nothing to cancel after which reported goals count as ended
_LIST_TIME = 2.0  # [s] the controller manager may take to list its controllers
_SWITCHING = 1.5  # [s] after a switch, while the arm may still be seen moving
_ANSWER_TIME = 1.0  # [s] after which an answer to a cancel is no longer waited for
_SAME_STOP = 5.0  # [s] without a request after which the next one belongs to a new stop


def check_method(controller: str, method: str) -> None:
    """
    Refuse a method that the controller, or this distribution of ROS, cannot follow.

    Raises `InvalidInput`: the method is a closed loop, and the controller takes whole trajectories
    only, or the messages are those of Humble.
    """
    if method not in METHODS:
        return
    name_method(ExecuteTrajectory.Goal(), method)
    if controller == PASSTHROUGH:
        raise InvalidInput(
            f'method = {method!r}: {PASSTHROUGH} takes whole trajectories, and a closed loop '
            'needs a stream: use method ik or another controller'
        )


class ControllerGoals:
    """Monitors and cancels the goals of all controllers that move the arm."""

    def __init__(self, cell: Cell, manager: ControllerManager) -> None:
        node, self._joint_names = cell.node, cell.joint_names
        self._controller = cell.robot.controller
        names = dict.fromkeys((self._controller, *_CONTROLLERS))
        actions = [*(f'{name}/follow_joint_trajectory' for name in names), _PRIMITIVES]
        self._controllers = [_OneController(node, action) for action in actions]
        self._manager, self._list = manager, manager.lists(_LIST_TIME)
        self._log = node.get_logger()
        # Steady times [s] of the last restart of our controller, and of any switch.
        self._restarted, self._switched = -_SAME_STOP, -_SWITCHING
        # Whether joint_states were missing already when the controller manager last answered
        # during this stop.
        self._is_unseen = False

    @property
    def goals(self) -> frozenset[bytes]:
        """Ids of the goals that have not ended, as the controllers report."""
        return frozenset().union(*(one.goals for one in self._controllers))

    @property
    def why_not_canceled(self) -> str:
        """Which controller with a goal does not answer, and what to do; empty if none."""
        silent = [one.name for one in self._controllers if one.is_silent]
        if not silent:
            return ''
        return (
            f'{", ".join(silent)} has a goal and does not answer requests to cancel it: check '
            'that controller_manager runs (ros2 control list_controllers), or restart the driver'
        )

    def cancel(self) -> None:
        """Send every available controller a request to cancel all its goals."""
        for one in self._controllers:
            one.cancel()

    def stop_other_motion(self, stop_progress: Callable[[], StopProgress]) -> None:
        """
        Deactivate other controllers that command the arm's joints, and activate ours.

        If there is none and the arm keeps moving, another client must be commanding our controller
        by its topic. Ours is then restarted, so that it holds the arm; if the arm moves again, it
        stays inactive. Without recent joint_states the arm may be moving:
        our controller is then restarted once, and does not stay inactive.

        `stop_progress`: returns how far the stop has come; called when the controller manager has
        answered, which may be late.
        """
        before = self._list.last
        if not self._list.is_there or time.monotonic() - self._switched < _SWITCHING:
            return
        request = ListControllers.Request()
        is_sent = self._list.send_if_due(
            request, lambda listed: self._on_listed(listed, stop_progress())
        )
        if is_sent and self._list.last - before > _SAME_STOP:
            self._is_unseen = False

    def _on_listed(self, reply: Any, seen: StopProgress) -> None:
        if seen is StopProgress.OVER:
            return
        active = [c for c in reply.controller if c.state == 'active']
        others = [
            c.name
            for c in active
            if c.name != self._controller and moves_joints(c, self._joint_names, MODES)
        ]
        is_on = any(c.name == self._controller for c in active)
        if others:
            self._log.error(
                f'stopping the arm: deactivating {", ".join(others)}, which can move it'
            )
            self._switch(on=[] if is_on else [self._controller], off=others)
        elif is_on and seen is StopProgress.MOVING_ON:
            is_again = time.monotonic() - self._restarted < _SAME_STOP
            self._switch_off_ours('the arm does not stop', is_to_stay_off=is_again)
        elif is_on and seen is StopProgress.UNSEEN and not self._is_unseen:
            why = 'no recent joint_states show whether the arm has stopped'
            self._switch_off_ours(why, is_to_stay_off=False)
        self._is_unseen = seen is StopProgress.UNSEEN

    def _switch_off_ours(self, why: str, is_to_stay_off: bool) -> None:
        ours = self._controller
        self._restarted = time.monotonic()
        switched = self._switch(on=[], off=[ours])
        if is_to_stay_off:
            self._log.error(
                f'{why}: {ours} is inactive, as another client goes on commanding '
                'it by its topic: end that client, then '
                f'ros2 control switch_controllers --activate {ours}'
            )
        else:
            self._log.error(f'{why}: restarting {ours}')

            def switch_on(_reply: 'Future[Any]') -> None:
                self._switch(on=[ours], off=[])

            switched.add_done_callback(switch_on)

    def _switch(self, on: list[str], off: list[str]) -> 'Future[Any]':
        self._switched = time.monotonic()
        return self._manager.begin_to_switch(on, off)


class _OneController:
    """The goals of one controller's action."""

    def __init__(self, node: Node, action: str) -> None:
        self.name = action.partition('/')[0]
        self._cancel: Client[Any, Any] = node.create_client(
            CancelGoal, f'{action}/_action/cancel_goal'
        )
        topic = f'{action}/_action/status'
        self._reader = BoundedReader(node, GoalStatusArray, topic, _LARGEST)
        node.create_subscription(GoalStatusArray, topic, self._on_message, LATCHED, raw=True)
        self._goals: frozenset[bytes] = frozenset()
        self._nothing_since: float | None = None
        self._calls = RepeatedCall(self._cancel, _ANSWER_TIME)
        self._silent_since = 0.0  # since when no request was answered, steady time [s]

    @property
    def goals(self) -> frozenset[bytes]:
        if self._goals and not self._cancel.service_is_ready():
            self._goals = frozenset()  # the driver has gone, and its goals with it
        return self._goals

    @property
    def is_silent(self) -> bool:
        """Whether it has a goal and has answered no request for `_ANSWER_TIME`."""
        return self._calls.last - self._silent_since > _ANSWER_TIME and bool(self.goals)

    def cancel(self) -> None:
        if not self._calls.is_there:
            return
        if not self._calls.is_waiting:
            self._silent_since = time.monotonic()
        self._calls.send(CancelGoal.Request(), self._on_canceled)

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
        self._silent_since = now = time.monotonic()
        if answer.goals_canceling:
            self._nothing_since = None
        elif self._nothing_since is None or not self._goals:
            self._nothing_since = now
        elif now - self._nothing_since > _NOTHING_LEFT:
            self._goals = frozenset()
