# SPDX-License-Identifier: Apache-2.0
"""Every fault in every stage of the cycle: what was done about it, and whether all recovered."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import ExecutionError, InvalidInput, PlanningError
from ur5_pick_place.rig.rig import Rig, Spot
from ur5_pick_place.sim.robot import Program, RobotMode

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
    'link_latency': 'joint_states silent|does not follow|goal aborted',
    'link_loss': 'joint_states silent|does not follow',
}
EXPECTED = MUST_STOP | MAY_STOP

_INTO_STAGE = 0.16  # [s]
_PATIENCE = 120.0  # [s] for a cycle to end one way or the other
_COMES_TO_REST = 1.5  # [s] after a stop; what is no fault of the arm ends with it braking
_AFTERMATH = 1.0  # [s] watched before and after the cause is gone
_PLACED = 0.02  # [m]; a part shifted by 10 mm is laid down as gripped, or pushed by the fingers
# What the controller holds after a cancel is where the arm was measured then. An arm that was
# frozen by the robot trailed its setpoint at that moment and still caught up with it, so that it
# goes back when the cause is gone: by its speed, up to 1.5 rad/s here, times its servo lag, 30 ms.
REST = 0.05  # [rad]


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
    goals, gripper : int
        Commands to the controller and to the gripper after the stop, before rearming.
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
    goals: int = 0
    gripper: int = 0
    travel: float = 0.0
    problem: str = ''


def run_matrix(
    faults: tuple[str, ...], stages: tuple[str, ...] = STAGES, changes: dict | None = None
) -> Iterator[Outcome]:
    """Do every case, one after another in a cell that is recovered as a person would."""
    rig: Rig | None = None
    for fault in faults:
        for stage in stages:
            rig = rig or _new(changes or {})
            outcome = Case(rig, fault, START, TARGET, _INTO_STAGE, stage).run()
            if outcome.problem or fault == 'driver_killed':
                rig = None
            yield outcome


def _new(changes: dict) -> Rig:
    rig = Rig(changes)
    rig.prepare(START, TARGET)
    return rig


class Case:
    """
    One cycle with one fault, or none, and what it takes to be ready for the next.

    Parameters
    ----------
    rig : Rig
        Prepared for `start` and `target`.
    fault : str
        Empty for none.
    start, target : Spot
    delay : float
        When the fault comes: after the beginning of `stage`, or of the cycle [s].
    stage : str

    """

    def __init__(
        self, rig: Rig, fault: str, start: Spot, target: Spot, delay: float, stage: str = ''
    ) -> None:
        self._rig, self._fault, self._stage = rig, fault, stage
        self._start, self._target, self._delay = start, target, delay

    def run(self) -> Outcome:
        """Bring the fault about, look, and recover."""
        rig = self._rig
        rig.put_part(self._start)
        rig.wait(0.2)
        since = len(rig.events)
        try:
            rig.plan_and_run()
            rig.until(lambda: self._has_begun(since), 60.0, f'stage {self._stage}')
            rig.wait(self._delay)
            if self._fault and rig.machine.job_name:
                rig.faults.inject(self._fault)
            return self._look(rig.cycles)
        except InvalidInput as error:
            rig.until(lambda: not rig.machine.job_name, _PATIENCE, 'the end of the cycle')
            return Outcome(self._fault, self._stage, 'impossible', str(error))
        except (ExecutionError, PlanningError) as error:
            return Outcome(self._fault, self._stage, 'stopped', problem=str(error))

    def _has_begun(self, since: int) -> bool:
        stages = [e['stage'] for e in self._rig.events[since:] if e['event'] == 'stage']
        return self._stage in stages if self._stage else bool(stages)

    def _look(self, begin: int) -> Outcome:
        rig = self._rig
        if self._fault == 'speed_slider_zero':
            rig.wait(3.0)
            rig.faults.clear(self._fault)
        rig.until(lambda: not rig.machine.job_name, _PATIENCE, 'the end of the cycle')
        reaction = rig.elapsed(begin)
        reason = rig.machine.stopped
        if not reason:
            return self._placed()
        goals, gripper = self._commands()
        rig.wait(_COMES_TO_REST)
        rest, held = rig.world.q, rig.world.part_present
        rig.wait(_AFTERMATH)
        travel = np.abs(rig.world.q - rest).max()
        if self._fault != 'driver_killed':
            self._clear()
            rig.wait(_AFTERMATH)
            travel = max(travel, np.abs(rig.world.q - rest).max())
        after = tuple(a - b for a, b in zip(self._commands(), (goals, gripper), strict=True))
        dropped = held and not rig.world.part_present
        problem = self._judge(reason, after, float(travel), dropped)
        if not problem and self._fault != 'driver_killed':
            problem = self._recover()
        return Outcome(
            self._fault, self._stage, 'stopped', reason, reaction, *after, float(travel), problem
        )

    def _judge(
        self, reason: str, after: tuple[int, ...], travel: float, dropped: bool
    ) -> str:
        expected = EXPECTED.get(self._fault, 'no stop')
        if not re.search(expected, reason):
            return f'unexpected reason; expected {expected}'
        if any(after):
            return f'{after[0]} goals and {after[1]} gripper commands after the stop'
        if travel > REST and self._fault != 'action_server_gone':  # nobody can cancel then
            return f'{travel:.3f} rad of motion after the stop'
        return 'the part was dropped' if dropped and self._fault not in _DROPPING else ''

    def _placed(self) -> Outcome:
        rig, problem = self._rig, ''
        away = np.linalg.norm(rig.world.T_world_part[:2, 3] - self._target[:2])
        if self._fault in MUST_STOP and self._fault in rig.faults.active:
            problem = 'the cycle went on'
        elif away > _PLACED and self._fault != 'part_missing':
            problem = f'the part lies {1e3 * away:.1f} mm from its target'
        self._clear()
        rig.wait(0.2)
        return Outcome(self._fault, self._stage, 'placed', problem=problem or self._recover())

    def _commands(self) -> tuple[int, int]:
        controllers = self._rig.driver.trajectory.values()
        return sum(c.goals_started for c in controllers), self._rig.task.gripper_commands

    def _clear(self) -> None:
        """Take the cause away, as a person would: unlock, switch on, press Play."""
        rig = self._rig
        driver, robot = rig.driver, rig.driver.robot
        rig.until(self._is_cleared, 10.0, f'{self._fault} to be cleared')
        if not robot.safe:  # what slipped out was run into, say
            rig.until(lambda: driver.dashboard.unlock_protective_stop().success, 10.0, 'unlocking')
        if robot.mode is not RobotMode.RUNNING:
            driver.dashboard.power_on()
            rig.wait(2.0)
            driver.dashboard.brake_release()
            rig.until(lambda: robot.mode is RobotMode.RUNNING, 30.0, 'the robot to run')
        if robot.program is not Program.PLAYING:
            driver.dashboard.play()

    def _is_cleared(self) -> bool:
        try:
            self._rig.faults.clear_all()
        except InvalidInput:
            return False
        return True

    def _recover(self) -> str:
        """Rearm, go home, let go of the part; say what does not work."""
        rig = self._rig
        try:
            self._clear()
            rig.until(lambda: not rig.rearm(), 5.0, 'the cell to be rearmed')
            if rig.driver.robot.tool_voltage == 0:
                rig.do('init_gripper', rig.gripper.initialise)
            for name, act in (
                ('go_home', lambda: rig.machine.go_home(rig.poses)),
                ('open_gripper', lambda: rig.machine.start('open_gripper', rig.run.open())),
            ):
                act()
                rig.until(lambda: not rig.machine.job_name, 60.0, name)
                if 'was lost' in rig.machine.stopped and not rig.rearm():
                    act()  # a cube put back between closed fingers falls out again
                    rig.until(lambda: not rig.machine.job_name, 60.0, name)
                if rig.machine.stopped:
                    return f'{name} after rearming: {rig.machine.stopped}'
        except (ExecutionError, InvalidInput) as error:
            return f'no recovery: {error}; rearm says: {rig.rearm()}'
        return ''


# Whose clearing, or whose very nature, lets the part go.
_DROPPING = ('part_slips', 'part_missing', 'emergency_stop', 'output_stuck')
