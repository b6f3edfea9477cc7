# SPDX-License-Identifier: Apache-2.0
"""
The controller of a simulated robot: in each cycle a step of its program and one of the cell.

It has no sockets: ports read and command it, all in its thread. `outbox` holds what the primary
interface is to send.
"""

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import numpy as np

from ur5_pick_place.kinematics.mounting import Mounting
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.controller import messages
from ur5_pick_place.sim.controller.personality import Personality
from ur5_pick_place.sim.controller.script.program import Compiler, Program, ScriptError
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.io_controller import BLOW_OFF_PIN, GRIPPER_PIN, PART_PRESENT_PIN
from ur5_pick_place.sim.layouts import table_height
from ur5_pick_place.sim.physics.hand import Cup
from ur5_pick_place.sim.physics.world import CellSettings, World
from ur5_pick_place.sim.robot import ContactSettings, ContactWatch, RobotMode, SafetyMode
from ur5_pick_place.sim.robot import Program as ProgramState

STOPPING, STOPPED, PLAYING, PAUSING, PAUSED, RESUMING = range(6)
"""States of the run time, as RTDE has them."""

_RAMP_TIME = 0.2  # [s] to pause or resume
_BRAKING = 8.0  # [rad/s2] of the joint that brakes hardest, without a program
_RETURN_SPEED = 0.3  # [rad/s] back to where a stopped program goes on
_UNLOCK_TIME = 0.1  # [s] that the controller takes
_REDUCED = 0.5  # of the speed, in reduced mode
_TOOL_VOLTAGE = 24  # [V] of the installation
_MOST_WAITING = 8  # programs to compile
# Programs that feel for a contact may stop by themselves, even from 0.1 m/s.
_CONTACT = ContactSettings(contact_torque=30.0, contact_time=0.1)


class Controller(Robot):
    """
    One robot with its cell, its programs and its power.

    `is_cold`: as after the power switch, not ready to move. `allow_hosts`: whether programs may
    open sockets to other hosts. `settings`: of the cell, for the type of `personality`; by default
    fingers, and an arm that stands on the table.
    """

    def __init__(
        self,
        personality: Personality,
        is_cold: bool = False,
        allow_hosts: bool = False,
        settings: CellSettings | None = None,
    ) -> None:
        settings = settings or CellSettings(ur_type=personality.ur_type)
        below = table_height(settings.ur_type, Mounting.read(settings.mounting))
        # joints follow their setpoint; the only lag is that of servoj, in the program
        world = World(replace(settings, servo_lag=0.0), table_height=below)
        super().__init__(personality, world)
        self.allow_hosts = allow_hosts
        self.robot.program = ProgramState.STOPPED
        self.is_remote = not is_cold or personality.is_cb3
        self.is_reduced = False
        # of what `play` starts: its name, and what returns its text
        self.loaded: tuple[str, Callable[[], str]] | None = None
        self.program: Program | None = None
        self.target_qdd = np.zeros(6)
        self._pausing = False
        self._path_q: Array | None = None  # where a program goes on that a stop left behind
        self._waiting: deque[Future[Program]] = deque()
        self._compiler, self._is_flooded = Compiler(), False
        self._contact = ContactWatch(_CONTACT, self.step_time)
        self._safety, self.safety_changed = self.safety, False
        self._unlock_due = math.inf
        if is_cold:
            self.robot.power_off()
        else:
            self.robot.tool_voltage = _TOOL_VOLTAGE

    @property
    def safety(self) -> SafetyMode:
        if self.is_reduced and self.robot.safe:
            return SafetyMode.REDUCED
        return self.robot.safety

    @property
    def runtime_state(self) -> int:
        """State of the run time, one of `STOPPED` and so on."""
        if self.program is None:
            return STOPPED if not self.target_qd.any() else STOPPING
        if self.robot.program is ProgramState.PAUSED:
            return PAUSED
        if self._pausing:
            return PAUSING
        return RESUMING if self._path_q is not None else PLAYING

    @property
    def speed_scaling(self) -> float:
        """What slows the arm beside the slider: limits; 0 in a pause and in a stop."""
        if not self.robot.safe or self.robot.program is ProgramState.PAUSED:
            return 0.0
        scale = self.time_scale if self.program is not None else self._wanted_scale
        return min(scale / max(self.robot.slider, 1e-9), 1.0)  # clients multiply the two

    def close_popup(self) -> bool:
        self.popup_open, self.popup_text = False, ''
        return True

    def run(self, read: Callable[[], str]) -> None:
        """
        Read and compile a program in the background, then let it replace the one that runs.

        Refused, with a text message, while the arm is not ready.
        """
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(
                self._compiler.submit(lambda: Program(read(), self, self.allow_hosts))
            )
        elif not self._is_flooded:
            self._is_flooded = True
            self.textmsg(f'program not started: {_MOST_WAITING} programs wait to be compiled')

    def _start_compiled(self) -> None:
        self._is_flooded &= bool(self._waiting)
        while self._waiting and self._waiting[0].done():
            try:
                program = self._waiting.popleft().result()
            except ScriptError as error:
                self.exception(error.line, error.column, error.text)
                continue
            if program.is_secondary:
                program.step()
                program.kill()
            elif self.robot.mode is not RobotMode.RUNNING or not self.robot.safe:
                state = f'{self.robot.mode.name}, {self.safety.name}'
                self.textmsg(f'program not started: the robot is {state}')
            else:
                self._start(program)

    def _start(self, program: Program) -> None:
        self.stop()
        self.program, self.time_scale = program, self._wanted_scale
        self.robot.program = ProgramState.PLAYING
        self._pausing, self._path_q = False, None
        self._key('STARTED', program.name)

    def stop(self) -> bool:
        """End the program; the arm brakes."""
        if self.program is not None:
            self.program.kill()
            self._ended(self.program)
        return True

    def _ended(self, program: Program) -> None:
        """Undo what holds for a program alone."""
        self.program = None
        self.robot.program = ProgramState.STOPPED
        self.is_free = self.has_external_wrench = self._pausing = False
        self._watchdogs.clear()
        self._path_q = None
        self._key('STOPPED', program.name)

    def _key(self, what: str, name: str) -> None:
        self.outbox.append(messages.key_message(self.time, f'PROGRAM_XXX_{what}', name))

    def pause(self) -> bool:
        self._pausing |= self.program is not None and self.robot.program is ProgramState.PLAYING
        return self.program is not None

    def play(self) -> bool:
        """Resume the program, or start the one that is loaded; refused while the arm cannot."""
        if self.robot.mode is not RobotMode.RUNNING or not self.robot.safe:
            return False
        if self.program is None:
            if self.loaded is None:
                return False
            self.run(self.loaded[1])
            return True
        self._pausing = False
        self.robot.program = ProgramState.PLAYING
        return True

    def power_on(self) -> bool:
        """Switch the arm on; its tool gets the voltage of the installation."""
        if self.robot.mode is RobotMode.POWER_OFF and self.robot.power_on():
            self.robot.tool_voltage = _TOOL_VOLTAGE
        return self.robot.power_on()

    def release_brakes(self) -> bool:
        """Make the arm ready to move."""
        if self.robot.mode is RobotMode.POWER_OFF and self.robot.safe:
            self.power_on()
        return self.robot.release_brakes()

    def power_off(self) -> bool:
        self.stop()
        return self.robot.power_off()

    def unlock_soon(self) -> bool:
        """End a protective stop without the wait of 5 s that a pendant insists on."""
        self._unlock_due = self.time + _UNLOCK_TIME
        return True

    def restart_safety(self) -> bool:
        """Restart the safety system, which leaves the arm switched off."""
        self.power_off()
        self.robot.boot()
        return True

    def press_emergency_stop(self) -> None:
        self.robot.press_emergency_stop()
        self.stop()

    def cycle(self) -> None:
        self.cycles += 1
        self.robot.advance(self.time + self.step_time)
        if self.time >= self._unlock_due:
            self._unlock_due = math.inf
            self.robot.stops.discard(SafetyMode.PROTECTIVE_STOP)
        self._start_compiled()
        self._commanded = None
        self._watch_inputs()
        if self.robot.moves and self.program is not None:
            self._run_program(self.program)
        self._apply()
        self._read()
        self._watch_contact()
        self._wire_gripper()
        self.safety_changed = self.safety is not self._safety
        if self.safety_changed:
            self._safety = self.safety
            self.outbox.append(messages.safety_message(self.time, self._safety))

    @property
    def _wanted_scale(self) -> float:
        return self.robot.slider * (_REDUCED if self.is_reduced else 1.0)

    def _run_program(self, program: Program) -> None:
        if self._path_q is not None:
            self._return_to_path(self._path_q)
            return
        goal = 0.0 if self._pausing else self._wanted_scale
        most = self.step_time / _RAMP_TIME
        self.time_scale += min(max(goal - self.time_scale, -most), most)
        if self._pausing and self.time_scale <= 0.0:
            self._pausing = False
            self.robot.program = ProgramState.PAUSED
            self._key('PAUSED', program.name)
            return
        program.step()
        if self.program is program and program.is_over:
            self._ended(program)
        elif not self.robot.safe:
            self._path_q = self.target_q.copy() if self._commanded is None else self._commanded[0]
            self._commanded = None

    def _return_to_path(self, goal: Array) -> None:
        """Move back to where the program goes on, after a stop has led the arm off its path."""
        way = goal - self.target_q
        most = _RETURN_SPEED * self.step_time
        longest = np.abs(way).max()
        step = way * min(1.0, most / longest) if longest > 0.0 else way
        self._commanded = self.target_q + step, step / self.step_time
        if longest <= most:
            self._path_q, self.time_scale = None, 0.0

    def _apply(self) -> None:
        """Give the world the setpoint of this cycle: the program's, or one that brakes."""
        before = self.target_qd
        if self._commanded is not None:
            self.target_q, self.target_qd = self._commanded
        elif before.any():
            if self._path_q is None and self.program is not None and not self.robot.moves:
                self._path_q = self.target_q.copy()
            fastest = np.abs(before).max()
            slower = max(fastest - _BRAKING * self.step_time, 0.0)
            self.target_qd = before * (slower / fastest)
            self.target_q = self.target_q + 0.5 * (before + self.target_qd) * self.step_time
        self.target_qdd = (self.target_qd - before) / self.step_time
        if self.is_free and self.robot.moves:
            self.world.step(None)
            self.target_q, self.target_qd = self.world.q, np.zeros(6)
        else:
            self.world.step(self.target_q)

    def _watch_contact(self) -> None:
        if self.robot.mode is not RobotMode.RUNNING or not self.robot.safe or self.is_free:
            self._contact.reset()
        elif self._contact.update(self.world.external_torque):
            self._path_q = self.target_q.copy() if self.program is not None else None
            self.target_q, self.target_qd = self.q.copy(), np.zeros(6)
            self.world.let_go()
            self.protective_stop('collision detected by joint torque')

    def _watch_inputs(self) -> None:
        for name, watchdog in list(self._watchdogs.items()):
            if self.time - watchdog.seen <= watchdog.period or self.program is None:
                continue
            if watchdog.action == 'stop':
                self.textmsg(f'watchdog: {name} was not written in time, the program is stopped')
                self.stop()
            elif watchdog.action == 'pause' and self.robot.program is ProgramState.PLAYING:
                self.pause()

    def _wire_gripper(self) -> None:
        """Connect tool outputs, gripper and part-present input while the tool has power."""
        powered, hand = self.tool_voltage > 0, self.world.hand
        if isinstance(hand, Cup):
            hand.blows = powered and bool(self.digital_outputs >> BLOW_OFF_PIN & 1)
        hand.close(powered and bool(self.digital_outputs >> GRIPPER_PIN & 1))
        self.set_input(PART_PRESENT_PIN, powered and hand.part_present)
