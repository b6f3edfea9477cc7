# SPDX-License-Identifier: Apache-2.0
"""The environment that ROS needs: checked before rclpy starts, with the cure in one line."""

import contextlib
import os
import re
import socket

from ur5_pick_place.config_files import read_bytes
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.ros.distro import distro

_LAST_DOMAIN = 232  # beyond it Fast DDS ends the process
_DISCARD = ('127.0.0.1', 9)  # nothing is sent


def prepare_environment(domain_id: int | None = None) -> int:
    """
    Prepare this process for `rclpy.init`, and return its domain.

    `domain_id`: instead of the environment's.

    Raises `InvalidInput`: ROS_DOMAIN_ID is invalid, the home directory is unknown, or the loopback
    interface is down.
    """
    domain = _domain_id() if domain_id is None else domain_id
    _find_home()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_DISCARD)
        except OSError as error:
            raise InvalidInput(
                f'{_DISCARD[0]} cannot be reached ({error.strerror}), through which the nodes of '
                'this machine communicate: sudo ip link set lo up'
            ) from error
    stay_on_loopback()
    return domain


def _domain_id() -> int:
    text = os.environ.get('ROS_DOMAIN_ID', '')
    if not text.strip():
        return 0
    if not (re.fullmatch(r'\s*\d{1,9}\s*', text, re.ASCII) and int(text) <= _LAST_DOMAIN):
        raise InvalidInput(f'ROS_DOMAIN_ID = {text!r}: must be a whole number 0 to {_LAST_DOMAIN}')
    return int(text)


def _find_home() -> None:
    """Set HOME where a service or a container has none: rcl writes its logs there."""
    if os.environ.get('HOME'):
        return
    os.environ.pop('HOME', None)
    home = os.path.expanduser('~')  # as the system's list of users has it
    if os.path.isabs(home):
        os.environ['HOME'] = home
    elif not (os.environ.get('ROS_LOG_DIR') or os.environ.get('ROS_HOME')):
        raise InvalidInput(
            f'HOME is not set, and user {os.getuid()} has no home directory: set HOME to a folder '
            'that you may write to'
        )


def stay_on_loopback() -> None:
    """
    Use only the transports of a DDS profile that is limited to loopback, as that of `make setup`.

    With ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST rmw_fastrtps adds two of its own to it: shared
    memory, readable for every user, and UDP on all addresses. The node announces itself on this
    machine only, but a client that knows the address can connect from another host.
    """
    reach, profile = 'ROS_AUTOMATIC_DISCOVERY_RANGE', distro().profiles
    with contextlib.suppress(OSError):
        content = read_bytes(os.environ.get(profile, ''))  # in any encoding
        if os.environ.get(reach) == 'LOCALHOST' and b'<interfaceWhiteList>' in content:
            os.environ[reach] = 'SYSTEM_DEFAULT'
