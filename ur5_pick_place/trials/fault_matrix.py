# SPDX-License-Identifier: Apache-2.0
"""Every fault in every stage of the cycle: what was done about it, and whether all recovered."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.trials.cell import Cell, OpenCell
from ur5_pick_place.trials.in_process import Spot, open_in_process

START: Spot = (0.45, -0.2, 0.0)
TARGET: Spot = (0.4, 0.2, 0.6)

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

# What a stop is to be put down to; faults that some stages do not notice, or get over, may end
# with a part in its place as well.
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
    'joint_states_nan': 'not a finite number|is nan',
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
# Whose clearing, or whose very nature, lets the part go.
_DROPPING = ('part_slips', 'part_missing', 'emergency_stop', 'output_stuck')

_INTO_STAGE = 0.16  # [s]
_PATIENCE = 120.0  # [s] for a cycle to end one way or the other
_COMES_TO_REST = 1.5  # [s] after a stop; what is no fault of the arm ends with it braking
_AFTERMATH = 1.0  # [s] watched before and after the cause is gone
_HOLDS = 7  # messages, of which any may be lost: 5 end a stream, 2 come where a frozen arm rests
_REST = 0.01  # [rad]; a frozen arm that is freed must not go back to where it was canceled
_PLACED = 0.02  # [m]; a part shifted by 10 mm is laid down as gripped, or pushed by the fingers


@dataclass(frozen=True)
class Outcome:
    """
    What became of one case.

    Attributes
    ----------
    fault, stage : str
    end : {'stopped', 'placed', 'impossible'}
        `impossible`: the cell was not in a state for this fault.
    reason : str
        As told.
    reaction : float
        From the fault to the stop [s of robot time].
    motions, holds, gripper : int
        Words to the controller to move and to stay in place, and to the gripper, after the stop
        and before rearming.
    travel : float
        Largest joint motion once at rest, before rearming [rad].
    problem : str
        What is wrong with all that; empty if nothing is.

    """

    fault: str
    stage: str
    end: str
    reason: str = ''
    reaction: float = 0.0
    motions: int = 0
    holds: int = 0
    gripper: int = 0
    travel: float = 0.0
    problem: str = ''


def run_matrix(
    faults: tuple[str, ...],
    stages: tuple[str, ...] = STAGES,
    changes: dict | None = None,
    open_cell: OpenCell = open_in_process,
) -> Iterator[Outcome]:
    """
    Do every case, one after another in a cell that is recovered as a person would.

    Parameters
    ----------
    faults, stages : tuple of str
    changes : dict, optional
        Settings that differ from `config/`.
    open_cell : callable
        Opens the cell, and another one where a case has spoilt it.

    """
    with ExitStack() as opened:
        cell: Cell | None = None
        for fault in faults:
            for stage in stages:
                try:
                    if cell is None:
                        cell = opened.enter_context(open_cell(changes or {}))
                        cell.teach(START, TARGET)
                    outcome = Case(cell, fault, START, TARGET, _INTO_STAGE, stage).run()
                except Ur5PickPlaceError as error:
                    outcome = Outcome(fault, stage, 'stopped', problem=str(error))
                if outcome.problem or fault == 'driver_killed':
                    opened.close()
                    cell = None
                yield outcome


class Case:
    """
    One cycle with one fault, or none, and what it takes to be ready for the next.

    Parameters
    ----------
    cell : Cell
        With `start` and `target` taught.
    fault : str
        Empty for none.
    start, target : Spot
    delay : float
        When the fault comes: after the beginning of `stage`, or of the cycle [s].
    stage : str

    """

    def __init__(
        self, cell: Cell, fault: str, start: Spot, target: Spot, delay: float, stage: str = ''
    ) -> None:
        self._cell, self._fault, self._stage = cell, fault, stage
        self._start, self._target, self._delay = start, target, delay
        self._is_injected = False

    def run(self) -> Outcome:
        """
        Bring the fault about, look, and recover.

        Raises
        ------
        Ur5PickPlaceError
            The cell has not come to where the fault was due, or not to an end.

        """
        cell = self._cell
        cell.put_part(self._start)
        cell.wait(0.2)
        cell.watch()
        cell.run()
        cell.until(lambda: self._has_begun() or not cell.is_busy, 60.0, f'stage {self._stage}')
        cell.wait(self._delay)
        begin = cell.time
        if self._fault and cell.is_busy:
            try:
                cell.inject(self._fault)
            except InvalidInput as error:
                cell.until(lambda: not cell.is_busy, _PATIENCE, 'the end of the cycle')
                return Outcome(self._fault, self._stage, 'impossible', str(error))
            self._is_injected = True
        return self._look(begin)

    def _has_begun(self) -> bool:
        stages = [e['stage'] for e in self._cell.events if e['event'] == 'stage']
        return self._stage in stages if self._stage else bool(stages)

    def _look(self, begin: float) -> Outcome:
        cell = self._cell
        if self._fault == 'speed_slider_zero':
            cell.wait(3.0)
            cell.clear(self._fault)
        cell.until(lambda: not cell.is_busy, _PATIENCE, 'the end of the cycle')
        reaction = cell.time - begin
        reason = cell.stopped
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
        after = tuple(a - b for a, b in zip(cell.commands, before, strict=True))
        dropped = held and not cell.holds_part
        problem = self._judge(reason, reaction, after, float(travel), dropped)
        if not problem and self._fault != 'driver_killed':
            problem = self._recover()
        return Outcome(
            self._fault, self._stage, 'stopped', reason, reaction, *after, float(travel), problem
        )

    def _judge(
        self, reason: str, reaction: float, after: tuple[int, ...], travel: float, dropped: bool
    ) -> str:
        if not self._is_injected:
            return 'it stopped without a fault'
        expected = EXPECTED[self._fault]
        if not re.search(expected, reason):
            return f'unexpected reason; expected {expected}'
        if self._fault in MUST_STOP and reaction > self._allowed:
            return f'noticed after {reaction:.2f} s; allowed {self._allowed} s'
        motions, holds, gripper = after
        if motions or gripper:
            return f'{motions} motions and {gripper} gripper commands after the stop'
        if holds > _HOLDS:
            return f'told {holds} times to hold after the stop; {_HOLDS} end a stream and a freeze'
        can_cancel = self._fault != 'action_server_gone'
        if travel > _REST and can_cancel:
            return f'{travel:.3f} rad of motion after the stop'
        return 'the part was dropped' if dropped and self._fault not in _DROPPING else ''

    @property
    def _allowed(self) -> float:
        return self._cell.patience if self._fault in _SILENT else self._cell.notice

    def _placed(self, lasted: float) -> Outcome:
        cell, problem = self._cell, ''
        away = np.linalg.norm(cell.T_world_part[:2, 3] - self._target[:2])
        if self._fault in MUST_STOP and self._is_injected and lasted > self._allowed:
            problem = 'the cycle went on'
        elif away > _PLACED and self._fault != 'part_missing':
            problem = f'the part lies {1e3 * away:.1f} mm from its target'
        self._clear()
        cell.wait(0.2)
        return Outcome(self._fault, self._stage, 'placed', problem=problem or self._recover())

    def _clear(self) -> None:
        """Take the cause away, as a person would: unlock, switch on, press Play."""
        cell = self._cell
        cell.until(cell.clear, 10.0, f'{self._fault} to be cleared')
        if self._fault == 'part_slips' and 'was lost' in cell.stopped:
            self._find_part()
        # What slipped out may have been run into.
        for button in ('unlock_protective_stop', 'brake_release', 'play'):
            cell.until(lambda b=button: cell.press(b), 30.0, f'the robot to {button}')

    def _find_part(self) -> None:
        """Take the lost part from under the fingers, which may be pressed onto it."""
        p = self._cell.T_world_part[:2, 3]
        self._cell.put_part(
            max(self._start, self._target, key=lambda spot: float(np.linalg.norm(p - spot[:2])))
        )

    def _recover(self) -> str:
        """Rearm, go home, let go of the part; say what does not work."""
        cell = self._cell
        try:
            self._clear()
            cell.until(lambda: not cell.rearm(), 5.0, 'the cell to be rearmed')
            for job in ('init_gripper', 'go_home', 'open_gripper'):
                self._do(job)
                if 'was lost' in cell.stopped and not cell.rearm():
                    self._do(job)  # a cube put back between closed fingers falls out again
                if cell.stopped:
                    return f'{job} after rearming: {cell.stopped}'
        except Ur5PickPlaceError as error:
            return f'no recovery: {error}'
        return ''

    def _do(self, job: str) -> None:
        self._cell.start(job)
        self._cell.until(lambda: not self._cell.is_busy, 60.0, job)
