# SPDX-License-Identifier: Apache-2.0
"""`soak`: many cycles over random spots, with random faults at random times if requested."""

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.control.line_follower import METHODS
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe, seed_number
from ur5_pick_place.trials.cell import Cell, OpenCell
from ur5_pick_place.trials.cell_options import add_nodes, cell_opener
from ur5_pick_place.trials.fault_matrix import EXPECTED, Case, CaseResult
from ur5_pick_place.trials.in_process import open_in_process
from ur5_pick_place.trials.records import driver_silent, keep_record
from ur5_pick_place.trials.spots import Spot

_RADIUS = (0.35, 0.55)  # [m] from the base's axis
_AZIMUTH = math.radians(60.0)  # largest azimuth to either side
_APART = 0.12  # [m] least distance between start and target
_LATEST = 9.0  # [s] latest time of a fault in a cycle
_PLACED = (2e-3, math.radians(1.0))  # [m], [rad] placement tolerance
_SPEED = 1.005  # largest fraction of a joint's speed limit: servos overshoot slightly


@dataclass(frozen=True)
class CycleReport:
    """
    Result of one cycle.

    Attributes
    ----------
    number : int
    fault : str
        Empty for none.
    end : {'placed', 'stopped'}
    reason : str
        The reported reason of a stop.
    error, turn : float
        In-hand error of a placed part [m], [rad].
    speed : float
        Largest measured joint speed as a fraction of its limit.
    figures : dict of str to float
        Figures before the cycle that should not grow from cycle to cycle.
    wall : float
        Wall time of the cycle [s].
    problem : str
        Why the cycle failed; empty if it passed.

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
    changes: dict[str, Any] | None = None,
    open_cell: OpenCell = open_in_process,
) -> Iterator[CycleReport]:
    """
    Run cycles, every third with a fault if `faults` is not empty; yield their reports.

    Parameters
    ----------
    cycles, seed : int
    faults : tuple of str
        Faults to choose from.
    changes : dict, optional
        Settings that differ from `config/`.
    open_cell : callable
        Opens the cell, and a new one after a failed cycle.

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


def _outcome(case: Case, fault: str) -> CaseResult:
    try:
        return case.run()
    except Ur5PickPlaceError as error:
        return CaseResult(fault, '', 'stopped', problem=str(error))


def _amiss(end: str, reason: str, error: float, turn: float, speed: float) -> str:
    if end != 'placed':
        return f'stopped without a fault: {reason}'
    if error > _PLACED[0] or turn > _PLACED[1]:
        return (
            f'in-hand error {1e3 * error:.1f} mm and {math.degrees(turn):.1f} deg: must be at '
            f'most {1e3 * _PLACED[0]:.0f} mm and {math.degrees(_PLACED[1]):.0f} deg'
        )
    if speed > _SPEED:
        return f'joint speed {speed:.3f} of its limit: must be at most {_SPEED}'
    return ''


def _spots(rng: np.random.Generator) -> tuple[Spot, Spot]:
    """Return random start and target."""
    while True:
        spots = []
        for _ in range(2):
            r, azimuth = rng.uniform(*_RADIUS), rng.uniform(-_AZIMUTH, _AZIMUTH)
            yaw = rng.uniform(-math.pi / 4, math.pi / 4)
            spots.append(Spot(r * math.cos(azimuth), r * math.sin(azimuth), yaw))
        if math.dist(spots[0][:2], spots[1][:2]) > _APART:
            return spots[0], spots[1]


FAULTS = tuple(EXPECTED)
"""Every fault that a soak may choose from."""


_EPILOG = (
    'A cycle passes if the part is placed within 2 mm and 1 degree (grip offset applied), or if '
    'the cycle stops with the reason of its fault. Exit code: 0 if every cycle passed, else 1. '
    'Example: soak -n 20 --seed 7 --faults'
)
_WARM_UP = 10  # cycles before growth is measured, at most


@quiet_pipe()
@driver_silent()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = Parser(prog='soak', description=__doc__, epilog=_EPILOG)
    parser.add_argument('-n', '--cycles', type=int, default=100, help='default: %(default)s')
    parser.add_argument('--seed', type=seed_number, default=1, help='default: %(default)s')
    parser.add_argument('--method', choices=(IK, *METHODS), default=IK)
    parser.add_argument('--faults', action='store_true', help='random fault in every third cycle')
    parser.add_argument('--out', type=Path, default=Path('out'), help='folder for the JSON file')
    add_nodes(parser)
    given = parser.parse_args(argv)
    if not 1 <= given.cycles <= 100_000:
        parser.error(f'--cycles {given.cycles}: must be within 1 to 100000')
    faults, open_cell = FAULTS if given.faults else (), cell_opener(parser, given)
    reports = []
    for report in soak(given.cycles, given.seed, faults, {'method': given.method}, open_cell):
        reports.append(report)
        print(_line(report, given.cycles), flush=True)
    summary = summarise(reports)
    content = {'nodes': given.nodes, 'seed': given.seed, 'method': given.method, **summary}
    kept = keep_record(given.out, 'soak', {**content, 'rows': [vars(r) for r in reports]})
    print('\n'.join(f'{name}: {value}' for name, value in summary.items()))
    print(f'seed {given.seed}; written to {kept}')
    return int(summary['unexplained'] > 0)


def summarise(reports: Sequence[CycleReport]) -> dict[str, Any]:
    """Return the counts and figures of a soak by name."""
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
    """Return each figure after warm-up, half-way and at the end, and its growth, as text."""
    at = [min(_WARM_UP, len(figures) // 2), len(figures) // 2, len(figures) - 1]
    texts = {}
    for name in figures[0]:
        early, half, last = (figures[k][name] for k in at)
        whole, late = (
            100.0 * (last - value) / max(at[2] - k, 1)
            for k, value in zip(at, (early, half), strict=False)
        )
        texts[name] = (
            f'{early:.1f}, {half:.1f}, {last:.1f}: {whole:+.1f} per 100 cycles, '
            f'{late:+.1f} in the second half'
        )
    return texts


def _line(r: CycleReport, cycles: int) -> str:
    text = f'{r.number:5}/{cycles}  {r.fault or "-":22} {r.end:10}'
    if r.end == 'placed':
        text += f' {1e3 * r.error:5.2f} mm {math.degrees(r.turn):5.2f} deg'
    else:
        text += f' {r.reason[:70]}'
    return text + (f'  FAILED: {r.problem}' if r.problem else '')


if __name__ == '__main__':
    sys.exit(main())
