# SPDX-License-Identifier: Apache-2.0
"""How things are measured: in turns, so that a busy machine slows all of them alike."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

ROUNDS = 15


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
    goal : float or None
        Largest ratio of ours to theirs, or without a peer largest `ours`.

    """

    what: str
    ours: float
    unit: str
    peer: str = ''
    theirs: float | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours to theirs; below 1 is faster."""
        return None if self.theirs is None else self.ours / self.theirs

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
    mine = statistics.median(times['']) / items * 1e6
    if not peers:
        return [Row(what, mine, 'us')]
    return [
        Row(what, mine, 'us', peer, statistics.median(times[peer]) / items * 1e6, goals.get(peer))
        for peer in peers
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
