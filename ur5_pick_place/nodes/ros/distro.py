# SPDX-License-Identifier: Apache-2.0
"""Differences between ROS distributions; no other module depends on which one it runs on."""

import importlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ur5_pick_place.errors import InvalidInput

if TYPE_CHECKING:
    from rclpy.node import Node

T = TypeVar('T')

_UNNAMED = 'kilted'  # where nothing sets ROS_DISTRO


@dataclass(frozen=True)
class Distro:
    """Properties of one distribution."""

    # the trajectory controller that the UR driver starts
    controller: str = 'joint_trajectory_controller'
    # the argument of the driver's launch file that selects mock hardware
    mock_argument: str = 'use_mock_hardware'
    # the environment variable with the file of Fast DDS profiles
    profiles: str = 'FASTDDS_DEFAULT_PROFILES_FILE'


_SCALED = 'scaled_joint_trajectory_controller'
_FAST_DDS_2 = 'FASTRTPS_DEFAULT_PROFILES_FILE'
_OLDER = {
    'humble': Distro(_SCALED, 'use_fake_hardware', _FAST_DDS_2),
    'jazzy': Distro(_SCALED, profiles=_FAST_DDS_2),
    'kilted': Distro(controller=_SCALED),
}


def distro() -> Distro:
    """Return the present distribution; an unknown one counts as newer than all known ones."""
    return _OLDER.get(os.environ.get('ROS_DISTRO', _UNNAMED), Distro())


def discovery(reach: str) -> dict[str, str]:
    """Return the environment for a range of discovery, such as LOCALHOST or SUBNET."""
    found = {'ROS_AUTOMATIC_DISCOVERY_RANGE': reach}
    if os.environ.get('ROS_DISTRO') == 'humble':  # newer distributions warn about this variable
        found['ROS_LOCALHOST_ONLY'] = '1' if reach == 'LOCALHOST' else '0'
    return found


def fill(message: Any, /, **values: Any) -> None:
    """Set those fields that the message has in this distribution; others are skipped."""
    for name, value in values.items():
        if hasattr(message, name):
            setattr(message, name, value)


def read(message: Any, name: str, default: T) -> T:
    """Return a field, or `default` if the message has none of that name."""
    return getattr(message, name, default)


def name_method(goal: Any, method: str) -> None:
    """
    Set the closed-loop method in a goal of ExecuteTrajectory; empty for none.

    Raises `InvalidInput`: the goal has no field for it, as in Humble.
    """
    if not method:
        return
    if not hasattr(goal, 'controller_names'):
        raise InvalidInput(
            f'method = {method!r}: needs the messages of ROS 2 Jazzy or later: use ik'
        )
    goal.controller_names = [method]


_INERTIA = ('ixx', 'iyy', 'izz', 'ixy', 'ixz', 'iyz')


def payload_request(
    kind: Any, mass: float, centre: Sequence[float], inertia: Sequence[float]
) -> Any:
    """
    Return a request of `ur_msgs/srv/SetPayload`, whichever of its forms is installed.

    There are three: mass and centre alone; the same and six fields of the inertia (Humble to
    Lyrical, as of 2026); one `geometry_msgs/Inertia` (driver 7.0).

    `kind`: the class of the request. `mass` [kg]. `centre`: of gravity, x, y, z in tool0 [m].
    `inertia`: about the centre, along the axes of tool0: xx, yy, zz, xy, xz, yz [kg m2].
    """
    request = kind()
    body = getattr(request, 'payload', request)
    at = body.com if hasattr(request, 'payload') else body.center_of_gravity
    setattr(body, 'm' if hasattr(request, 'payload') else 'mass', float(mass))
    at.x, at.y, at.z = map(float, centre)
    fill(body, **dict(zip(_INERTIA, map(float, inertia), strict=True)))
    return request


def takes_inertia(request: Any) -> bool:
    """Return whether a request of SetPayload has an inertia."""
    return hasattr(getattr(request, 'payload', request), 'ixx')


def payload_of(request: Any) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return mass, centre and inertia of a request of any form; see `payload_request`."""
    body = getattr(request, 'payload', request)
    if hasattr(request, 'payload'):
        mass, at = body.m, body.com
    else:
        mass, at = body.mass, body.center_of_gravity
    return mass, (at.x, at.y, at.z), tuple(getattr(body, name, 0.0) for name in _INERTIA)


def speed_limited_link(request: Any) -> str:
    """Return the link whose speed a planning request limits; Humble has another field name."""
    names = ('cartesian_speed_limited_link', 'cartesian_speed_end_effector_link')
    return next((getattr(request, name) for name in names if hasattr(request, name)), '')


def servo_command_type() -> Any:
    """Return `moveit_msgs/srv/ServoCommandType`, or None where there is none, as in Humble."""
    return getattr(importlib.import_module('moveit_msgs.srv'), 'ServoCommandType', None)


def on_liveliness(on_change: Callable[[Any], None]) -> Any:
    """Return the event callbacks of a subscription for its publishers' liveliness."""
    return _qos_events().SubscriptionEventCallbacks(liveliness=on_change)


def qos_event_class() -> Any:
    """Return the class of that by which executors wait for a QoS event."""
    return getattr(_qos_events(), 'EventHandler', None) or _qos_events().QoSEventHandler


def _qos_events() -> Any:
    try:
        return importlib.import_module('rclpy.event_handler')
    except ModuleNotFoundError:
        return importlib.import_module('rclpy.qos_event')  # Humble


def has_waiting(executor: Any) -> bool:
    """
    Return whether an executor has waiting coroutines that it resumes only when it wakes up.

    Newer executors, from Humble 3.3.21, Jazzy 7.1.9 and Kilted 9.1.4 on, have none: there the
    future itself wakes the executor.
    """
    return any(not task.done() for task, *_ in list(getattr(executor, '_tasks', ())))


_UNSUPPORTED = 2**64 - 1  # the number that stands for none


class TakenMessage(NamedTuple):
    """A serialized message with its origin."""

    data: bytes
    # system time [ns]
    received: int
    published: int
    publisher: bytes  # identifies a publisher; empty where rclpy does not give it, as in Jazzy
    number: int = 0  # increases with each message of a publisher; 0 where rclpy does not give it


def take_with_info(subscription: Any, most: int, end: float = math.inf) -> list[TakenMessage]:
    """
    Return up to `most` waiting messages of a raw subscription, oldest first.

    Takes no more of them after the steady time `end` [s].
    """
    taken: list[TakenMessage] = []
    take, kind, raw = subscription.handle.take_message, subscription.msg_type, subscription.raw
    with subscription.handle:
        while len(taken) < most and time.monotonic() <= end and (found := take(kind, raw)):
            data, info = found
            received = info.get('received_timestamp') or time.time_ns()
            published = info.get('source_timestamp') or received
            taken.append(TakenMessage(data, received, published, *origin_of(info)))
    return taken


def origin_of(info: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return publisher and number of a message, as in `TakenMessage`."""
    gid, number = info.get('publisher_gid'), info.get('publication_sequence_number') or 0
    publisher = bytes(gid.get('data', b'')) if gid else b''
    return publisher, number if number < _UNSUPPORTED else 0


def count_servers(node: 'Node', name: str) -> int:
    """Return how many nodes offer a service, at the name that this node has for it."""
    wanted = resolved_name(node, name)
    if hasattr(node, 'count_services'):
        return node.count_services(wanted)  # which itself knows nothing of remapping
    # Humble: counting node by node misses only a node of the same name.
    nodes = node.get_node_names_and_namespaces()
    return sum(wanted in _services_of(node, *other) for other in nodes)


def resolved_name(node: 'Node', name: str) -> str:
    """Return the full name of a service, or of a service of an action, as remapped."""
    base, action, rest = name.partition('/_action/')
    return f'{node.resolve_service_name(base)}{action}{rest}'


def _services_of(node: 'Node', *other: str) -> dict[str, list[str]]:
    try:
        return dict(node.get_service_names_and_types_by_node(*other))
    except RuntimeError:  # rclpy's, for a node that has just ended
        return {}
