# SPDX-License-Identifier: Apache-2.0
"""The names of the services and actions that the task node offers."""

from collections.abc import Iterable

from ur5_pick_place.nodes.pick_place.gripper_command import NAME
from ur5_pick_place.nodes.pick_place.teach_markers import TOPIC

_OWN = (
    *('plan', 'run', 'pause', 'resume', 'stop', 'rearm', 'go_home', 'freedrive'),
    *('init_gripper', 'open_gripper', 'close_gripper'),
)


def task_services(places: Iterable[str]) -> list[str]:
    """Return the names of all services, with one to teach each place, and of the action's."""
    return [
        *(f'~/{name}' for name in _OWN),
        *(f'~/teach_{place}' for place in places),
        f'{TOPIC}/get_interactive_markers',
        f'{NAME}/_action/send_goal',
    ]
