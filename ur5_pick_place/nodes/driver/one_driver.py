# SPDX-License-Identifier: Apache-2.0
"""Check that only one driver is running, and beside the simulated cell no robot's driver."""

import time

from rclpy.node import Node

from ur5_pick_place.nodes.ros.distro import count_servers

_CONTROLLER = 'io_and_status_controller'  # a node of its own in ros2_control, not in our cell
_SET_IO = f'{_CONTROLLER}/set_io'  # a gripper may have a controller manager, but not this
_SWITCH = 'controller_manager/switch_controller'
SERVICES = (_SET_IO, _SWITCH)
"""Services of the driver that one node alone may offer."""

_PERIOD = 1.0  # [s] between two polls of the ROS graph
_LASTS = 30.0  # [s] that two must be seen: a driver that was killed is seen for up to 20 s more


class OneDriver:
    """
    Looks at the ROS graph.

    `is_simulated`: whether the parameters are those of the simulated cell.
    """

    def __init__(self, node: Node, is_simulated: bool) -> None:
        self._node, self._is_simulated = node, is_simulated
        self._next, self._problem, self._has_robot = 0.0, '', False
        self._counts = dict.fromkeys(SERVICES, 0)
        self._two_since: dict[str, float] = {}  # by service [s, steady clock]

    @property
    def problem(self) -> str:
        """Why a motion might move another arm, or at another arm's speed; empty if none."""
        self._update()
        return self._problem

    @property
    def has_another(self) -> bool:
        """Whether the joints may be another arm's; also of a driver that was just killed."""
        self._update()
        return self._has_robot or self._counts[_SET_IO] > 1

    def _update(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PERIOD
        self._has_robot = self._is_simulated and self._is_robot_there()
        for name in SERVICES:
            self._counts[name] = count_servers(self._node, name)
            if self._counts[name] < 2:
                self._two_since.pop(name, None)
            else:
                self._two_since.setdefault(name, now)
        self._problem = self._why(now)

    def _why(self, now: float) -> str:
        if self._has_robot:
            return (
                "a robot's driver is running, and is_simulated is true in the parameters: end "
                'that driver, or give the simulated cell a ROS_DOMAIN_ID of its own; to move that '
                'robot, take parameters without is_simulated'
            )
        lasting = [name for name, since in self._two_since.items() if now - since >= _LASTS]
        if _SET_IO in lasting:
            return (
                f'{self._counts[_SET_IO]} drivers offer {_SET_IO}, and both would move: end one, '
                'or give each robot a ROS_DOMAIN_ID of its own'
            )
        if lasting:
            return (
                f'{self._counts[_SWITCH]} controller managers offer {_SWITCH}, and either may '
                "answer: end one, or start the one of the gripper's driver in a namespace of its "
                'own'
            )
        return ''

    def _is_robot_there(self) -> bool:
        space = self._node.get_namespace()
        return (_CONTROLLER, space) in self._node.get_node_names_and_namespaces()
