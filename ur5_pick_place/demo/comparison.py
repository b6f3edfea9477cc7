# SPDX-License-Identifier: Apache-2.0
"""One task by each method on the simulated cell, measured on the joints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.demo.in_process import InProcessCell
from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.errors import ExecutionError, PlanningError
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.report.line_figures import MeasuredMove, Trace, trace_of
from ur5_pick_place.task.cycle.steps import annotate
from ur5_pick_place.task.motions import PlannedStage, T_base_tool

_CYCLE_TIMEOUT = 600.0  # [s] simulated time for a cycle
_REST = 0.5  # [s] for the cube to come to rest


@dataclass(frozen=True)
class MethodRun:
    """
    One cycle by one method.

    Attributes
    ----------
    method : str
    failure : str
        Why the cube was not placed, empty on success; the other fields are then empty or zero.
    moves : tuple of MeasuredMove
        The straight moves in order.
    cycle : Trace or None
        Trace of the whole cycle.
    part_error : float
        Placement error of the cube in the plane of the table [m].

    """

    method: str
    failure: str = ''
    moves: tuple[MeasuredMove, ...] = ()
    cycle: Trace | None = None
    part_error: float = 0.0


def run_method(
    method: str, start: Spot, target: Spot, overrides: Mapping[str, Any] = {}
) -> MethodRun:
    """
    Run one cycle in which every move ends at rest, so that moves can be compared.

    Parameters
    ----------
    overrides : mapping of str to value
        Settings that differ from `config/`.

    """
    cell = InProcessCell({**overrides, 'method': method})
    planner, machine = cell.station.cycle_planner, cell.station.machine
    planner.steps = annotate(
        [replace(s, blend=0.0) if s.is_move else s for s in planner.cycle]
    )
    cell.put_part(start)
    cell.teach(start, target)
    recorder = _Recorder(cell)
    try:
        cell.run()
        plan = machine.plan
        cell.until(lambda: not cell.is_busy, _CYCLE_TIMEOUT, 'the end of the cycle')
    except (ExecutionError, PlanningError) as error:
        return MethodRun(method, str(error))
    if cell.stop_reason:
        return MethodRun(method, f'stage {cell.station.run.stage!r}: {cell.stop_reason}')
    cell.on_step = None
    cell.wait(_REST)
    trace = recorder.trace()
    period = max(Configuration(overrides).read(LoopSettings).loop_hold, CYCLE)
    assert plan is not None
    straight = filter(_is_straight, plan.cycles[0])
    moves = tuple(recorder.move(stage, trace, period) for stage in straight)
    return MethodRun(
        method,
        moves=moves,
        cycle=trace,
        part_error=math.dist(cell.T_world_part[:2, 3], target[:2]),
    )


def common_moves(runs: Sequence[MethodRun]) -> list[str]:
    """Return the names of the straight moves that all runs have in common, in order."""
    shared = [{move.name for move in run.moves} for run in runs]
    return [m.name for m in runs[0].moves if all(m.name in s for s in shared)] if runs else []


def _is_straight(planned: PlannedStage) -> bool:
    """Return whether a stage is a straight move; a remark marks a joint motion instead."""
    return planned.stages[0].do in ('lin', 'lin_or_ptp') and not planned.remark


class _Recorder:
    """Records joints, stage and motion state in every cycle of the driver."""

    def __init__(self, cell: InProcessCell) -> None:
        self._cell = cell
        self._samples: list[tuple[float, Any, Any]] = []
        self._stages: list[str] = []
        self._moving: list[bool] = []
        cell.on_step = self._sample

    def trace(self) -> Trace:
        """Return the trace of all samples."""
        planner = self._cell.station.planner
        return trace_of(self._samples, planner.model, planner.scene.tool.T_tool_tcp)

    def move(self, planned: PlannedStage, trace: Trace, period: float) -> MeasuredMove:
        """Return the move of a stage; a closed loop has one iteration per period [s]."""
        rows = np.flatnonzero(np.array(self._stages) == planned.name)
        within = slice(int(rows[0]), int(rows[-1]) + 1)
        if planned.method:
            iterations = math.ceil(sum(self._moving[within]) * self._cell.driver.period / period)
        else:
            iterations = planned.moved.trajectory.t.size
        station = self._cell.station
        planner, settings = station.planner, station.cycle_planner.settings
        T_base_tcp = (
            T_base_tool(planned.stages[0].to, self._cell.poses, planner, settings)
            @ planner.scene.tool.T_tool_tcp
        )
        return MeasuredMove(planned.name, trace.part(within), T_base_tcp, iterations)

    def _sample(self) -> None:
        cell = self._cell
        self._samples.append((cell.driver.time, cell.driver.q, cell.driver.qd))
        self._stages.append(cell.station.run.stage)
        state, _ = parse_motion_state(cell.manager.motion_state)
        self._moving.append(state is MotionState.MOVING)
