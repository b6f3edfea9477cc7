# SPDX-License-Identifier: Apache-2.0
"""One task by each method on the simulated cell, measured on the recorded joints."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.control.loops.loop_settings import PICK_AND_PLACE_PROJECT, LoopSettings
from ur5_pick_place.demo.configuration import CONFIG, Configuration
from ur5_pick_place.demo.cycle_layout import DEFAULT_CYCLE
from ur5_pick_place.demo.options import DemoOptions
from ur5_pick_place.demo.recorded_run import Changes, RunFile, arm_of, record_run, scene_of
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array
from ur5_pick_place.report.command import read_report
from ur5_pick_place.report.evaluation import distance
from ur5_pick_place.report.motion import Motion, distance_to_segment
from ur5_pick_place.report.runs import RecordedRun
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.task import events
from ur5_pick_place.task.motions import IK, TaskSettings
from ur5_pick_place.task.places.names import is_above, taught_place

PRESETS = {'project': PICK_AND_PLACE_PROJECT}
_LINES = ('lin', 'lin_or_ptp')
_MOVES = 1e-7  # [rad] of the reference from one sample to the next


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
        return distance(self.T_goal, self.trace.T_base_tcp[-1])


@dataclass(frozen=True)
class MethodRun:
    method: str
    # why the cube was not placed, empty on success; the other fields are then empty or zero
    failure: str = ''
    moves: tuple[MeasuredMove, ...] = ()  # the straight moves in order
    cycle: Motion | None = None  # trace of the whole cycle
    part_error: float = 0.0  # placement error of the cube in the plane of the table [m]


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
    path = work / 'run.mcap'
    with RunFile(path, {'arm': arm_of(options)}) as file:
        for method in options.methods:
            print(f'{method} …', flush=True)
            record_run(method, options, work, file, changes=_by_node(changes))
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
    T = np.asarray(T_BASE_BASE_LINK @ spot.T_base_link_tcp(scene_of(options)))
    if is_above(place):
        height = Configuration({}).read(TaskSettings).approach_height
        T[:3, 3] += height * spot.stand.mounting.up_base
    return T


def common_moves(runs: Sequence[MethodRun]) -> list[str]:
    """Return the names of the straight moves that all runs have in common, in order."""
    shared = [{move.name for move in run.moves} for run in runs]
    return [m.name for m in runs[0].moves if all(m.name in s for s in shared)] if runs else []
