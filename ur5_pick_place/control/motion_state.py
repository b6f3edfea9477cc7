# SPDX-License-Identifier: Apache-2.0
"""The planner's motion state and its text: `ready`, `moving` or `stopped: <reason>`."""

from enum import Enum

STOPPING = 'stopping; call ~/rearm before the next motion'
"""What a node replies to a stop."""
_SEPARATOR = ': '


def is_stop_event(text: str) -> bool:
    """Return whether a text on trajectory_execution_event asks for a stop."""
    return text.strip().lower() == 'stop'


class MotionState(Enum):
    """Whether the arm may start a motion, follows one, or must not move."""

    READY = 'ready'
    MOVING = 'moving'
    STOPPED = 'stopped'


def stopped_text(reason: str) -> str:
    """Return the text of STOPPED as published; of the other states it is their value."""
    return f'{MotionState.STOPPED.value}{_SEPARATOR}{reason}'


def parse_motion_state(text: str) -> tuple[MotionState | None, str]:
    """Return the state and the reason of a stop that a text means; None if it means no state."""
    if text in (MotionState.READY.value, MotionState.MOVING.value):
        return MotionState(text), ''
    name, separator, reason = text.partition(_SEPARATOR)
    is_stopped = separator and name == MotionState.STOPPED.value
    return (MotionState.STOPPED, reason) if is_stopped else (None, '')
