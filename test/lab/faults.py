# SPDX-License-Identifier: Apache-2.0
"""Inject 27 faults in each of 12 stages of the cycle on the simulated cell."""

import argparse
import contextlib
import signal
import sys
from typing import Any

from lab.fault_matrix import EXPECTED, STAGES, CaseResult, run_matrix
from lab.in_process import driver_silent
from lab.options import add_jobs, add_nodes, cell_opener, chosen_workers
from ur5_pick_place.commands.arguments import add_ur_type
from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.demo.compare import keep_record
from ur5_pick_place.demo.options import check_folder
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe

_HEAD = (
    f'{"method":14}{"fault":23}{"stage":14}{"end":11}{"after":>8}{"moves":>6}{"holds":>6}{"grip":>5}{"rad":>7}'
)
_EPILOG = (
    'Columns: after = time from the fault to the stop [ms of robot time]; moves, holds, grip = '
    'motion, hold and gripper commands between stop and rearming; rad = largest joint motion '
    'between rest and rearming. '
    'Without --nodes each case has a new cell. With --nodes a cell is kept until a case fails, a '
    'case of ik takes about 10 s, one of a closed loop longer, and all cases take a night. '
    'Exit code: 0 if every case passed, 1 if not, 2 on invalid input. '
    'Example: python -m lab.faults --method ik --stage transfer'
)


@quiet_pipe()
@driver_silent()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = Parser(prog='faults', description=__doc__, epilog=_EPILOG)
    for name, choices in (
        ('--method', (IK, *METHODS)), ('--fault', tuple(EXPECTED)), ('--stage', STAGES)
    ):
        parser.add_argument(
            name, choices=choices, action='append', help='may be repeated (default: all)'
        )
    parser.add_argument('--out', type=user_path, default='out', help='folder for the JSON file')
    add_ur_type(parser)
    add_nodes(parser)
    add_jobs(parser)
    given = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    code = 0
    try:
        check_folder(given.out)
        _run(parser, given, rows)
    except InvalidInput as error:
        print(f'faults: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'interrupted after {len(rows)} cases', file=sys.stderr)
        code = 128 + signal.SIGINT
    if not rows:
        return code
    wrong = sum(bool(row['problem']) for row in rows)
    chosen = {'nodes': given.nodes, 'ur_type': given.ur_type}
    content = {**chosen, 'cases': len(rows), 'wrong': wrong, 'rows': rows}
    kept = keep_record(given.out, 'faults', content)
    impossible = sum(row['end'] == 'impossible' for row in rows)
    print(f'{len(rows)} cases, {impossible} impossible, {wrong} failed; written to {kept}')
    return code or int(wrong > 0)


def _run(
    parser: argparse.ArgumentParser, given: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """Print the result of each case and append it."""
    open_cell, workers = cell_opener(parser, given), chosen_workers(parser, given)
    faults, stages = tuple(given.fault or EXPECTED), tuple(given.stage or STAGES)
    print(_HEAD, flush=True)
    for method in given.method or (IK, *METHODS):
        overrides, fresh = {'method': method, 'ur_type': given.ur_type}, not given.nodes
        with contextlib.closing(
            run_matrix(faults, stages, overrides, open_cell, workers, fresh)
        ) as outcomes:
            for outcome in outcomes:
                print(_line(method, outcome), flush=True)
                rows.append({'method': method, **vars(outcome)})


def _line(method: str, o: CaseResult) -> str:
    row = f'{method:14}{o.fault:23}{o.stage:14}{o.end:11}'
    if o.end == 'stopped':
        row += f'{1e3 * o.reaction:8.0f}{o.motions:6}{o.holds:6}{o.gripper:5}{o.travel:7.3f}'
        row += f'  {o.reason}'
    return row + (f'  FAILED: {o.problem}' if o.problem else '')


if __name__ == '__main__':
    sys.exit(main())
