# SPDX-License-Identifier: Apache-2.0
"""Run one task by all three methods on the simulated cell, in one process."""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ur5_pick_place.commands.arguments import add_ur_type, finite
from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.loop_settings import PICK_AND_PLACE_PROJECT
from ur5_pick_place.demo.comparison import MethodRun, common_moves, run_method
from ur5_pick_place.demo.options import add_start_and_target
from ur5_pick_place.demo.records import check_folder, driver_silent, keep_record
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.report.line_figures import measure
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, quiet_pipe

_DESCRIPTION = (
    __doc__ + ' A spot "x y yaw" is the centre of the cube on the table in base_link, in metres '
    'and degrees.'
)
_EPILOG = (
    'All figures are computed from measured joints. Every move ends at rest, so that moves can '
    'be compared. Iterations: of a closed loop, the iterations of its control law; of ik, the '
    'points of the trajectory. Smoothness: root mean square of the joint jerk; slow motion '
    'reduces it. Exit code: 0 if every method placed the cube, 1 if not, 2 on invalid input. '
    'Example: compare --method ik --method gradient'
)
_PRESETS = {'project': PICK_AND_PLACE_PROJECT}


@quiet_pipe()
@driver_silent()
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    given = _parser().parse_args(argv)
    start, target = default_spots(given.ur_type)
    given.start, given.target = given.start or start, given.target or target
    try:
        _check(given)
        check_folder(given.out)
        overrides = _overrides(given)
        runs = []
        for method in given.method or (IK, *METHODS):
            print(f'{method} …', flush=True)
            runs.append(run_method(method, given.start, given.target, overrides))
    except InvalidInput as error:
        print(f'compare: {error}', file=sys.stderr)
        return 2
    _report(runs, given, overrides)
    return int(any(run.failure for run in runs))


def figures(run: MethodRun, moves: Sequence[str]) -> dict[str, float]:
    """Return the figures of a successful run and of some of its moves, by name."""
    assert run.cycle is not None
    found: dict[str, float] = {}
    for move in run.moves:
        if move.name in moves and move.name in ('start', 'target'):
            away, turn = move.trace.error(move.T_goal)
            found[f'error at {move.name} [mm]'] = 1e3 * away
            found[f'error at {move.name} [deg]'] = math.degrees(turn)
    if moves:
        measured = measure([move for move in run.moves if move.name in moves])
        found |= {
            'largest deviation from the line [mm]': 1e3 * measured.deviation,
            'duration [s]': measured.duration,
            'iterations': measured.iterations,
            'joint travel [rad]': measured.travel,
            'peak joint speed [rad/s]': measured.joint_speed,
            'peak TCP speed [m/s]': measured.tcp_speed,
            'smoothness: RMS joint jerk [rad/s^3]': measured.jerk,
        }
    return found | {
        'cycle: duration [s]': run.cycle.duration,
        'cycle: joint travel [rad]': run.cycle.travel,
        'cycle: peak joint speed [rad/s]': float(run.cycle.joint_speed.max()),
        'cycle: peak TCP speed [m/s]': float(run.cycle.tcp_speed.max()),
        'cycle: cube from the target [mm]': 1e3 * run.part_error,
    }


def table(columns: dict[str, dict[str, float]]) -> str:
    """Return figures by method as a text table; a method without figures has dashes."""
    names = next((list(found) for found in columns.values() if found), [])
    rows = [('', *columns)]
    rows += [(name, *(_number(found.get(name)) for found in columns.values())) for name in names]
    return '\n'.join(f'{row[0]:38}' + ''.join(f'{cell:>15}' for cell in row[1:]) for row in rows)


def _report(
    runs: Sequence[MethodRun], given: argparse.Namespace, overrides: dict[str, Any]
) -> None:
    """Print the table and write it with its plot."""
    placed = [run for run in runs if not run.failure]
    moves = common_moves(placed)
    columns = {run.method: {} if run.failure else figures(run, moves) for run in runs}
    if placed:
        print(f'\nAll straight moves ({", ".join(moves)}), and the whole cycle:')
        print(table(columns))
    failures = {run.method: run.failure for run in runs if run.failure}
    for method, failure in failures.items():
        print(f'{method} did not place the cube: {failure}')
    content = {
        'start': given.start,
        'target': given.target,
        'changes': overrides,
        'straight_moves': moves,
        'figures': columns,
        'failures': failures,
    }
    kept = [keep_record(given.out, 'compare', content)]
    if moves:
        from ur5_pick_place.demo.compare_plot import plot  # matplotlib is slow to import

        kept.append(kept[0].with_suffix('.png'))
        plot(placed, kept[1])
    print(f'written to {", ".join(map(str, kept))}')


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog='compare', description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        '--method',
        choices=(IK, *METHODS),
        action='append',
        help='may be repeated (default: all)',
    )
    add_ur_type(parser)
    add_start_and_target(parser)
    parser.add_argument(
        '--preset',
        choices=tuple(_PRESETS),
        help='project: K = 1, T_step = 0.5 s, thresholds of 10 mm and 1 degree, no lookahead',
    )
    parser.add_argument(
        '--lag',
        type=finite,
        metavar='SECONDS',
        help=f'lag of the servos, default {CellSettings().servo_lag:g}; joints are slowed in '
        'proportion to a larger lag, to stay within the path tolerance',
    )
    parser.add_argument('--out', type=user_path, default='out', help='folder for JSON and plot')
    return parser


def _check(given: argparse.Namespace) -> None:
    """Check the settings of the cell before the first method runs."""
    for name in ('start', 'target'):
        x, y, yaw = getattr(given, name)
        try:
            CellSettings(part_x=x, part_y=y, part_yaw=math.degrees(yaw))
        except InvalidInput as error:
            raise InvalidInput(f'--{name}: {error}') from error
    if given.lag is not None:
        CellSettings(servo_lag=given.lag)


def _overrides(given: argparse.Namespace) -> dict[str, Any]:
    """Return the changed settings; a larger servo lag reduces the joint velocities."""
    overrides: dict[str, Any] = asdict(_PRESETS[given.preset]) if given.preset else {}
    overrides['ur_type'] = given.ur_type
    if given.lag is not None:
        usual = CellSettings().servo_lag
        overrides |= {'servo_lag': given.lag, 'velocity_scaling': usual / max(usual, given.lag)}
    return overrides


def _number(value: float | None) -> str:
    if value is None:
        return '-'
    return str(value) if isinstance(value, int) else f'{value:.3f}'


if __name__ == '__main__':
    sys.exit(main())
