# SPDX-License-Identifier: Apache-2.0
"""An executor over a controller that answers when it is told to, and an arm that follows it."""

import numpy as np

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, load_model
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.planning.paths.trajectory import Trajectory

CYCLE = 0.008


class LateController:
    """A controller that answers when it is told to; the arm follows what it has accepted."""

    def __init__(self):
        self.why_unavailable = self.conflict = self.why_not_canceled = self.why_no_stream = ''
        self.sent, self.running, self.strangers = [], None, set()
        self.cancels = self.holds = self.deactivations = 0
        self.q, self.drift = HOME.copy(), np.zeros(6)
        self.began = 0.0

    @property
    def goals(self):
        return frozenset(self.strangers | ({self.running.id} if self.running else set()))

    def prepare(self, trajectory):
        return trajectory

    def may_replace(self, points, stamp):
        return True

    def send(self, goal, listener):
        self.sent.append(goal)
        self.listener = listener

    def cancel(self):
        self.cancels += 1
        self.strangers.clear()
        ended, self.running = self.running, None
        if ended:
            self.listener.on_result(ended, Outcome.failed('goal canceled'))

    def hold(self, q):
        self.holds += 1
        self.drift[:] = 0.0

    def stop_other_motion(self, stop_progress):
        self.deactivations += 1

    def accept(self, now):
        """Take the goal that was sent last."""
        self.running, self.began = self.sent[-1], now
        self.listener.on_answer(self.running, True)

    def move(self, now):
        before = self.q
        if self.running:
            self.q = self.running.trajectory.sample(now - self.began)[0]
            if now - self.began > self.running.trajectory.duration:
                ended, self.running = self.running, None
                self.listener.on_result(ended, DONE)
        self.q = self.q + self.drift
        return (self.q - before) / CYCLE


class Anything:
    """A planner whose gate takes everything."""

    limits = dynamics = scene = None

    def check(self, *_):
        return None


class Limited(Anything):
    """One with limits, so that a motion can brake."""

    limits = motion_limits(load_model('ur5'), MotionSettings())


class Cell:
    """A cell whose robot's clock runs at `pace` [s/s] of this PC's."""

    def __init__(self, gate=None, watched=0.3, pace=1.0):
        self.stamp, self.pace = 100.0, pace
        self.now, self.states, self.ends, self.silent = 100.0, [], [], False
        self.port, self.status = LateController(), RobotStatus(
            robot_mode=7, safety_mode=1, program_running=True
        )
        self.executor = ExecutionManager(
            gate or Anything(),
            self.port,
            self.status,
            (HealthSettings(), TrackingSettings()),
            '',
            self.states.append,
            lambda: self.now,
        )
        self.run(watched)

    def run(self, seconds):
        for i in range(round(seconds / CYCLE)):
            self.stamp += CYCLE
            self.now += CYCLE / self.pace
            qd = self.port.move(self.stamp)
            if not self.silent:
                self.status.update_joints(self.stamp, self.port.q, qd, JOINT_NAMES, self.now)
                self.executor.on_joints()
            if i % 2:
                self.executor.watch()

    def start(self):
        self.executor.start(turn(1.0, 8.0), self.ends.append)

    def report(self):
        """Give the controller's feedback on the running goal."""
        goal = self.port.running
        self.executor.on_feedback(goal, self.stamp, self.stamp - self.port.began)

    @property
    def state(self):
        return self.executor.motion_state


def moving(gate=None, seconds=3.0, silent=0.0):
    """Return a cell `seconds` of joints, then `silent` ones, after the start of a motion."""
    cell = Cell(gate or Limited())
    cell.start()
    cell.port.accept(cell.now)
    cell.run(seconds)
    cell.silent = silent > 0.0
    cell.run(silent)
    return cell


def turn(angle, seconds):
    """A slow quintic of the shoulder."""
    u = np.linspace(0.0, 1.0, 40)[:, None]
    joint = np.eye(6)[0] * angle
    return Trajectory(
        u[:, 0] * seconds,
        HOME + (10 * u**3 - 15 * u**4 + 6 * u**5) * joint,
        30 * u**2 * (1 - u) ** 2 / seconds * joint,
        60 * u * (1 - u) * (1 - 2 * u) / seconds**2 * joint,
    )
