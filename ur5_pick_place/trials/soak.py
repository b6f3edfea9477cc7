# SPDX-License-Identifier: Apache-2.0
"""`soak`: cycle after cycle over random spots on the simulated cell, in one process."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ur5_pick_place.control.line_follower import METHODS
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe, seed_number
from ur5_pick_place.trials.cell_options import add_nodes, cell_opener
from ur5_pick_place.trials.records import driver_silent, keep_record
from ur5_pick_place.trials.soak_cycles import FAULTS, CycleReport, soak

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
