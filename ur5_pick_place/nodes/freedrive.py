# SPDX-License-Identifier: Apache-2.0
"""Freedrive: switches the controllers there and back, and keeps freedrive mode enabled."""

from typing import Any

from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import Bool

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.asking import ask
from ur5_pick_place.nodes.conversions import duration_to_msg
from ur5_pick_place.nodes.distro import read
from ur5_pick_place.nodes.qos import SWITCHING

_CONTROLLER = 'freedrive_mode_controller'
_KEEP_ALIVE = 0.3  # [s], steady clock; the controller leaves freedrive after 1 s without a message
_SWITCH_TIME = 5.0  # [s] the controller manager may take


class Freedrive:
    """
    Switches between the trajectory controller and the driver's freedrive mode.

    An earlier run of this node may have left the freedrive controller active; that is checked at
    the start and before each switch.

    Parameters
    ----------
    node : Node
    controller : str
        The trajectory controller to return to.
    group : CallbackGroup
        Reentrant.

    Attributes
    ----------
    is_on : bool
        Whether the freedrive controller is active instead of the trajectory controller.

    """

    def __init__(self, node: Node, controller: str, group: CallbackGroup) -> None:
        self.is_on = False
        self._is_kept_on = False  # whether this node keeps freedrive enabled
        self._node, self._controller = node, controller
        self._list: Client[Any, Any] = node.create_client(
            ListControllers, 'controller_manager/list_controllers', callback_group=group
        )
        self._switch: Client[Any, Any] = node.create_client(
            SwitchController,
            'controller_manager/switch_controller',
            qos_profile=SWITCHING,
            callback_group=group,
        )
        self._enable = node.create_publisher(Bool, f'{_CONTROLLER}/enable_freedrive_mode', 10)
        self._request: Future[Any] | None = None
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(
            _KEEP_ALIVE, self._keep_on, callback_group=group, clock=steady
        )

    async def switch(self, is_on: bool) -> None:
        """
        Enter freedrive, or leave it with the arm where it is.

        Raises
        ------
        ExecutionError
            The controllers could not be switched; nothing has changed.

        """
        listed = await ask(self._node, self._list, ListControllers.Request(), _SWITCH_TIME)
        active = _active(listed)
        self.is_on = _CONTROLLER in active
        on, off = (_CONTROLLER, self._controller) if is_on else (self._controller, _CONTROLLER)
        if not is_on:
            self._is_kept_on = False
            self._enable.publish(Bool(data=False))
        if on not in active or off in active:
            await self._change(on, off, active)
        self.is_on = self._is_kept_on = is_on
        self._keep_on()

    async def _change(self, on: str, off: str, active: set[str]) -> None:
        request = SwitchController.Request(
            activate_controllers=[on] if on not in active else [],
            deactivate_controllers=[off] if off in active else [],
            strictness=SwitchController.Request.STRICT,
            activate_asap=True,
            timeout=duration_to_msg(_SWITCH_TIME),
        )
        reply = await ask(self._node, self._switch, request, 2.0 * _SWITCH_TIME)
        if not reply.ok:
            why = read(reply, 'message', '') or 'check its log'
            raise ExecutionError(f'the controller manager did not switch to {on}: {why}')

    def _keep_on(self) -> None:
        if self._is_kept_on:
            self._enable.publish(Bool(data=True))
        elif self._request is None and self._list.service_is_ready():
            self._request = self._list.call_async(ListControllers.Request())
            self._request.add_done_callback(self._find_out)

    def _find_out(self, listed: 'Future[Any]') -> None:
        """Check once, at the start, whether an earlier run left the arm in freedrive."""
        self.is_on = self.is_on or _CONTROLLER in _active(listed.result())


def _active(listed: ListControllers.Response) -> set[str]:
    return {controller.name for controller in listed.controller if controller.state == 'active'}
