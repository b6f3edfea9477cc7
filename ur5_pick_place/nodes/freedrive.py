# SPDX-License-Identifier: Apache-2.0
"""Moving the arm by hand: controllers switched there and back, and kept awake meanwhile."""

from controller_manager_msgs.srv import SwitchController
from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from std_msgs.msg import Bool

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.asking import ask
from ur5_pick_place.nodes.conversions import duration_to_msg
from ur5_pick_place.nodes.distro import read
from ur5_pick_place.nodes.robot_link import SWITCHING

_CONTROLLER = 'freedrive_mode_controller'
_KEEP_ALIVE = 0.3  # [s], steady clock; the controller lets go after 1 s without a word
_SWITCH_TIME = 5.0  # [s] the controller manager may take


class Freedrive:
    """
    Switches between the trajectory controller and the driver's freedrive mode.

    Parameters
    ----------
    node : Node
    controller : str
        The trajectory controller to come back to.
    group : CallbackGroup
        Reentrant.

    """

    def __init__(self, node: Node, controller: str, group: CallbackGroup) -> None:
        self.is_on = False
        self._node, self._controller = node, controller
        self._switch = node.create_client(
            SwitchController,
            'controller_manager/switch_controller',
            qos_profile=SWITCHING,
            callback_group=group,
        )
        self._enable = node.create_publisher(Bool, f'{_CONTROLLER}/enable_freedrive_mode', 10)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(_KEEP_ALIVE, self._stay_awake, callback_group=group, clock=steady)

    async def switch(self, is_on: bool) -> None:
        """
        Let go of the arm, or take hold of it where it is.

        Raises
        ------
        ExecutionError
            The controllers could not be switched; the arm is as it was.

        """
        if is_on == self.is_on:
            return
        if not is_on:
            self.is_on = False
            self._enable.publish(Bool(data=False))
        on, off = (_CONTROLLER, self._controller) if is_on else (self._controller, _CONTROLLER)
        request = SwitchController.Request(
            activate_controllers=[on],
            deactivate_controllers=[off],
            strictness=SwitchController.Request.STRICT,
            activate_asap=True,
            timeout=duration_to_msg(_SWITCH_TIME),
        )
        reply = await ask(self._node, self._switch, request, 2.0 * _SWITCH_TIME)
        if not reply.ok:
            why = read(reply, 'message', '') or 'see its log'
            raise ExecutionError(f'the controller manager did not switch to {on}: {why}')
        self.is_on = is_on
        self._stay_awake()

    def _stay_awake(self) -> None:
        if self.is_on:
            self._enable.publish(Bool(data=True))
