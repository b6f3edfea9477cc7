# SPDX-License-Identifier: Apache-2.0
"""Cycle after cycle over random spots, with random faults at random times if wanted."""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.trials.cell import Cell, OpenCell, open_rig
from ur5_pick_place.trials.fault_matrix import EXPECTED, Case, Outcome
from ur5_pick_place.trials.in_process import Spot

_RADIUS = (0.35, 0.55)  # [m] from the base's axis
_AZIMUTH = math.radians(60.0)  # to either side
_APART = 0.12  # [m] between start and target
_LATEST = 9.0  # [s] into a cycle that a fault comes
_PLACED = (2e-3, math.radians(1.0))  # [m], [rad]
_SPEED = 1.005  # share of the limit that a measured joint may reach: servos ring a little


@dataclass(frozen=True)
class CycleReport:
    """
    One cycle.

    Attributes
    ----------
    number : int
    fault : str
        Empty where there was none.
    end : {'placed', 'stopped'}
    reason : str
        As told.
    error, turn : float
        Of a placed part, from where the grip left it in the hand [m], [rad].
    speed : float
        Peak share of a joint's velocity limit, measured.
    figures : dict of str to float
        Before it: what should not grow from cycle to cycle.
    wall : float
        Time the cycle took on the wall [s].
    problem : str
        What cannot be explained; empty if nothing.

    """

    number: int
    fault: str
    end: str
    reason: str
    error: float
    turn: float
    speed: float
    figures: dict[str, float]
    wall: float
    problem: str


def soak(
    cycles: int,
    seed: int,
    faults: tuple[str, ...] = (),
    changes: dict | None = None,
    open_cell: OpenCell = open_rig,
) -> Iterator[CycleReport]:
    """
    Run cycles, a fault in every third if there are any to choose from.

    Parameters
    ----------
    cycles, seed : int
    faults : tuple of str
        Names to choose from.
    changes : dict, optional
        Settings that differ from `config/`.
    open_cell : callable
        Opens the cell, and another one where a fault has spoilt it.

    """
    rng = np.random.default_rng(seed)
    with ExitStack() as opened:
        cell: Cell | None = None
        for number in range(1, cycles + 1):
            begin = time.perf_counter()
            cell = cell or opened.enter_context(open_cell(changes or {}))
            start, target = _spots(rng)
            cell.teach(start, target)
            figures = cell.figures()
            fault = str(rng.choice(faults)) if faults and number % 3 == 0 else ''
            delay = float(rng.uniform(0.0, _LATEST))
            outcome = _outcome(Case(cell, fault, start, target, delay), fault)
            error, turn = cell.placement(target) if outcome.end == 'placed' else (0.0, 0.0)
            problem = outcome.problem
            if not fault and not problem:
                problem = _amiss(outcome.end, outcome.reason, error, turn, cell.speed)
            yield CycleReport(
                number,
                fault,
                outcome.end,
                outcome.reason,
                error,
                turn,
                cell.speed,
                figures,
                time.perf_counter() - begin,
                problem,
            )
            if problem or fault == 'driver_killed':
                opened.close()
                cell = None


def _outcome(case: Case, fault: str) -> Outcome:
    try:
        return case.run()
    except Ur5PickPlaceError as error:
        return Outcome(fault, '', 'stopped', problem=str(error))


def _amiss(end: str, reason: str, error: float, turn: float, speed: float) -> str:
    if end != 'placed':
        return f'without a fault the cycle ended: {reason}'
    if error > _PLACED[0] or turn > _PLACED[1]:
        return f'placed {1e3 * error:.1f} mm and {math.degrees(turn):.1f} deg off'
    return f'a joint ran at {speed:.3f} of its limit' if speed > _SPEED else ''


def _spots(rng: np.random.Generator) -> tuple[Spot, Spot]:
    """Return where the cube lies and where it goes."""
    while True:
        places = []
        for _ in range(2):
            r, azimuth = rng.uniform(*_RADIUS), rng.uniform(-_AZIMUTH, _AZIMUTH)
            yaw = rng.uniform(-math.pi / 4, math.pi / 4)
            places.append((r * math.cos(azimuth), r * math.sin(azimuth), yaw))
        if math.dist(places[0][:2], places[1][:2]) > _APART:
            return places[0], places[1]


FAULTS = tuple(EXPECTED)
"""Every fault that a soak may choose from."""
