# SPDX-License-Identifier: Apache-2.0
"""What differs between ROS distributions; nothing else in the package asks which one it is on."""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ur5_pick_place.errors import ExecutionError

if TYPE_CHECKING:
    from rclpy.node import Node

T = TypeVar('T')

_UNNAMED = 'kilted'  # the distribution of the wheels behind `make setup`, which sets no ROS_DISTRO


@dataclass(frozen=True)
class Distro:
    """
    One distribution, as far as it matters here.

    Attributes
    ----------
    controller : str
        The trajectory controller that the UR driver starts.
    mock_argument : str
        The argument of the driver's launch file that asks for mock hardware.

    """

    controller: str = 'joint_trajectory_controller'
    mock_argument: str = 'use_mock_hardware'


_SCALED = 'scaled_joint_trajectory_controller'
_OLDER = {
    'humble': Distro(controller=_SCALED, mock_argument='use_fake_hardware'),
    'jazzy': Distro(controller=_SCALED),
    'kilted': Distro(controller=_SCALED),
}


def distro() -> Distro:
    """Return the distribution at hand; one that is not listed counts as newer than all listed."""
    return _OLDER.get(os.environ.get('ROS_DISTRO', _UNNAMED), Distro())


def fill(message: Any, /, **values: Any) -> None:
    """Set those fields that the message has here; an older or newer one may lack some."""
    for name, value in values.items():
        if hasattr(message, name):
            setattr(message, name, value)


def read(message: Any, name: str, default: T) -> T:
    """Return a field, or `default` where the message has none of that name."""
    return getattr(message, name, default)


def name_method(goal: Any, method: str) -> None:
    """
    Ask ExecuteTrajectory for a closed loop; empty for none.

    Raises
    ------
    ExecutionError
        Its goal has no field for that, as in Humble.

    """
    if not method:
        return
    if not hasattr(goal, 'controller_names'):
        raise ExecutionError(f'method {method} needs the messages of ROS 2 Jazzy or later: use ik')
    goal.controller_names = [method]


def speed_limited_link(request: Any) -> str:
    """Return the link whose speed a planning request bounds; Humble names it otherwise."""
    names = ('cartesian_speed_limited_link', 'cartesian_speed_end_effector_link')
    return next((getattr(request, name) for name in names if hasattr(request, name)), '')


def on_liveliness(hear: Callable[[Any], None]) -> Any:
    """Return the event callbacks of a subscription that hears of its publishers' liveliness."""
    try:
        events = importlib.import_module('rclpy.event_handler')
    except ModuleNotFoundError:
        events = importlib.import_module('rclpy.qos_event')  # Humble
    return events.SubscriptionEventCallbacks(liveliness=hear)


def count_servers(node: 'Node', name: str) -> int:
    """Return how many nodes offer a service."""
    if hasattr(node, 'count_services'):
        return node.count_services(name)
    # Humble: asking node by node misses a node of our own name, and nothing else.
    wanted = node.resolve_service_name(name)
    nodes = node.get_node_names_and_namespaces()
    return sum(wanted in _services_of(node, *other) for other in nodes)


def _services_of(node: 'Node', *other: str) -> dict[str, list[str]]:
    try:
        return dict(node.get_service_names_and_types_by_node(*other))
    except RuntimeError:  # rclpy's, of a node that ended while we looked
        return {}
