# SPDX-License-Identifier: Apache-2.0
"""Time our code and its peers in turns, so that a busy machine slows all of them alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter, thread_time

import numpy as np

ROUNDS = 31
YARDSTICK = 'SVD of a (6, 6) matrix'
_YARD = 11.5e-6  # [s] of the yardstick on the machine on which bounds in seconds were set
_SECONDS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6}


@dataclass(frozen=True)
class Row:
    """
    One line of the table.

    Attributes
    ----------
    what : str
        What was done.
    ours : float
        Median, in `unit`.
    unit : str
    peer : str
        What ours is compared with; empty where there is a bound on `ours` alone.
    theirs : float or None
        Median, in `unit`.
    ratio : float or None
        Ours to theirs, median of the rounds; below 1 is faster.
    goal : float or None
        Upper bound of `ratio`, or of `ours` where there is no ratio.
    """

    what: str
    ours: float
    unit: str
    peer: str = ''
    theirs: float | None = None
    ratio: float | None = None
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return (self.ours if self.ratio is None else self.ratio) <= self.goal


def compare(
    what: str,
    ours: Callable[[], object],
    peers: Mapping[str, Callable[[], object]],
    items: int,
    goals: Mapping[str, float] = {},
) -> list[Row]:
    """
    Time our pass over `items` beside each peer's; rows in microseconds an item.

    Each pass runs `ROUNDS` times, all contestants in every round.
    """
    times = race({'': ours, **peers})
    mine = times.pop('')
    each = 1e6 / items
    if not times:
        return [Row(what, median(mine) * each, 'us')]
    return [
        Row(
            what,
            median(mine) * each,
            'us',
            peer,
            median(theirs) * each,
            median(a / b for a, b in zip(mine, theirs, strict=True)),
            goals.get(peer),
        )
        for peer, theirs in times.items()
    ]


def race(passes: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Give the duration [s] of each pass in each round, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in passes}
    for counted in [False] + [True] * ROUNDS:
        for name, run in passes.items():
            begin = perf_counter()
            run()
            if counted:
                times[name].append(perf_counter() - begin)
    return times


def yardstick() -> float:
    """Return the processor time of the yardstick now [s]."""
    matrix, begin = np.random.default_rng(1).normal(size=(6, 6)), thread_time()
    for _ in range(100):
        np.linalg.svd(matrix)
    return (thread_time() - begin) / 100


def beside_yardstick(
    what: str, ours: float, unit: str, goal: float, yards: Sequence[float] = ()
) -> Row:
    """
    Return a row of processor time that is bounded as a multiple of the yardstick's.

    `yards`: times of the yardstick [s] from the run itself, if it took long; else taken now.
    """
    seconds = _SECONDS[unit]
    theirs = median(yards or [yardstick() for _ in range(ROUNDS)]) / seconds
    return Row(what, ours, unit, YARDSTICK, theirs, ours / theirs, goal * seconds / _YARD)
