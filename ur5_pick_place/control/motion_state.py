# SPDX-License-Identifier: Apache-2.0
"""The planner's motion state and its text: `ready`, `moving` or `stopped: <reason>`."""

import re
from collections.abc import Callable
from enum import Enum

STOPPING = 'stopping; call ~/rearm before the next motion'
"""What a node replies to a stop."""
_SEPARATOR = ': '
_FIGURE = re.compile(r'\d+(\.\d+)?')


class MotionState(Enum):
    """Whether the arm may start a motion, follows one, or must not move."""

    READY = 'ready'
    MOVING = 'moving'
    STOPPED = 'stopped'


def motion_state_text(state: MotionState, reason: str = '') -> str:
    """Return the text of a state as published; `reason` belongs to STOPPED alone."""
    return f'{state.value}{_SEPARATOR}{reason}' if state is MotionState.STOPPED else state.value


def parse_motion_state(text: str) -> tuple[MotionState | None, str]:
    """Return the state and the reason of a stop that a text means; None if it means no state."""
    if text in (MotionState.READY.value, MotionState.MOVING.value):
        return MotionState(text), ''
    name, separator, reason = text.partition(_SEPARATOR)
    is_stopped = separator and name == MotionState.STOPPED.value
    return (MotionState.STOPPED, reason) if is_stopped else (None, '')


def skip_repeated(publish: Callable[[str], object]) -> Callable[[str], None]:
    """Return a function that publishes a text unless only its numbers differ from the last one."""
    last = ''

    def publish_changed(text: str) -> None:
        nonlocal last
        # Such as the seconds of a silence in a reason, which grow at each call.
        bare = _FIGURE.sub('', text)
        if bare != last:
            last = bare
            publish(text)

    return publish_changed
