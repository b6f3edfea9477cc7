# SPDX-License-Identifier: Apache-2.0
"""Run many cycles over random spots, with random faults at random times if requested."""

import argparse
import math
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lab.cell import OpenCell, ReusableCell
from lab.fault_matrix import EXPECTED, Case, CaseResult
from lab.in_process import driver_silent, open_in_process
from lab.options import add_jobs, add_nodes, cell_opener, chosen_workers
from lab.workers import Workers, run_cases
from ur5_pick_place.commands.arguments import add_ur_type
from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.demo.compare import keep_record
from ur5_pick_place.demo.options import check_folder
from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.sim.grippers import DIGITAL, GRIPPERS
from ur5_pick_place.sim.layouts import LAYOUTS
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe, seed_number

_AZIMUTH = math.radians(60.0)  # largest azimuth to either side
_APART = 0.12  # [m] least distance between start and target
_LATEST = 4.0  # [s] latest time of a fault; the quickest cycles take 5 s
_PLACED = (2e-3, math.radians(1.0))  # [m], [rad] placement tolerance
_SPEED = 1.005  # largest fraction of a joint's speed limit: servos overshoot slightly


@dataclass(frozen=True)
class DrawnCycle:
    """What is drawn for one cycle; a fault comes `delay` [s] after it begins."""

    number: int
    start: Spot
    target: Spot
    fault: str  # empty for none
    delay: float


@dataclass(frozen=True)
class CycleReport:
    """Result of one cycle; `fault`, `end` and `reason` as of a `fault_matrix.CaseResult`."""

    number: int
    fault: str
    end: str
    reason: str
    error: float  # in the hand, of a placed part [m]
    turn: float  # and [rad]
    speed: float  # largest measured joint speed as a fraction of its limit
    figures: dict[str, float]  # before the cycle; should not grow from cycle to cycle of a worker
    wall: float  # time of the cycle on the wall [s]
    problem: str  # why the cycle failed; empty if it passed
    worker: str  # computer and process in which it ran


def soak(
    cycles: int,
    seed: int,
    faults: tuple[str, ...] = (),
    overrides: dict[str, Any] | None = None,
    open_cell: OpenCell = open_in_process,
    workers: Workers = Workers(),
) -> Generator[CycleReport, None, None]:
    """
    Run cycles, every third with a fault if `faults` is not empty; yield their reports in order.

    `overrides`: settings that differ from `config/`. `open_cell` opens the cell of a worker, and a
    new one after a failed cycle.
    """
    open_work = partial(_open_work, open_cell, overrides or {})
    ur_type = (overrides or {}).get('ur_type', 'ur5')
    return run_cases(open_work, draw(cycles, seed, faults, ur_type), lost, workers)


def draw(
    cycles: int, seed: int, faults: tuple[str, ...], ur_type: str = 'ur5'
) -> list[DrawnCycle]:
    """Return the cycles of a seed; a larger number of cycles begins with the same ones."""
    rng = np.random.default_rng(seed)
    drawn = []
    for number in range(1, cycles + 1):
        start, target = _spots(rng, ur_type)
        fault = str(rng.choice(faults)) if faults and number % 3 == 0 else ''
        drawn.append(DrawnCycle(number, start, target, fault, float(rng.uniform(0.0, _LATEST))))
    return drawn


@contextmanager
def _open_work(
    open_cell: OpenCell, overrides: dict[str, Any]
) -> Iterator[Callable[[DrawnCycle], CycleReport]]:
    with ReusableCell(open_cell, overrides) as reusable:
        yield partial(_run_cycle, reusable)


def _run_cycle(reusable: ReusableCell, drawn: DrawnCycle) -> CycleReport:
    begin = time.perf_counter()
    try:
        cell = reusable.cell or reusable.open()
        cell.teach(drawn.start, drawn.target)
    except Ur5PickPlaceError as why:
        reusable.close()
        return lost(drawn, str(why))
    figures = cell.figures()
    case = Case(cell, drawn.fault, drawn.start, drawn.target, drawn.delay)
    outcome = _outcome(case, drawn.fault)
    error, turn = cell.placement(drawn.target) if outcome.end == 'placed' else (0.0, 0.0)
    problem, speed = outcome.problem, cell.speed
    if not drawn.fault and not problem:
        problem = _amiss(outcome.end, outcome.reason, error, turn, speed)
    if problem or drawn.fault == 'driver_killed':
        reusable.close()
    return CycleReport(
        drawn.number,
        drawn.fault,
        outcome.end,
        outcome.reason,
        error,
        turn,
        speed,
        figures,
        time.perf_counter() - begin,
        problem,
        f'{socket.gethostname()}:{os.getpid()}',
    )


def lost(drawn: DrawnCycle, why: str) -> CycleReport:
    return CycleReport(drawn.number, drawn.fault, 'lost', '', 0.0, 0.0, 0.0, {}, 0.0, why, '')


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
            f'placement error without grip offset {1e3 * error:.1f} mm and '
            f'{math.degrees(turn):.1f} deg: must be at most {1e3 * _PLACED[0]:.0f} mm and '
            f'{math.degrees(_PLACED[1]):.0f} deg'
        )
    if speed > _SPEED:
        return f'joint speed {speed:.3f} of its limit: must be at most {_SPEED}'
    return ''


def _spots(rng: np.random.Generator, ur_type: str) -> tuple[Spot, Spot]:
    """Return random start and target."""
    while True:
        spots = []
        for _ in range(2):
            r, azimuth = rng.uniform(*LAYOUTS[ur_type].ahead), rng.uniform(-_AZIMUTH, _AZIMUTH)
            yaw = rng.uniform(-math.pi / 4, math.pi / 4)
            spots.append(Spot(r * math.cos(azimuth), r * math.sin(azimuth), yaw))
        if math.dist(spots[0][:2], spots[1][:2]) > _APART:
            return spots[0], spots[1]


FAULTS = tuple(EXPECTED)
"""Every fault that a soak may choose from."""


_EPILOG = (
    'A cycle passes if the part is placed within 2 mm and 1 degree (without grip offset), or if '
    'the cycle stops with the reason of its fault. Each worker keeps its cell; memory and '
    'response time are those of the worker in which they grew most. Exit code: 0 if every cycle '
    'passed, 1 if not, 2 on invalid input. Example: python -m lab.soak -n 20 --seed 7 --faults'
)
_WARM_UP = 10  # cycles of a worker before growth is measured, at most


@quiet_pipe()
@driver_silent()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = Parser(prog='soak', description=__doc__, epilog=_EPILOG)
    parser.add_argument('-n', '--cycles', type=int, default=100, help='default: %(default)s')
    parser.add_argument('--seed', type=seed_number, default=1, help='default: %(default)s')
    parser.add_argument('--method', choices=(IK, *METHODS), default=IK)
    parser.add_argument('--gripper', choices=GRIPPERS, default=DIGITAL)
    parser.add_argument('--faults', action='store_true', help='random fault in every third cycle')
    parser.add_argument('--out', type=user_path, default='out', help='folder for the JSON file')
    add_ur_type(parser)
    add_nodes(parser)
    add_jobs(parser)
    given = parser.parse_args(argv)
    if given.gripper != DIGITAL and (given.faults or given.nodes):
        parser.error(f'--gripper {given.gripper}: only without --faults and --nodes')
    if not 1 <= given.cycles <= 100_000:
        parser.error(f'--cycles {given.cycles}: must be within 1 to 100000')
    reports: list[CycleReport] = []
    code = 0
    try:
        check_folder(given.out)
        _run(parser, given, reports)
    except InvalidInput as error:
        print(f'soak: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'interrupted after {len(reports)} of {given.cycles} cycles', file=sys.stderr)
        code = 128 + signal.SIGINT
    if not reports:
        return code
    summary = summarise(reports)
    names = ('nodes', 'ur_type', 'seed', 'method', 'gripper')
    content = {**{name: getattr(given, name) for name in names}, **summary}
    kept = keep_record(given.out, 'soak', {**content, 'rows': [vars(r) for r in reports]})
    print('\n'.join(f'{name}: {value}' for name, value in summary.items()))
    print(f'seed {given.seed}; written to {kept}')
    return code or int(summary['unexplained'] > 0)


def _run(
    parser: argparse.ArgumentParser, given: argparse.Namespace, reports: list[CycleReport]
) -> None:
    """Print the result of each cycle and append it."""
    faults = FAULTS if given.faults else ()
    overrides = {'method': given.method, 'ur_type': given.ur_type}
    if given.gripper != DIGITAL:
        overrides['gripper'] = given.gripper
    open_cell, workers = cell_opener(parser, given), chosen_workers(parser, given)
    with closing(
        soak(given.cycles, given.seed, faults, overrides, open_cell, workers)
    ) as cycles:
        for report in cycles:
            reports.append(report)
            print(_line(report, given.cycles), flush=True)


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
        **_largest_growth(reports),
        'wall time of a cycle, median [s]': round(float(np.median([r.wall for r in reports])), 2),
    }


def _largest_growth(reports: Sequence[CycleReport]) -> dict[str, str]:
    """Return each figure of the worker in which it grew most after warm-up, as text."""
    of_workers: dict[str, list[dict[str, float]]] = {}
    for report in reports:
        if report.figures:
            of_workers.setdefault(report.worker, []).append(report.figures)
    names = next(iter(of_workers.values()))[0] if of_workers else ()
    return {
        name: max(_growth([f[name] for f in series]) for series in of_workers.values())[1]
        for name in names
    }


def _growth(figure: Sequence[float]) -> tuple[float, str]:
    """Return a figure's growth; and itself after warm-up, half-way and at the end, as text."""
    at = [min(_WARM_UP, len(figure) // 2), len(figure) // 2, len(figure) - 1]
    early, half, last = (figure[k] for k in at)
    whole, late = (
        100.0 * (last - value) / max(at[2] - k, 1)
        for k, value in zip(at, (early, half), strict=False)
    )
    return last - early, (
        f'{early:.1f}, {half:.1f}, {last:.1f}: {whole:+.1f} per 100 cycles, '
        f'{late:+.1f} in the second half'
    )


def _line(r: CycleReport, cycles: int) -> str:
    text = f'{r.number:5}/{cycles}  {r.fault or "-":22} {r.end:10}'
    if r.end == 'placed':
        text += f' {1e3 * r.error:5.2f} mm {math.degrees(r.turn):5.2f} deg'
    else:
        text += f' {r.reason[:70]}'
    return text + (f'  FAILED: {r.problem}' if r.problem else '')


if __name__ == '__main__':
    sys.exit(main())
