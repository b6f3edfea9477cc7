# SPDX-License-Identifier: Apache-2.0
"""The names of places: `home` and the others of a cycle file, and the points above them."""

import re
from difflib import get_close_matches

from ur5_pick_place.errors import InvalidInput, quoted

DEFAULT_PLACES = HOME, START, TARGET = ('home', 'start', 'target')
"""
The places of a cycle file that names none.

Home is where the arm rests, defined by its joints; all other places are defined by a pose.
"""

_ABOVE = 'above_'
_NAME = re.compile(r'[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*')
_LONGEST = 40  # characters

# Each place is published as a TF frame: its name must not hide a frame of the robot, or a common
# parent frame.
_FRAMES = frozenset(
    (
        *('base', 'base_link', 'base_link_inertia', 'shoulder_link', 'upper_arm_link'),
        *('forearm_link', 'wrist_1_link', 'wrist_2_link', 'wrist_3_link'),
        *('flange', 'ft_frame', 'tool0', 'tcp', 'world', 'map', 'odom'),
    )
)
_TOPICS = frozenset({'markers'})  # ~/teach_markers is the topic of the handles


def above(place: str) -> str:
    """Return the name of the point above a place."""
    return _ABOVE + place


def taught_place(place: str) -> str:
    """Return the place itself for the point above it, and any other name as it is."""
    return place.removeprefix(_ABOVE)


def is_above(place: str) -> bool:
    """Return whether a name is that of a point above a place."""
    return place.startswith(_ABOVE)


def is_part_place(place: str) -> bool:
    """Return whether a part is gripped or released at a place; empty = at no place."""
    return bool(place) and place != HOME and not is_above(place)


def check_name(name: str, key: str) -> None:
    """
    Refuse a name that ROS would not take for a service, a topic or a frame, or that is in use.

    Raises `InvalidInput`: with `key`, the entry of the file.
    """
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        where = key if len(name) <= _LONGEST else key.replace(name, '...')
        raise InvalidInput(
            f'{where} = {quoted(name)}: must be a name of at most {_LONGEST} letters, digits and '
            'single underscores, a letter first, such as tray_2',
            key,
        )
    if name.startswith(_ABOVE):
        raise InvalidInput(
            f'{key} = {name!r}: must not begin with {_ABOVE}; remove it, as the place '
            f'{name.removeprefix(_ABOVE)} has this point above it',
            key,
        )
    if name in _FRAMES | _TOPICS:
        what = 'frame that TF has already' if name in _FRAMES else 'topic of the task node'
        raise InvalidInput(
            f'{key} = {name!r}: is the name of a {what}: must be another one, such as my_{name}',
            key,
        )


def near_miss(name: str, known: tuple[str, ...]) -> str:
    """Return '; did you mean …?' if a known name is like `name`, else ''."""
    close = get_close_matches(name, known, 1)
    return f'; did you mean {close[0]!r}?' if close else ''
