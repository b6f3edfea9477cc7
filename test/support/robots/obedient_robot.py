# SPDX-License-Identifier: Apache-2.0
"""A robot that does at once what the task commands, unless told to misbehave."""

import functools
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from cycle_poses import CONFIG, MODEL, ORIGIN, POSES, SCENE
from motion_planners import FAST

from ur5_pick_place.kinematics import HOME
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.grippers.outputs import DigitalGripper as Gripper
from ur5_pick_place.task.grippers.outputs import DigitalSettings as GripperSettings
from ur5_pick_place.task.job import (
    Carry,
    Compute,
    Job,
    Observation,
    RunMotion,
    SetOutput,
    SetToolVoltage,
)
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.payload import RobotPayload
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.run import CycleRun

TICK = 0.032  # [s]


@pytest.fixture(scope='module')
def cycle_planner():
    planner = MotionPlanner(MODEL, replace(FAST, max_speed=1.0), SCENE)
    return CyclePlanner(planner, TaskSettings(), load_cycle(CONFIG / 'cycle.yaml'), ORIGIN)


def robot_payload():
    part = TaskSettings().part_load(SCENE)
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
    inputs: dict = field(default_factory=lambda: {17: False})  # but for that of the part
    outputs: dict = field(default_factory=lambda: {16: False, 17: False})
    commands: list = field(default_factory=list)
    reply: Outcome | None = None

    def seen(self):
        inputs = {16: self.outputs[16] and self.is_part_there, **self.inputs}
        return Observation(
            self.t, self.q, inputs, dict(self.outputs), self.voltage, '', self.reply
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


def planner_of(cycle_planner, stages=None, arm=None, settings=TaskSettings(), **pattern):
    """Return a planner of other stages, of another arm, with other settings or a pattern."""
    arm, stages = arm or cycle_planner.planner, stages or cycle_planner.cycle
    return CyclePlanner(arm, settings, stages, ORIGIN, PatternSettings(**pattern))


@functools.lru_cache(1)
def plan_of(planner):
    return planner.plan(POSES, HOME)


class Task:
    """A task whose robot obeys, but for its `fields`; `events` are names and fields."""

    def __init__(self, planner, settings=GripperSettings(), robot=Robot, **fields):
        self.planner, self.robot, self.events, self.job = planner, robot(**fields), [], None
        self.port = ObedientPort(self.robot)
        payload = (0.5, (0.0, 0.0, 0.05))
        self.run = CycleRun(planner, Gripper(settings, 24), payload, self.emit)
        self.machine = Machine(self.run, self.port)

    def emit(self, event, **data):
        self.events.append((event, data))

    def count(self, event):
        return sum(name == event for name, _ in self.events)

    def commands(self, kind):
        return [command for command in self.robot.commands if isinstance(command, kind)]

    @property
    def carried(self):
        """What was sent to the planner last: whether a part is carried; None if nothing was."""
        sent = [command.load is not None for command in self.commands(Carry)]
        return sent[-1] if sent else None

    def do(self, until=lambda: False):
        """Do the cycle, or go on with it, without the machine; return the job."""
        self.job = self.job or Job('run', self.run.cycle(plan_of(self.planner)))
        self.robot.do(self.job, lambda _robot: until())
        return self.job

    def begin(self, poses=POSES):
        """Plan and begin a run of the machine; return what the plan says."""
        said = self.machine.make_plan(poses)
        self.machine.start_run(poses)
        return said

    def tick(self, until=lambda: False):
        """Tick the machine until something is so, or until no job runs."""
        for _ in range(2000):
            if until() or not self.machine.job_name:
                return
            self.machine.tick()
            self.robot.t += TICK
        raise AssertionError(self.machine.state)

    def idle(self, seconds=1.0):
        """Let time pass, and the job end."""
        end = self.robot.t + seconds
        while self.robot.t < end or self.machine.job_name:
            self.machine.tick()
            self.robot.t += TICK

    def stop(self):
        """Stop the machine and rearm it; the commands so far are forgotten."""
        self.machine.stop('stop requested')
        self.machine.rearmed()
        self.robot.commands.clear()
