# SPDX-License-Identifier: Apache-2.0
"""The driver's controller manager: which controllers are active, and switching between them."""

import time
from collections.abc import Sequence
from typing import Any

from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.messages.conversions import duration_to_msg
from ur5_pick_place.nodes.ros.distro import read
from ur5_pick_place.nodes.ros.qos import SWITCHING
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall, call_service

LIST, SWITCH = 'controller_manager/list_controllers', 'controller_manager/switch_controller'
"""Its services."""

# What other controllers of the UR driver claim instead of joints.
MODES = (
    'force_mode',
    'trajectory_passthrough',
    'freedrive_mode',
    'motion_primitive',
    'tool_contact',
)
_SWITCH_TIME = 5.0  # [s] it may take
# [s, steady clock] between two requests of `ControllerActivity`: at first, and after `_SOON`
# seconds of doubt.
_PERIOD, _LATER_PERIOD, _SOON = 0.1, 1.0, 3.0
_REPLY_TIME = 1.0  # [s, steady clock]


class ControllerManager:
    """Its client; one for all of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._list: Client[Any, Any] = node.create_client(ListControllers, LIST)
        self._switch: Client[Any, Any] = node.create_client(
            SwitchController, SWITCH, qos_profile=SWITCHING
        )

    @property
    def is_there(self) -> bool:
        return self._list.service_is_ready()

    def lists(self, patience: float) -> RepeatedCall:
        """Return repeated requests for the list of controllers, given up after a time [s]."""
        return RepeatedCall(self._list, patience)

    async def active(self) -> set[str]:
        """Return the names of the active controllers; errors as `call_service`."""
        request = ListControllers.Request()
        listed = await call_service(self._node, self._list, request, _SWITCH_TIME)
        return active_names(listed)

    async def switch(self, on: Sequence[str], off: Sequence[str]) -> None:
        """
        Activate and deactivate controllers.

        Raises `ExecutionError`: the controller manager does not answer, or has not done so.
        """
        # The driver deactivates by itself when the program stops, perhaps just now.
        request = _switch_request(on, off, is_strict=bool(on))
        reply = await call_service(self._node, self._switch, request, 2.0 * _SWITCH_TIME)
        if not reply.ok:
            why = read(reply, 'message', '') or 'check its log'
            what = f'switch to {on[0]}' if on else f'deactivate {off[0]}'
            raise ExecutionError(f'the controller manager did not {what}: {why}')

    def begin_to_switch(self, on: Sequence[str], off: Sequence[str]) -> 'Future[Any]':
        """Activate and deactivate what can be; return a future of the reply."""
        return self._switch.call_async(_switch_request(on, off, is_strict=False))


def _switch_request(
    on: Sequence[str], off: Sequence[str], is_strict: bool
) -> SwitchController.Request:
    kind = SwitchController.Request
    return kind(
        activate_controllers=on,
        deactivate_controllers=off,
        strictness=kind.STRICT if is_strict else kind.BEST_EFFORT,
        activate_asap=True,
        timeout=duration_to_msg(_SWITCH_TIME),
    )


def active_names(listed: ListControllers.Response) -> set[str]:
    return {c.name for c in listed.controller if c.state == 'active'}


def moves_joints(
    controller: Any, joint_names: Sequence[str], modes: tuple[str, ...] = ()
) -> bool:
    """
    Return whether a controller, as the controller manager lists it, commands the joints.

    Also if it has the robot in one of some `modes`.
    """
    claims = [name.partition('/')[0] for name in controller.claimed_interfaces]
    return any(claimed in joint_names or claimed.endswith(modes) for claimed in claims)


class ControllerActivity:
    """
    Keeps `RobotStatus.why_inactive` up to date until the controller is known to be active.

    The driver deactivates the controller when the program on the robot ends, and activates it only
    a moment after the program runs again; until then it would refuse a motion.
    """

    def __init__(self, manager: ControllerManager, controller: str, status: RobotStatus) -> None:
        self._controller, self._status, self._invalidated = controller, status, 0.0
        self._list = manager.lists(_REPLY_TIME)

    def invalidate(self) -> None:
        """Let the controller count as inactive until the controller manager has answered."""
        self._status.why_inactive = (
            f'waiting for {LIST} to report whether {self._controller} is active'
        )
        self._list.forget()
        self._invalidated = time.monotonic()

    def request_if_due(self) -> None:
        """Send another request, if one is due; to be called repeatedly."""
        if not self._status.why_inactive:
            return
        if not self._list.is_there:
            self._status.why_inactive = ''  # this cannot be known
            return
        is_early = time.monotonic() - self._invalidated < _SOON
        period = _PERIOD if is_early else _LATER_PERIOD
        self._list.send_if_due(ListControllers.Request(), self._on_listed, period)

    def _on_listed(self, reply: ListControllers.Response) -> None:
        name = self._controller
        # One that is not listed belongs to another controller manager.
        state = next((c.state for c in reply.controller if c.name == name), 'active')
        self._status.why_inactive = (
            ''
            if state == 'active'
            else f'{name} is {state}: the driver activates it just after the program starts; if '
            f'not, ros2 control switch_controllers --activate {name}'
        )
