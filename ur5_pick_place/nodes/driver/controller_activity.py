# SPDX-License-Identifier: Apache-2.0
"""Whether the trajectory controller is active; when in doubt the controller manager is queried."""

import time
from typing import Any

from controller_manager_msgs.srv import ListControllers
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node

from ur5_pick_place.control.robot_status import RobotStatus

# [s, steady clock] between two requests: at first, and after `_SOON` seconds of doubt.
_PERIOD, _LATER_PERIOD, _SOON = 0.1, 1.0, 3.0
_REPLY_TIME = 1.0  # [s, steady clock]


class ControllerActivity:
    """
    Keeps `RobotStatus.why_inactive` up to date until the controller is known to be active.

    The driver deactivates the controller when the program on the robot ends, and activates it only
    a moment after the program runs again; until then it would refuse a motion.

    """

    def __init__(
        self, node: Node, controller: str, status: RobotStatus, group: CallbackGroup
    ) -> None:
        self._controller, self._status = controller, status
        self._invalidated = self._last_request = 0.0
        self._request: Any = None  # a Future
        self._list: Client[Any, Any] = node.create_client(
            ListControllers, 'controller_manager/list_controllers', callback_group=group
        )

    def invalidate(self) -> None:
        """Let the controller count as inactive until the controller manager has answered."""
        self._status.why_inactive = (
            f'waiting for {self._list.srv_name} to report whether {self._controller} is active'
        )
        self._drop_request()
        self._invalidated = time.monotonic()

    def request_if_due(self) -> None:
        """Send another request, if one is due; to be called repeatedly."""
        if not self._status.why_inactive:
            return
        if not self._list.service_is_ready():
            self._status.why_inactive = ''  # this cannot be known
            return
        now = time.monotonic()
        period = _PERIOD if now - self._invalidated < _SOON else _LATER_PERIOD
        if self._request is not None:
            if now - self._last_request < (period if self._request.done() else _REPLY_TIME):
                return
            self._drop_request()
        self._last_request = now
        self._request = self._list.call_async(ListControllers.Request())
        self._request.add_done_callback(self._on_listed)

    def _drop_request(self) -> None:
        if self._request is not None and not self._request.done():
            self._list.remove_pending_request(self._request)
        self._request = None

    def _on_listed(self, listed: Any) -> None:
        if self._request is not listed:
            return  # it was sent before the latest invalidation
        name, reply = self._controller, listed.result()
        # One that is not listed belongs to another controller manager.
        state = next((c.state for c in reply.controller if c.name == name), 'active')
        self._status.why_inactive = (
            ''
            if state == 'active'
            else f'{name} is {state}: the driver activates it just after the program starts; if '
            f'not, ros2 control switch_controllers --activate {name}'
        )
