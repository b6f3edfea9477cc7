# SPDX-License-Identifier: Apache-2.0
"""Whether one driver is there, and beside the simulated cell none of a robot."""

import time

from rclpy.node import Node

from ur5_pick_place.nodes.distro import count_servers

_CONTROLLER = 'io_and_status_controller'  # a node of its own in ros2_control, not in our cell
_SET_IO = f'{_CONTROLLER}/set_io'  # a gripper may have a controller manager, but not this
_PERIOD = 1.0  # [s] between two looks at the ROS graph
_LASTS = 30.0  # [s]; a driver that was killed is seen for up to 20 s more


class OneDriver:
    """
    Looks at the ROS graph.

    Parameters
    ----------
    node : Node
    is_simulated : bool
        Whether the parameters are those of the simulated cell.

    """

    def __init__(self, node: Node, is_simulated: bool) -> None:
        self._node, self._is_simulated = node, is_simulated
        self._next, self._problem, self._has_robot = 0.0, '', False
        self._count = 0
        self._two_since: float | None = None

    @property
    def problem(self) -> str:
        """Why a motion might move another arm, or at another arm's speed; empty if none."""
        self._look()
        return self._problem

    @property
    def has_another(self) -> bool:
        """Whether the joints may be another arm's; also of a driver that was just killed."""
        self._look()
        return self._has_robot or self._count > 1

    def _look(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PERIOD
        self._has_robot = self._is_simulated and self._is_robot_there()
        self._count = count_servers(self._node, _SET_IO)
        if self._count < 2:
            self._two_since = None
        elif self._two_since is None:
            self._two_since = now
        self._problem = self._why(now)

    def _why(self, now: float) -> str:
        if self._has_robot:
            return (
                "a robot's driver is running, and is_simulated is true in the parameters: end "
                'that driver, or give the simulated cell a ROS_DOMAIN_ID of its own; to move that '
                'robot, take parameters without is_simulated'
            )
        if self._two_since is None or now - self._two_since < _LASTS:
            return ''
        return (
            f'{self._count} drivers offer {_SET_IO}, and both would move: end one, or give each '
            'robot a ROS_DOMAIN_ID of its own'
        )

    def _is_robot_there(self) -> bool:
        space = self._node.get_namespace()
        return (_CONTROLLER, space) in self._node.get_node_names_and_namespaces()
