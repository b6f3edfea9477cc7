# SPDX-License-Identifier: Apache-2.0
"""Cycle after cycle over random spots, with random faults at random times if wanted."""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ur5_pick_place.control.line_follower import METHODS
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe, seed_number
from ur5_pick_place.trials.cell import Cell, OpenCell
from ur5_pick_place.trials.cell_options import add_nodes, cell_opener
from ur5_pick_place.trials.fault_matrix import EXPECTED, Case, Outcome
from ur5_pick_place.trials.in_process import Spot, open_in_process
from ur5_pick_place.trials.records import driver_silent, keep_record

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
    open_cell: OpenCell = open_in_process,
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


_EPILOG = (
    'A cycle ends placed, within 2 mm and 1 degree of where the grip left the part in the hand, '
    'or stopped with the true reason. Exit code: 0 if every one did, else 1. Example: soak -n 20 '
    '--seed 7 --faults'
)
_WARM_UP = 10  # cycles at most before growth counts


@quiet_pipe()
@driver_silent()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = Parser(prog='soak', description=__doc__, epilog=_EPILOG)
    parser.add_argument('-n', '--cycles', type=int, default=100, help='default: %(default)s')
    parser.add_argument('--seed', type=seed_number, default=1, help='default: %(default)s')
    parser.add_argument('--method', choices=(IK, *METHODS), default=IK)
    parser.add_argument('--faults', action='store_true', help='a random one in every third cycle')
    parser.add_argument('--out', type=Path, default=Path('out'), help='where the JSON is kept')
    add_nodes(parser)
    given = parser.parse_args(argv)
    if not 1 <= given.cycles <= 100_000:
        parser.error(f'{given.cycles} cycles: must be 1 to 100000')
    faults, open_cell = FAULTS if given.faults else (), cell_opener(parser, given)
    reports = []
    for report in soak(given.cycles, given.seed, faults, {'method': given.method}, open_cell):
        reports.append(report)
        print(_line(report, given.cycles), flush=True)
    summary = summarise(reports)
    content = {'nodes': given.nodes, 'seed': given.seed, 'method': given.method, **summary}
    kept = keep_record(given.out, 'soak', {**content, 'rows': [vars(r) for r in reports]})
    print('\n'.join(f'{name}: {value}' for name, value in summary.items()))
    print(f'seed {given.seed}; kept as {kept}')
    return int(summary['unexplained'] > 0)


def summarise(reports: Sequence[CycleReport]) -> dict[str, object]:
    """Return counts and figures of a soak for people."""
    placed = [r for r in reports if r.end == 'placed' and not r.fault]
    return {
        'ends': dict(Counter(r.end for r in reports)),
        'unexplained': sum(bool(r.problem) for r in reports),
        'worst placement [mm]': round(1e3 * max((r.error for r in placed), default=0.0), 3),
        'worst turn [deg]': round(
            math.degrees(max((r.turn for r in placed), default=0.0)), 3
        ),
        'peak joint speed [share of limit]': round(max(r.speed for r in reports), 4),
        **_growth([r.figures for r in reports]),
        'wall time of a cycle, median [s]': round(float(np.median([r.wall for r in reports])), 2),
    }


def _growth(figures: Sequence[dict[str, float]]) -> dict[str, str]:
    """Tell each figure once warm, half-way and at the end, and how fast it grew up to the end."""
    at = [min(_WARM_UP, len(figures) // 2), len(figures) // 2, len(figures) - 1]
    told = {}
    for name in figures[0]:
        early, half, last = (figures[k][name] for k in at)
        whole, late = (
            100.0 * (last - value) / max(at[2] - k, 1)
            for k, value in zip(at, (early, half), strict=False)
        )
        told[name] = (
            f'{early:.1f}, {half:.1f}, {last:.1f}: {whole:+.1f} per 100 cycles, '
            f'{late:+.1f} in the second half'
        )
    return told


def _line(r: CycleReport, cycles: int) -> str:
    text = f'{r.number:5}/{cycles}  {r.fault or "-":22} {r.end:10}'
    if r.end == 'placed':
        text += f' {1e3 * r.error:5.2f} mm {math.degrees(r.turn):5.2f} deg'
    else:
        text += f' {r.reason[:70]}'
    return text + (f'  UNEXPLAINED: {r.problem}' if r.problem else '')


if __name__ == '__main__':
    sys.exit(main())
