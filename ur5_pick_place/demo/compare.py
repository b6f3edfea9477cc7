# SPDX-License-Identifier: Apache-2.0
"""Run one task by all three methods on the simulated cell, and compare their straight lines."""

import argparse
import contextlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ur5_pick_place.commands.arguments import add_ur_type, finite
from ur5_pick_place.config_files import read_yaml, user_path
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.loop_settings import PICK_AND_PLACE_PROJECT, LoopSettings
from ur5_pick_place.demo.configuration import CONFIG, Configuration
from ur5_pick_place.demo.cycle_layout import DEFAULT_CYCLE
from ur5_pick_place.demo.options import DemoOptions, add_start_and_target, read_options
from ur5_pick_place.demo.processes import working_folder
from ur5_pick_place.demo.recorded_run import Changes, arm_of, record_run, write_runs
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array, pose_distance
from ur5_pick_place.report.command import read_report
from ur5_pick_place.report.motion import Motion, distance_to_segment
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.task import events
from ur5_pick_place.task.motions import IK, TaskSettings
from ur5_pick_place.task.places.names import is_above, taught_place
from ur5_pick_place.terminal import Ended, Parser, command, reading, signals_raised

PRESETS = {'project': PICK_AND_PLACE_PROJECT}
_LINES = ('lin', 'lin_or_ptp')
_MOVES = 1e-7  # [rad] of the reference from one sample to the next
_FLOOR = 0.01  # [mm] lower bound of the logarithmic axes
_DESCRIPTION = (
    f'{__doc__ or ""} A spot "x y yaw" is the centre of the cube on the table in base_link, in '
    'metres and degrees.'
)
_EPILOG = (
    'All figures are computed from measured joints. Every move ends at rest, so that moves can '
    'be compared. Iterations: of a closed loop, the iterations of its control law; of ik, the '
    'points of the trajectory. Smoothness: root mean square of the joint jerk; slow motion '
    'reduces it. Exit code: 0 if every method placed the cube, 1 if not, 2 on invalid input. '
    'Example: compare --method ik --method gradient'
)


@dataclass(frozen=True)
class MeasuredMove:
    """The measured trace of one straight move."""

    name: str  # name of its stage
    trace: Motion
    T_goal: Array  # (4, 4) commanded T_base_tcp at its end
    iterations: int  # iterations of the control law, or points of the trajectory that was sent

    @property
    def length(self) -> float:
        """Length of the straight line [m]."""
        return float(np.linalg.norm(self.T_goal[:3, 3] - self.trace.T_base_tcp[0, :3, 3]))

    @property
    def deviation(self) -> Array:
        """Distance of the TCP from the straight line, shape (n,) [m]."""
        p = self.trace.T_base_tcp[:, :3, 3]
        return distance_to_segment(p, p[0], self.T_goal[:3, 3])

    @property
    def error(self) -> tuple[float, float]:
        """Distance of the TCP from its goal at the end, [m] and [rad]."""
        return pose_distance(self.T_goal, self.trace.T_base_tcp[-1])


@dataclass(frozen=True)
class MethodRun:
    method: str
    # why the cube was not placed, empty on success; the other fields are then empty or zero
    failure: str = ''
    moves: tuple[MeasuredMove, ...] = ()  # the straight moves in order
    cycle: Motion | None = None  # trace of the whole cycle
    part_error: float = 0.0  # placement error of the cube in the plane of the table [m]


@command('compare')
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    given = _parser().parse_args(argv)
    try:
        with signals_raised(), working_folder() as work:
            changes = changes_of(given.preset, given.lag)
            options = _options(given, work / 'cycle.yaml')
            runs = run_methods(options, changes, work)
    except Ended as end:
        return 128 + end.number
    _report(runs, options, {**changes, 'ur_type': given.ur_type})
    return int(any(run.failure for run in runs))


def _options(given: argparse.Namespace, cycle_file: Path) -> DemoOptions:
    """Return the options of a demo with these of ours; errors as `read_options`."""
    write_cycle_with_stops(cycle_file)
    words = ['--ur-type', given.ur_type, '--out', str(given.out), '--cycle', str(cycle_file)]
    for name in ('start', 'target'):
        if spot := getattr(given, name):
            words.append(f'--{name}={spot.x} {spot.y} {math.degrees(spot.yaw)}')
    return replace(read_options(words), methods=given.method or (IK, *METHODS))


# -- running and measuring -------------------------------------------------------------------


def write_cycle_with_stops(path: Path) -> None:
    """Write the cycle of the demo, in which every move ends at rest."""
    content = read_yaml(CONFIG / DEFAULT_CYCLE, 'cycle file')
    stages = [{k: v for k, v in stage.items() if k != 'blend'} for stage in content['stages']]
    path.write_text(yaml.safe_dump({**content, 'stages': stages}), encoding='utf-8')


def changes_of(preset: str | None = None, lag: float | None = None) -> dict[str, Any]:
    """
    Return the changed settings; a larger servo lag reduces the joint velocities.

    Raises `InvalidInput`: the lag is out of range.
    """
    changes: dict[str, Any] = asdict(PRESETS[preset]) if preset else {}
    if lag is None:
        return changes
    usual = CellSettings().servo_lag
    CellSettings(servo_lag=lag)
    return {**changes, 'servo_lag': lag, 'velocity_scaling': usual / max(usual, lag)}


def run_methods(
    options: DemoOptions, changes: dict[str, Any], work: Path
) -> list[MethodRun]:
    """
    Run one cycle by each method of the options, and measure it.

    `options`: with the cycle of `write_cycle_with_stops`. `changes`: see `changes_of`. `work`:
    folder for recording and logs.

    Raises `Ur5PickPlaceError`: the nodes do not start, or nothing was recorded.
    """
    path, runs = work / 'run.mcap', []
    for method in options.methods:
        print(f'{method} …', flush=True)
        runs.append(record_run(method, options, work, changes=_by_node(changes)))
    write_runs(path, arm_of(options), runs)
    period = max(Configuration(changes).read(LoopSettings).loop_hold, CYCLE)
    return [measured_run(run, options, period) for run in read_report(path).runs]


def _by_node(changes: dict[str, Any]) -> Changes:
    robot = {name: value for name, value in changes.items() if name != 'servo_lag'}
    sim = {name: value for name, value in changes.items() if name == 'servo_lag'}
    return {'sim_driver': sim, 'trajectory_planner': robot, 'pick_place': robot}


def measured_run(run: RecordedRun, options: DemoOptions, period: float) -> MethodRun:
    """Return what was measured; a closed loop has one iteration per period [s]."""
    method, samples, motion = run.result['method'], run.samples, run.motion
    if not run.result['success'] or samples is None or motion is None:
        return MethodRun(method, run.result['reason'] or 'no joints were recorded')
    (end,) = samples.times_of(events.DONE)
    rows_of = {row['stage']: row for row in run.story['stages']}
    moves = []
    for stage in options.cycle:
        row = rows_of[stage.name]
        if stage.do not in _LINES or row['remark']:  # a remark marks a joint motion instead
            continue
        begin = row['begin_s']
        rows = slice(*np.searchsorted(motion.t, [begin, begin + row['duration_s']]))
        sent = [n for t, n in samples.goals if begin <= t < begin + row['duration_s']]
        moving = np.abs(np.diff(motion.q_reference[rows], axis=0)).max(axis=1) > _MOVES
        seconds = float(np.diff(motion.t[rows])[moving].sum())
        iterations = sum(sent) if method == IK else math.ceil(seconds / period)
        goal = _goal(stage.to, options)
        moves.append(MeasuredMove(stage.name, motion.part(rows), goal, iterations))
    part, place = samples.parts[1][-1, 0], options.task.ends[0]
    return MethodRun(
        method,
        moves=tuple(moves),
        cycle=motion.part(slice(0, int(np.searchsorted(motion.t, end)))),
        part_error=float(np.linalg.norm((part - place)[:2, 3])),
    )


def _goal(place: str, options: DemoOptions) -> Array:
    """Return T_base_tcp (4, 4) at a place, or above it."""
    spot = options.task.spots[taught_place(place)]
    T = np.asarray(T_BASE_BASE_LINK @ spot.T_base_link_tcp(options.setup.scene))
    if is_above(place):
        height = Configuration({}).read(TaskSettings).approach_height
        T[:3, 3] += height * options.setup.mounting.up_base
    return T


def common_moves(runs: Sequence[MethodRun]) -> list[str]:
    """Return the names of the straight moves that all runs have in common, in order."""
    shared = [{move.name for move in run.moves} for run in runs]
    return [m.name for m in runs[0].moves if all(m.name in s for s in shared)] if runs else []


# -- telling ---------------------------------------------------------------------------------


def figures(run: MethodRun, moves: Sequence[str]) -> dict[str, float]:
    """Return the figures of a successful run and of some of its moves, by name."""
    assert run.cycle is not None
    compared = [move for move in run.moves if move.name in moves]
    found: dict[str, float] = {}
    for move in compared:
        if move.name in ('start', 'target'):
            away, turn = move.error
            found[f'error at {move.name} [mm]'] = 1e3 * away
            found[f'error at {move.name} [deg]'] = math.degrees(turn)
    return {
        **found,
        **(figures_of_lines(compared) if compared else {}),
        'cycle: duration [s]': run.cycle.duration,
        'cycle: joint travel [rad]': run.cycle.travel,
        'cycle: peak joint speed [rad/s]': float(run.cycle.joint_speed.max()),
        'cycle: peak TCP speed [m/s]': float(run.cycle.tcp_speed.max()),
        'cycle: cube from the target [mm]': 1e3 * run.part_error,
    }


def figures_of_lines(moves: Sequence[MeasuredMove]) -> dict[str, float]:
    """Return the figures of straight moves: sums, the RMS of the jerk, the largest of the rest."""
    traces = [move.trace for move in moves]
    jerk = np.concatenate([trace.jerk for trace in traces])
    return {
        'largest deviation from the line [mm]': 1e3 * max(m.deviation.max() for m in moves),
        'duration [s]': sum(trace.duration for trace in traces),
        'iterations': sum(move.iterations for move in moves),
        'joint travel [rad]': sum(trace.travel for trace in traces),
        'peak joint speed [rad/s]': max(float(trace.joint_speed.max()) for trace in traces),
        'peak TCP speed [m/s]': max(float(trace.tcp_speed.max()) for trace in traces),
        'smoothness: RMS joint jerk [rad/s^3]': float(np.sqrt(np.mean(jerk**2))),
    }


def table(columns: dict[str, dict[str, float]]) -> str:
    """Return figures by method as a text table; a method without figures has dashes."""
    names = next((list(found) for found in columns.values() if found), [])
    rows = [('', *columns)]
    rows += [(name, *(_number(found.get(name)) for found in columns.values())) for name in names]
    return '\n'.join(f'{row[0]:38}' + ''.join(f'{cell:>15}' for cell in row[1:]) for row in rows)


def _report(runs: Sequence[MethodRun], options: DemoOptions, changes: dict[str, Any]) -> None:
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
        'start': options.task.start and options.task.start[:3],
        'target': options.task.target and options.task.target[:3],
        'changes': changes,
        'straight_moves': moves,
        'figures': columns,
        'failures': failures,
    }
    kept = [keep_record(options.out, 'compare', content)]
    if moves:
        kept.append(kept[0].with_suffix('.png'))
        plot(placed, kept[1])
    print(f'written to {", ".join(map(str, kept))}')


def plot(runs: Sequence[MethodRun], path: Path) -> None:
    """Write a PNG of the longest move that all runs have in common."""
    from ur5_pick_place.report.plots import Figure  # slow to import

    common = [move for move in runs[0].moves if move.name in common_moves(runs)]
    name = max(common, key=lambda move: move.length).name
    figure = Figure(figsize=(11, 7.5), layout='constrained')
    ((to_go, away), (tcp, joints)) = figure.subplots(2, 2)
    for run in runs:
        move = next(move for move in run.moves if move.name == name)
        t = move.trace.t - move.trace.t[0]
        distance = np.linalg.norm(move.trace.T_base_tcp[:, :3, 3] - move.T_goal[:3, 3], axis=1)
        for axes, curve in (
            (to_go, 1e3 * distance),
            (away, 1e3 * move.deviation),
            (tcp, move.trace.tcp_speed),
            (joints, move.trace.joint_speed),
        ):
            axes.plot(t, curve, label=run.method)
    for axes, title, unit in (
        (to_go, 'distance of the TCP from the goal', 'distance [mm]'),
        (away, 'deviation of the TCP from the straight line', 'distance [mm]'),
        (tcp, 'speed of the TCP', 'speed [m/s]'),
        (joints, 'speed of the fastest joint', 'speed [rad/s]'),
    ):
        axes.set_title(title, fontsize=10)
        axes.set(xlabel='simulated time since the move began [s]', ylabel=unit)
        axes.grid(alpha=0.3)
        axes.legend()
    for axes in (to_go, away):
        axes.set_yscale('log')
        axes.set_ylim(bottom=_FLOOR)
    figure.suptitle(f'Straight move {name!r} by method, from measured joints')
    figure.savefig(path, dpi=110)


def keep_record(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """Write `content` and the time to a new `<name>-<UTC stamp>.json`; return its path."""
    now = datetime.now(timezone.utc)
    folder.mkdir(parents=True, exist_ok=True)
    record = {'time': now.isoformat(timespec='seconds'), **content}
    stem = f'{name}-{now:%Y%m%dT%H%M%SZ}'
    for number in itertools.count(2):
        path = folder / f'{stem}.json'
        with contextlib.suppress(FileExistsError), path.open('x', encoding='utf-8') as file:
            file.write(json.dumps(record, indent=2) + '\n')
            return path
        stem = f'{name}-{now:%Y%m%dT%H%M%SZ}-{number}'  # of another that ended in this second
    raise AssertionError('there are numbers for ever')


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
        choices=tuple(PRESETS),
        help='project: K = 1, T_step = 0.5 s, thresholds of 10 mm and 1 degree, no lookahead',
    )
    parser.add_argument(
        '--lag',
        type=finite,
        metavar='SECONDS',
        help=f'lag of the servos, default {CellSettings().servo_lag:g}; joints are slowed in '
        'proportion to a larger lag, to stay within the path tolerance',
    )
    parser.add_argument(
        '--out', type=reading(user_path), default='out', help='folder for JSON and plot'
    )
    return parser


def _number(value: float | None) -> str:
    if value is None:
        return '-'
    return str(value) if isinstance(value, int) else f'{value:.3f}'


if __name__ == '__main__':
    raise SystemExit(main())
