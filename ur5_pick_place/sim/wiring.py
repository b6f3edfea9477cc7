# SPDX-License-Identifier: Apache-2.0
"""The wires between tool connector and gripper: one closes it, one tells of a part."""

from collections import deque
from collections.abc import Callable

_BOUNCE = 0.1  # [s] of chatter after a change, as of a worn switch
_HALF_PERIOD = 0.024  # [s] whole cycles, so that the chatter is seen in io_states
_LATE = 0.5  # [s]

Signal = Callable[[bool, float], bool]
"""What arrives of a state, at a time [s]; called once a cycle."""


class Wiring:
    """
    What arrives at the other end of either wire.

    Attributes
    ----------
    stuck_output : bool or None
        State that the gripper's wire keeps, whatever the output says; None if it follows.
    input_faults : list of Signal
        What the part-present signal passes through on its way to the input.

    """

    def __init__(self) -> None:
        self.stuck_output: bool | None = None
        self.input_faults: list[Signal] = []

    def close_command(self, output: bool) -> bool:
        """What the gripper is told when the output is so."""
        return output if self.stuck_output is None else self.stuck_output

    def part_present(self, present: bool, now: float) -> bool:
        """What the input reads when the gripper's switch is so, at `now` [s]."""
        for fault in self.input_faults:
            present = fault(present, now)
        return present


class Bouncing:
    """Chatters after every change."""

    def __init__(self) -> None:
        self._state: bool | None = None
        self._changed = 0.0

    def __call__(self, state: bool, now: float) -> bool:
        """See `Signal`."""
        if state != self._state:
            self._changed = now if self._state is not None else now - _BOUNCE
            self._state = state
        since = now - self._changed
        return state != (since < _BOUNCE and int(since / _HALF_PERIOD) % 2 == 1)


class Late:
    """Passes every state on half a second later."""

    def __init__(self) -> None:
        self._arrived: bool | None = None
        self._under_way: deque[tuple[float, bool]] = deque()

    def __call__(self, state: bool, now: float) -> bool:
        """See `Signal`."""
        if self._arrived is None:
            self._arrived = state
        self._under_way.append((now + _LATE, state))
        while self._under_way[0][0] <= now:
            self._arrived = self._under_way.popleft()[1]
        return self._arrived
