# SPDX-License-Identifier: Apache-2.0
"""What differs between ROS distributions; nothing else in the package asks which one it is on."""

import os
from dataclasses import dataclass
from typing import Any

from ur5_pick_place.errors import ExecutionError

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
