# SPDX-License-Identifier: Apache-2.0
"""Signals that count once they have been stable for a while."""

import math

from ur5_pick_place.errors import ExecutionError

SETTLING = 0.1
"""How long the signal of a part must be stable to count [s]."""
_UNSEEN = 0.3  # [s] without a sample, in which the level may have changed
_BOUNCES, _BOUNCE_TIME = 4, 1.0  # changes, [s]; a grip causes one


class Stable:
    """
    A level that counts once it is stable for `SETTLING`; None = it is unknown.

    `since` is the time of the last change [s].
    """

    def __init__(self) -> None:
        self._level: bool | None = None
        self.since = self._latest = -math.inf

    def update(self, t: float, level: bool | None) -> bool | None:
        """Take the level at time `t` [s] and return it once it is stable, else None."""
        if level != self._level or not 0.0 <= t - self._latest <= _UNSEEN:
            self._level, self.since = level, t
        self._latest = t
        return level if t - self.since >= SETTLING else None


class PartSignal(Stable):
    """Whether a part is held; `source`, for errors, is what shows it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source
        self._changes: list[float] = []

    def update(self, t: float, level: bool | None) -> bool | None:
        """Update as `Stable`; raises `ExecutionError` if the level changes too often."""
        if level != self._level and None not in (self._level, level):  # to unknown is no bounce
            self._changes = [past for past in self._changes if past > t - _BOUNCE_TIME] + [t]
        if len(self._changes) >= _BOUNCES:
            raise ExecutionError(
                f'{self._source} bounces: {len(self._changes)} changes within '
                f'{_BOUNCE_TIME} s; check the part-present sensor and its wiring'
            )
        return super().update(t, level)
