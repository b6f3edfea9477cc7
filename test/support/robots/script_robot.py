# SPDX-License-Identifier: Apache-2.0
"""A controller for URScript programs alone: it takes each setpoint at once, and notes events."""

import numpy as np

from ur5_pick_place.kinematics import HOME, forward, jacobian, load_model, solutions_near
from ur5_pick_place.sim.controller.script.program import Program
from ur5_pick_place.sim.controller.script.robot import Registers


class ScriptRobot(Registers):
    """`Robot` of `sim/controller/script/robot.py`; `events`: what programs have sent, in order."""

    def __init__(self, step_time=0.008, ur_type='ur5'):
        super().__init__()
        self.model = load_model(ur_type)
        self.step_time, self.time_scale, self.time = step_time, 1.0, 100.0
        self.version = (3, 15, 8, 106339) if step_time == 0.008 else (5, 19, 0, 1210631)
        self.q = np.array(HOME, dtype=float)
        self.qd = np.zeros(6)
        self.torque, self.current, self.temperature = np.zeros(6), np.zeros(6), np.full(6, 25.0)
        self.target_q, self.target_qd = self.q, self.qd
        self.q_min, self.q_max = np.full(6, -2 * np.pi), np.full(6, 2 * np.pi)
        self.qd_max = np.full(6, np.pi)
        self.wrench = np.zeros(6)
        self.tcp = np.eye(4)
        self.payload, self.payload_cog, self.payload_inertia = 0.0, np.zeros(3), np.zeros(6)
        self.gravity = np.array([0.0, 0.0, 9.82])
        self.tool_voltage = 0
        self.popup_open = self.is_free = self.has_external_wrench = False
        self.events = []
        self.targets = []  # (q, qd) of every cycle
        self.commands = 0  # setpoints of this cycle

    def forward(self, q):
        return forward(self.model, q)

    def inverse(self, T_base_flange, q_near):
        found = solutions_near(self.model, T_base_flange, q_near)
        return found[0].q if found else None

    def jacobian(self, q):
        return jacobian(self.model, q, 'base')

    def history(self, steps):
        targets = [target[0] for target in self.targets[-steps - 1 :]]
        return targets[0] if targets else self.q

    def command(self, q, qd):
        self.commands += 1
        self.q, self.qd, self.target_q, self.target_qd = q, qd, q, qd

    def textmsg(self, text):
        self.events.append(('text', text))

    def popup(self, text, title, kind):
        self.popup_open = True
        self.events.append(('popup', text, title, kind))

    def zero_wrench(self):
        self.events.append(('zero_wrench',))

    def watchdog(self, name, min_frequency, action):
        self.events.append(('watchdog', name, min_frequency, action))

    def exception(self, line, column, text):
        self.events.append(('exception', line, column, text))

    def error(self, code, argument, level, text):
        self.events.append(('error', code, argument, level, text))

    def protective_stop(self):
        self.events.append(('protective_stop',))

    def pause(self):
        self.events.append(('pause',))

    # for tests

    def texts(self):
        return [event[1] for event in self.events if event[0] == 'text']

    def cycle(self, program):
        """Run a cycle of a program."""
        self.commands = 0
        program.step()
        assert self.commands <= 1
        if not self.commands:
            self.qd = self.target_qd = np.zeros(6)
        self.targets.append((self.target_q, self.target_qd))

    def run(self, text, seconds=20.0, **kwargs):
        """Run a program to its end, for at most so long; return it."""
        program = Program(text, self, **kwargs)
        for _ in range(round(seconds / self.step_time)):
            self.cycle(program)
            if program.is_over:
                break
        return program
