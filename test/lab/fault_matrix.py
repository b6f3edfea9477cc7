# SPDX-License-Identifier: Apache-2.0
"""Every fault in every stage of the cycle: the reaction, the reason reported, the recovery."""

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lab.cell import Cell, OpenCell, ReusableCell
from lab.in_process import open_in_process
from lab.workers import Workers, run_cases
from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.spots import Spot, default_spots
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE
from ur5_pick_place.task import events

START = default_spots()[0]
TARGET = Spot(0.4, 0.2, 0.6)
"""Spots of a ur5; the other types use those of the demo."""

STAGES = (
    'above start',
    'start',
    'grip',
    'verify grip',
    'set payload',
    'lift',
    'transfer',
    'target',
    'release',
    'reset payload',
    'retreat',
    'home',
)

# Pattern of the reason that must be reported for a stop. A fault in MAY_STOP may also end with
# the part placed: some stages do not notice it or recover from it. `no stop` matches no reason:
# such a fault must not stop the cycle.
_PINS = 'has not shown it|closed on nothing|still holds a part|is open|was lost|bounces|more than'
_LOST = 'was lost|closed on nothing'
_MOTION = 'refused the motion|goal aborted|is not there|is not active'
MUST_STOP = {
    'protective_stop': 'protective stop',
    'emergency_stop': 'emergency stop',
    'safeguard_stop': 'safeguard stop',
    'program_stopped': 'External Control program not running',
    'program_paused': 'program paused',
    'joint_states_dropped': 'joint_states silent',
    'joint_states_jumping': 'jumped by',
    'joint_states_nan': 'is nan',
    'io_states_silent': 'io_states silent',
    'driver_killed': 'joint_states silent|is not there',
}
MAY_STOP = {
    'speed_slider_zero': 'no stop',
    'joint_states_frozen': 'does not follow|from its reference|not ended in time',
    'set_io_slow': 'no stop',
    'set_io_lying': 'has not shown it',
    'set_io_absent': 'set_io is not there',
    'output_stuck': _PINS,
    'part_present_stuck': _PINS,
    'part_present_bouncing': _PINS,
    'part_present_late': _PINS,
    'part_slips': f'{_LOST}|bounces',
    'part_missing': _LOST,
    'part_shifted': f'{_LOST}|protective stop',
    'controller_inactive': _MOTION,
    'goals_rejected': _MOTION,
    'action_server_gone': _MOTION,
    'link_latency': 'joint_states silent|does not follow|goal aborted|follows .* s late',
    'link_loss': 'joint_states silent|does not follow',
}
EXPECTED = MUST_STOP | MAY_STOP

_SILENT = ('joint_states_dropped', 'io_states_silent', 'driver_killed')
# Faults that release the part, or whose clearing does.
_DROPPING = ('part_slips', 'part_missing', 'emergency_stop', 'output_stuck')

_INTO_STAGE = 0.16  # [s]
_CYCLE_TIMEOUT = 120.0  # [s] for a cycle to end
_COMES_TO_REST = 1.5  # [s] allowed from a stop until the arm is at rest
_ANY_ARM = load_model('ur5')
_AFTERMATH = 1.0  # [s] observed before and after the cause is cleared
_HOLDS = 7  # hold commands: 5 end a stream (any may be lost), 2 follow once a frozen arm rests
_REST = 0.01  # [rad]; an arm freed after a stop must not return to where its goal was canceled
_PLACED = 0.02  # [m]; a part shifted by 10 mm is placed as gripped, or pushed by the fingers


@dataclass(frozen=True)
class CaseResult:
    """
    Result of one case.

    `end`: 'stopped', 'placed', 'impossible' where the state of the cell did not allow this fault,
    or 'lost' with its process. Commands are counted between stop and rearming.
    """

    fault: str
    stage: str
    end: str
    reason: str = ''  # of the stop, as reported
    reaction: float = 0.0  # time from the fault to the stop [s of robot time]
    motions: int = 0
    holds: int = 0
    gripper: int = 0
    travel: float = 0.0  # largest joint motion between rest and rearming [rad]
    problem: str = ''  # why the case failed; empty if it passed


def run_matrix(
    faults: tuple[str, ...],
    stages: tuple[str, ...] = STAGES,
    overrides: dict[str, Any] | None = None,
    open_cell: OpenCell = open_in_process,
    workers: Workers = Workers(),
    fresh: bool = False,
) -> Generator[CaseResult, None, None]:
    """
    Run all cases, recovering the cell after each as a person would; yield the results in order.

    `faults` are keys of `EXPECTED`, `overrides` settings that differ from `config/`. `open_cell`
    opens the cell of a worker, and a new one after a failed case; with `fresh` one for each case,
    so that no figure depends on the cases before it.
    """
    cases = [(fault, stage) for fault in faults for stage in stages]
    open_work = partial(_open_work, open_cell, overrides or {}, fresh)
    return run_cases(open_work, cases, _lost, workers)


@contextmanager
def _open_work(
    open_cell: OpenCell, overrides: Mapping[str, Any], fresh: bool
) -> Iterator[Callable[[tuple[str, str]], CaseResult]]:
    with ReusableCell(open_cell, overrides) as reusable:
        ur_type = overrides.get('ur_type', 'ur5')
        spots = (START, TARGET) if ur_type == 'ur5' else default_spots(CellSetup(ur_type))
        yield partial(_run_case, reusable, fresh, spots)


def _run_case(
    reusable: ReusableCell, fresh: bool, spots: tuple[Spot, Spot], case: tuple[str, str]
) -> CaseResult:
    fault, stage = case
    if fresh:
        reusable.close()
    try:
        cell = reusable.cell
        if cell is None:
            cell = reusable.open()
            cell.teach(*spots)
        outcome = Case(cell, fault, *spots, _INTO_STAGE, stage).run()
    except Ur5PickPlaceError as error:
        outcome = CaseResult(fault, stage, 'stopped', problem=str(error))
    if outcome.problem or fault == 'driver_killed':
        reusable.close()
    return outcome


def _lost(case: tuple[str, str], why: str) -> CaseResult:
    return CaseResult(*case, 'lost', problem=why)


class Case:
    """
    One cycle with at most one fault, and the recovery for the next one.

    `cell` has `start` and `target` taught. The fault, empty for none, comes `delay` [s] after the
    beginning of `stage`, or of the cycle if that is empty.
    """

    def __init__(
        self, cell: Cell, fault: str, start: Spot, target: Spot, delay: float, stage: str = ''
    ) -> None:
        self._cell, self._fault, self._stage = cell, fault, stage
        self._start, self._target, self._delay = start, target, delay
        self._is_injected = self._is_part_found = False

    def run(self) -> CaseResult:
        """
        Run the cycle, inject the fault, judge the reaction and recover; return the result.

        Raises `Ur5PickPlaceError`: the stage of the fault did not come, or the cycle did not end.
        """
        cell = self._cell
        cell.put_part(self._start)
        cell.wait(0.2)
        cell.reset_measurements()
        cell.run()
        cell.until(lambda: self._has_begun() or not cell.is_busy, 60.0, f'stage {self._stage}')
        if not (self._has_begun() or cell.stop_reason):
            return CaseResult(
                self._fault, self._stage, 'placed', problem='the stage of the fault did not come'
            )
        cell.wait(self._delay)
        begin = cell.time
        if self._fault and cell.is_busy:
            try:
                cell.inject(self._fault)
            except InvalidInput as error:
                cell.until(lambda: not cell.is_busy, _CYCLE_TIMEOUT, 'the end of the cycle')
                is_odd = self._fault in MUST_STOP or bool(cell.stop_reason)
                problem = f'not injected; {cell.stop_reason or "it was placed"}' if is_odd else ''
                return CaseResult(
                    self._fault, self._stage, 'impossible', str(error), problem=problem
                )
            self._is_injected = True
        return self._observe_reaction(begin)

    def _has_begun(self) -> bool:
        stages = [e['stage'] for e in self._cell.events if e['event'] == events.STAGE]
        return self._stage in stages if self._stage else bool(stages)

    def _observe_reaction(self, begin: float) -> CaseResult:
        cell = self._cell
        if self._fault == 'speed_slider_zero':
            cell.wait(3.0)
            cell.clear(self._fault)
        cell.until(lambda: not cell.is_busy, _CYCLE_TIMEOUT, 'the end of the cycle')
        reaction = cell.time - begin
        reason = cell.stop_reason
        if not reason:
            return self._placed(reaction)
        cell.settle()
        before = cell.commands
        cell.wait(_COMES_TO_REST)
        rest, held = cell.q, cell.holds_part
        cell.wait(_AFTERMATH)
        travel = np.abs(cell.q - rest).max()
        if self._fault != 'driver_killed':
            self._clear()
            cell.wait(_AFTERMATH)
            travel = max(travel, np.abs(cell.q - rest).max())
        motions, holds, gripper = (a - b for a, b in zip(cell.commands, before, strict=True))
        after = motions, holds, gripper
        dropped = held and not cell.holds_part
        problem = self._judge(reason, reaction, after, float(travel), dropped)
        if not problem and self._fault != 'driver_killed':
            problem = self._recover()
        return CaseResult(
            self._fault, self._stage, 'stopped', reason, reaction, *after, float(travel), problem
        )

    def _judge(
        self, reason: str, reaction: float, after: tuple[int, ...], travel: float, dropped: bool
    ) -> str:
        if not self._is_injected:
            return 'stopped without a fault'
        expected = EXPECTED[self._fault]
        if not re.search(expected, reason):
            return f'unexpected reason: must match {expected}'
        if self._fault in MUST_STOP and reaction > self._allowed:
            return f'detected after {reaction:.2f} s: must be at most {self._allowed} s'
        motions, holds, gripper = after
        if motions or gripper:
            return f'{motions} motion and {gripper} gripper commands after the stop: must be none'
        if holds > _HOLDS:
            return f'{holds} hold commands after the stop: must be at most {_HOLDS}'
        can_cancel = self._fault != 'action_server_gone'
        if travel > _REST and can_cancel:
            return f'{travel:.3f} rad of motion after the stop: must be at most {_REST} rad'
        return 'the part was dropped' if dropped and self._fault not in _DROPPING else ''

    @property
    def _allowed(self) -> float:
        cell = self._cell
        return cell.silence_limit if self._fault in _SILENT else cell.reaction_limit

    def _placed(self, lasted: float) -> CaseResult:
        cell, problem = self._cell, ''
        away = np.linalg.norm(cell.T_world_part[:2, 3] - self._target[:2])
        if self._fault in MUST_STOP and self._is_injected and lasted > self._allowed:
            problem = 'the cycle was not stopped'
        elif away > _PLACED and self._fault != 'part_missing':
            most = f'must be at most {1e3 * _PLACED:.0f} mm'
            problem = f'placement error {1e3 * away:.1f} mm: {most}'
        self._clear()
        cell.wait(0.2)
        return CaseResult(self._fault, self._stage, 'placed', problem=problem or self._recover())

    def _clear(self) -> None:
        """Clear the fault as a person would: unlock, switch on, press Play."""
        cell = self._cell
        cell.until(cell.clear, 10.0, f'{self._fault} to be cleared')
        is_lost = self._fault == 'part_slips' and 'was lost' in cell.stop_reason
        if is_lost and not self._is_part_found:
            self._find_part()
        # The arm may have collided with a part that slipped out.
        for button in ('unlock_protective_stop', 'brake_release', 'play'):
            cell.until(partial(cell.press, button), 30.0, f'the robot to {button}')

    def _find_part(self) -> None:
        """Move the lost part to the spot farther from the fingers."""
        self._is_part_found = True  # a second move would bring it under the fingers
        x, y = (T_BASE_LINK_BASE @ forward(_ANY_ARM, self._cell.q))[:2, 3]

        def angle(spot: Spot) -> float:
            """Return by how much the arm would have to turn to the spot, whatever its reach."""
            return abs(float(np.angle(complex(spot[0], spot[1]) / complex(x, y))))

        self._cell.put_part(max(self._start, self._target, key=angle))

    def _recover(self) -> str:
        """Rearm, go home and release the part; return the first problem, or ''."""
        cell = self._cell
        try:
            self._clear()
            cell.until(lambda: cell.rearm().ok, 5.0, 'the cell to be rearmed')
            for job in ('init_gripper', 'go_home', 'open_gripper'):
                self._do(job)
                if 'was lost' in cell.stop_reason and cell.rearm().ok:
                    self._do(job)  # a cube put back between closed fingers falls out again
                if cell.stop_reason:
                    return f'{job} after rearming: {cell.stop_reason}'
        except Ur5PickPlaceError as error:
            return f'recovery failed: {error}'
        return ''

    def _do(self, job: str) -> None:
        self._cell.start(job)
        self._cell.until(lambda: not self._cell.is_busy, 60.0, job)
