# SPDX-License-Identifier: Apache-2.0
"""A robot that does at once what the task commands, unless told to misbehave."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from cycle_poses import CONFIG, MODEL, ORIGIN, SCENE

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.grippers.digital import DigitalGripper as Gripper
from ur5_pick_place.task.grippers.digital import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import Compute, Observation, RunMotion, SetOutput, SetToolVoltage
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.payload import RobotPayload
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.run import CycleRun

TICK = 0.032  # [s]


@pytest.fixture(scope='module')
def cycle_planner():
    motion = MotionSettings(
        max_acceleration=10.0,
        max_jerk=100.0,
        max_speed=1.0,
        velocity_scaling=1.0,
        acceleration_scaling=1.0,
    )
    planner = MotionPlanner(MODEL, motion, SCENE)
    return CyclePlanner(planner, TaskSettings(), load_cycle(CONFIG / 'cycle.yaml'), ORIGIN)


def robot_payload():
    part = TaskSettings().part_load(SCENE.tool)
    return RobotPayload(lambda: SCENE, (0.0, (0.0, 0.0, 0.0)), lambda: part)


@dataclass
class Robot:
    """A robot that does at once what it is told, unless told to misbehave."""

    t: float = 0.0
    q: np.ndarray = field(default_factory=lambda: HOME.copy())
    voltage: int = 24
    is_part_there: bool = True
    is_output_stuck: bool = False
    is_driver_refusing: bool = False
    outputs: dict = field(default_factory=lambda: {16: False, 17: False})
    commands: list = field(default_factory=list)
    reply: Outcome | None = None

    def seen(self):
        part = self.outputs[16] and self.is_part_there
        return Observation(
            self.t, self.q, {16: part, 17: False}, dict(self.outputs), self.voltage, '', self.reply
        )

    def obey(self, command):
        self.reply = None
        if command is None:
            return
        if isinstance(command, Compute):
            self.reply = command.attempt()
            return
        self.commands.append(command)
        refused = Outcome.failed('refused by the driver')
        self.reply = refused if self.is_driver_refusing else DONE
        if isinstance(command, RunMotion):
            self.q = command.trajectory.q[-1]
        elif isinstance(command, SetOutput) and not self.is_output_stuck:
            self.outputs[command.pin] = command.state
        elif isinstance(command, SetToolVoltage):
            self.voltage = command.voltage

    def follow(self, job, joints):
        """Be seen on the way, a motion not yet at its end."""
        self.reply = None
        for q in joints:
            self.q = q
            assert job.tick(self.seen()) is None
            self.t += TICK

    def do(self, job, until=lambda robot: False, ticks=2000):
        for _ in range(ticks):
            if job.is_done or until(self):
                return
            self.obey(job.tick(self.seen()))
            self.t += TICK
        raise AssertionError(f'{job.name} did not end within {ticks} ticks')


@dataclass
class ObedientPort:
    """A machine's way to such a robot."""

    robot: Robot
    stop_reason: str = ''
    why_not_ready: str = ''

    def observe(self):
        return replace(self.robot.seen(), stop_reason=self.stop_reason, reply=None)

    def send(self, command, on_reply):
        self.robot.obey(command)
        on_reply(DONE)

    def cancel_motion(self):
        pass


def opened(gripper):
    yield from gripper.begin_opening()
    yield from gripper.await_fingers()


def make_run(cycle_planner, settings=GripperSettings(), events=None):
    record = [] if events is None else events
    return CycleRun(
        cycle_planner,
        Gripper(settings, 24),
        TaskSettings(),
        (0.5, (0.0, 0.0, 0.05)),
        lambda event, **data: record.append((event, data)),
    )
