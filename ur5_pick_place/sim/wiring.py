# SPDX-License-Identifier: Apache-2.0
"""The wires between tool connector and gripper: close command and part-present signal."""

from collections import deque
from collections.abc import Callable

_BOUNCE = 0.1  # [s] of bouncing after a change, as of a worn switch
_HALF_PERIOD = 0.024  # [s] whole cycles, so that the bouncing is visible in io_states
_LATE = 0.5  # [s]

Signal = Callable[[bool, float], bool]
"""Maps a state at a time [s] to the state that arrives; called once per cycle."""


class Wiring:
    """The signals at the far end of either wire."""

    def __init__(self) -> None:
        # state that the gripper's wire keeps regardless of the output; None if it follows
        self.stuck_output: bool | None = None
        self.input_faults: list[Signal] = []  # of the part-present signal, in order

    def close_command(self, output: bool) -> bool:
        """Return the command at the gripper for a state of the output."""
        return output if self.stuck_output is None else self.stuck_output

    def part_present(self, present: bool, now: float) -> bool:
        """Return the state of the input for a state of the gripper's switch, at `now` [s]."""
        for fault in self.input_faults:
            present = fault(present, now)
        return present


class Bouncing:
    """Bounces after every change."""

    def __init__(self) -> None:
        self._state: bool | None = None
        self._changed = 0.0

    def __call__(self, state: bool, now: float) -> bool:
        if state != self._state:
            self._changed = now if self._state is not None else now - _BOUNCE
            self._state = state
        since = now - self._changed
        return state != (since < _BOUNCE and int(since / _HALF_PERIOD) % 2 == 1)


class Late:
    """Delays every state by 0.5 s."""

    def __init__(self) -> None:
        self._arrived: bool | None = None
        self._under_way: deque[tuple[float, bool]] = deque()

    def __call__(self, state: bool, now: float) -> bool:
        if self._arrived is None:
            self._arrived = state
        self._under_way.append((now + _LATE, state))
        while self._under_way[0][0] <= now:
            self._arrived = self._under_way.popleft()[1]
        return self._arrived
