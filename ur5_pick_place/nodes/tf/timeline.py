# SPDX-License-Identifier: Apache-2.0
"""What was measured in the last seconds, for messages that say when they were true."""

import threading
from bisect import bisect_left
from typing import Generic, TypeVar

from ur5_pick_place.errors import UnknownFrame

_JUMP = 1.0  # [s] by which stamps go back when a clock is set, or a recording starts anew

V = TypeVar('V')


class NoHistory(UnknownFrame):
    """It is not known what was at that time."""


class Timeline(Generic[V]):
    """
    Values by their stamps; safe to share between threads.

    `keep`: time for which they are kept [s]. `most`: largest number that is kept; of values that
    follow each other faster, only some.
    """

    def __init__(self, keep: float, most: int) -> None:
        self._keep, self._step, self._lock = keep, keep / most, threading.Lock()
        self._lost = 'none'
        self._stamps: list[float] = []
        self._values: list[V] = []

    def add(self, stamp: float, value: V) -> None:
        with self._lock:
            stamps, values = self._stamps, self._values
            if stamps and stamp < stamps[-1] - _JUMP:
                stamps.clear()
                values.clear()
            at = bisect_left(stamps, stamp)
            if at == len(stamps) > 1 and stamps[-1] - stamps[-2] < self._step:
                at -= 1
                stamps[at], values[at] = stamp, value
            elif at < len(stamps) and stamps[at] == stamp:
                values[at] = value
            else:
                stamps.insert(at, stamp)
                values.insert(at, value)
            old = bisect_left(stamps, stamps[-1] - self._keep) - 1
            if old > 0:
                del stamps[:old], values[:old]

    def forget(self, reason: str) -> None:
        """Drop all values; `reason` says why there are none."""
        with self._lock:
            self._lost = reason
            self._stamps.clear()
            self._values.clear()

    @property
    def newest(self) -> tuple[float, V] | None:
        """The newest stamp [s] and its value; None before the first."""
        with self._lock:
            return (self._stamps[-1], self._values[-1]) if self._stamps else None

    def at(self, stamp: float, max_gap: float) -> tuple[V, V, float]:
        """
        Return the values around a time, and the share (0 to 1) of the time between them then.

        `stamp` [s]. `max_gap`: longest time between the two [s].

        Raises `NoHistory`: the time is not between two values, or these are too far apart; says by
        how much.
        """
        with self._lock:
            stamps, values = self._stamps, self._values
            at = bisect_left(stamps, stamp)
            if at < len(stamps) and stamps[at] == stamp:
                return values[at], values[at], 0.0
            if not stamps:
                raise NoHistory(self._lost)
            if at == len(stamps):
                raise NoHistory(f'the newest is {stamp - stamps[-1]:.3f} s older')
            if at == 0:
                raise NoHistory(f'the oldest is {stamps[0] - stamp:.3f} s newer')
            gap = stamps[at] - stamps[at - 1]
            if gap > max_gap:
                raise NoHistory(f'there is none for {gap:.3f} s, more than {max_gap:g} s')
            return values[at - 1], values[at], (stamp - stamps[at - 1]) / gap
