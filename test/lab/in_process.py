# SPDX-License-Identifier: Apache-2.0
"""The simulated cell with execution manager and task, all in this process and thread."""

import contextlib
import ctypes
import gc
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lab.in_process_ports import ControllerPort, InProcessTaskPort
from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loops.jog import Jog
from ur5_pick_place.control.loops.jog_velocity import Command
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.control.robot_status import (
    SAFETY_REDUCED,
    HealthSettings,
    RobotStatus,
    io_timeout,
)
from ur5_pick_place.demo.configuration import CONFIG, Configuration
from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import forward, load_model
from ur5_pick_place.kinematics.mounting import Mounting
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    inverse_transform,
    pose_distance,
)
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.controllers.controller_manager import PASSTHROUGH
from ur5_pick_place.sim.driver import Driver, DriverSettings
from ur5_pick_place.sim.faults import FaultInjector
from ur5_pick_place.sim.grippers import DIGITAL, GRIPPERS
from ur5_pick_place.sim.layouts import home
from ur5_pick_place.sim.physics.scene_boxes import load_boxes, load_table_height
from ur5_pick_place.sim.physics.world import CellSettings, World
from ur5_pick_place.sim.robot import ContactSettings, Program
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.grippers.action import ActionSettings
from ur5_pick_place.task.grippers.registry import gripper_type
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.places.poses import TaughtPose, numbers_from_matrix
from ur5_pick_place.task.station import Station, StationSettings

_WATCH_EVERY = 0.016  # [s], as in the nodes
_BRAKING = 1.5  # [s]; a motion at its limits brakes on its path within 1.1 s
_LIBC = ctypes.CDLL(None)
_M_MMAP_THRESHOLD, _LARGE = -3, 2**19  # mallopt's option; [B]

# The timeouts in config/ allow for a PC that simulates in real time; here nothing is late.
_ROBOT = {'joint_state_timeout': 0.1, 'running_joint_state_timeout': 0.5}


class InProcessCell:
    """
    A `lab.cell.Cell` in this process; time passes only in `step`, which then calls `on_step`.

    The cube lies at the demo's start until `put_part` or `inject('part_missing')` moves it.

    `overrides`: settings that differ from `config/`, by name. `cycles`: of the driver so far, also
    while it is dead. `events`: of the task, with `event` and the robot's `time` [s].
    """

    silence_limit, reaction_limit = 0.65, 0.5

    def __init__(self, overrides: Mapping[str, Any] = {}) -> None:
        config = Configuration({**_ROBOT, **overrides})
        scene_file = CONFIG / config['scene_file']
        scene = replace(load_scene(scene_file), mounting=Mounting.read(config['mounting']))
        boxes, height = load_boxes(scene_file), load_table_height(scene_file)
        self.model = load_model(config['ur_type'])
        # The fingers on an output stand in for a gripper class from outside this package.
        gripper = config['gripper'] if config['gripper'] in GRIPPERS else DIGITAL
        self.world = World(config.read(CellSettings, gripper=gripper), None, boxes, height)
        self.driver = Driver(
            self.world, config.read(DriverSettings), config.read(ContactSettings)
        )
        self.faults = FaultInjector(self.driver)
        self.events: list[dict[str, Any]] = []
        self.poses: dict[str, TaughtPose] = {}
        self.on_step: Callable[[], object] | None = None
        self.cycles = 0
        self._status = RobotStatus()
        self._T_tcp_part: Array | None = None
        self.speed = 0.0

        load = Load(config['payload_mass'], np.zeros(3))
        dynamics = Dynamics(self.model, [load], scene.mounting)
        planner = MotionPlanner(self.model, config.read(MotionSettings), scene, dynamics)
        health, tracking = config.read(HealthSettings), config.read(TrackingSettings)
        self.controller = ControllerPort(self.driver, config['controller'], tracking)
        self.planner, self._loops = planner, config.read(LoopSettings)
        self._jog: Jog | None = None
        self.manager = ExecutionManager(
            planner,
            self.controller,
            self._status,
            (health, tracking),
            '',
            lambda _state: None,
            lambda: self.time,
            replaces=config['controller'] != PASSTHROUGH,
        )
        settings = _station_settings(config)
        grip = settings.gripper.settings
        action = grip if isinstance(grip, ActionSettings) else None
        self.port = InProcessTaskPort(
            self.driver, self.manager, planner, settings.loops, io_timeout(health), action
        )
        self.station = Station(settings, self.model, scene, dynamics, self.port, self._emit)

    # -- what is observed ----------------------------------------------------------------------

    @property
    def time(self) -> float:
        return self.cycles * self.driver.period

    @property
    def is_busy(self) -> bool:
        return bool(self.station.machine.job_name)

    @property
    def stop_reason(self) -> str:
        return self.station.machine.stop_reason

    @property
    def q(self) -> Array:
        return self.world.q

    @property
    def T_world_part(self) -> Array:
        return self.world.T_world_part

    @property
    def holds_part(self) -> bool:
        return self.world.hand.part_present

    @property
    def commands(self) -> tuple[int, int, int]:
        return self.controller.motions, self.controller.holds, self.port.gripper_commands

    def reset_measurements(self) -> None:
        self.events.clear()
        self.speed, self._T_tcp_part = 0.0, None

    def placement(self, target: Spot) -> tuple[float, float]:
        assert self._T_tcp_part is not None
        wanted = target.T_base_link_tcp(self.station.planner.scene) @ self._T_tcp_part
        return pose_distance(wanted, self.world.T_base_link_world @ self.T_world_part)

    def figures(self) -> dict[str, float]:
        self.station.machine.plan = None  # up to 0.5 MB, and another one in each cycle
        gc.collect()
        _LIBC.malloc_trim(0)  # else memory freed in pieces counts too, 20 MB up or down
        pages = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[1])
        return {'memory [MB]': pages * os.sysconf('SC_PAGE_SIZE') / 2**20}

    # -- what an operator does -----------------------------------------------------------------

    def teach(self, start: Spot, target: Spot) -> None:
        self.events.clear()
        self.until(
            lambda: parse_motion_state(self.manager.motion_state)[0] is MotionState.READY,
            5.0,
            'the planner to be ready',
        )
        self.start('init_gripper')
        self.until(lambda: not self.is_busy, 60.0, 'the end of init_gripper')
        origin, tool = self.station.provenance, self.station.planner.scene.tool
        q_home = home(self.station.planner.scene.mounting)
        T_home = forward(self.model, q_home) @ tool.T_tool_tcp
        joints = tuple(q_home.tolist())
        self.poses = {'home': TaughtPose(numbers_from_matrix(T_home), origin, '', joints)}
        for name, spot in (('start', start), ('target', target)):
            T = T_BASE_BASE_LINK @ spot.T_base_link_tcp(self.station.planner.scene)
            self.poses[name] = TaughtPose(numbers_from_matrix(T), origin, '')

    def put_part(self, spot: Spot) -> None:
        self.world.place_part(spot.x, spot.y, spot.yaw)

    def run(self) -> None:
        self.station.machine.make_plan(self.poses)
        self.station.machine.start_run(self.poses)

    def start(self, job: str) -> None:
        machine, station = self.station.machine, self.station
        if job == 'go_home':
            machine.go_home(self.poses)
        else:
            steps = {'init_gripper': station.gripper.initialise, 'open_gripper': station.run.open}
            machine.start(job, steps[job]())

    def stop(self) -> None:
        """Stop, as ~/stop does."""
        self.station.machine.stop('stop requested')
        self.manager.stop('stop requested', latch=True)

    def rearm(self) -> Outcome:
        outcome = self.manager.rearm()
        if outcome.ok:
            self.station.machine.rearmed()
        return outcome

    def inject(self, fault: str) -> None:
        self.faults.inject(fault)

    def clear(self, fault: str = '') -> bool:
        try:
            self.faults.clear(fault) if fault else self.faults.clear_all()
        except InvalidInput:
            return False
        return True

    def press(self, button: str) -> bool:
        return bool(self.driver.dashboard.act(button).success)

    def jog(self, command: Command) -> Jog:
        """Give a jog command, as a message does; the first one begins the jog."""
        if self._jog is None or self._jog.outcome is not None:
            jog = Jog(
                self.planner,
                self._loops,
                command,
                lambda: self._status.safety_mode == SAFETY_REDUCED,
                lambda: self.time,
            )
            self.manager.start_jog(jog, lambda _outcome: None)
            self._jog = jog
        self._jog.command(command)
        return self._jog

    # -- time ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one cycle of the driver pass."""
        self.cycles += 1
        if not self.driver.link.killed:
            self.driver.cycle()
            now = self.driver.time
            self.driver.link.to_driver.advance(now)
            self.driver.link.to_clients.advance(now)
            self._report()
            self.controller.monitor()
            self.port.monitor()
        if self.cycles % round(_WATCH_EVERY / self.driver.period) == 0:
            self.manager.watch()
        if parse_motion_state(self.manager.motion_state)[0] is MotionState.STOPPED:
            self.station.machine.tick()
        self._measure()
        if self.on_step is not None:
            self.on_step()

    def until(
        self, condition: Callable[[], bool], limit: float = math.inf, what: str = ''
    ) -> None:
        end = self.cycles + limit / self.driver.period
        while not condition():
            if self.cycles >= end:
                state = self.station.machine.state
                raise ExecutionError(f'timed out after {limit} s waiting for {what}; {state}')
            self.step()

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / self.driver.period)):
            self.step()

    def settle(self) -> None:
        self.until(lambda: not self.manager.is_moving, _BRAKING, 'the arm to brake')

    # -- within --------------------------------------------------------------------------------

    def _report(self) -> None:
        """Pass on the modes, and the joints through the link with its faults."""
        driver, status = self.driver, self._status
        robot, report = driver.robot, driver.report
        status.robot_mode, status.safety_mode = int(robot.mode), int(robot.safety)
        status.program_running = robot.program_running
        status.program_paused = robot.program is Program.PAUSED
        status.speed_scaling = robot.scaling
        status.why_inactive = '' if driver.controllers.motion else 'no controller is active'
        if report is not None:
            driver.link.to_clients.send(lambda: self._on_joints(report), driver.time)

    def _on_joints(self, report: Any) -> None:
        if np.isnan(report.q).any():  # which JointListener refuses
            self._status.bad_joints = f'a joint is {math.nan}'
        else:
            self._status.update_joints(
                report.stamp, report.q, report.qd, self.driver.joint_names, self.time
            )
        self.manager.on_joints()
        self.station.machine.tick()

    def _measure(self) -> None:
        limit = self.station.planner.limits.qd
        self.speed = max(self.speed, float((np.abs(self.driver.qd) / limit).max()))
        if self._T_tcp_part is None and self.events and self.station.run.is_carrying:
            self._T_tcp_part = inverse_transform(self.world.T_world_tcp) @ self.T_world_part

    def _emit(self, event: str, **data: Any) -> None:
        self.events.append({'time': round(self._status.stamp, 3), 'event': event, **data})


def _station_settings(config: Configuration) -> StationSettings:
    kind = gripper_type(config['gripper'])
    gripper = kind(config.read(kind.settings_type), config['tool_voltage'])
    return StationSettings(
        motion=config.read(MotionSettings),
        task=config.read(TaskSettings),
        pattern=config.read(PatternSettings),
        loops=config.read(LoopSettings),
        gripper=gripper,
        cycle=load_cycle(CONFIG / config['cycle_file'], gripper.pins),
        payload=(config['payload_mass'], (0.0, 0.0, 0.0)),
    )


@contextlib.contextmanager
def open_in_process(overrides: Mapping[str, Any]) -> Iterator[InProcessCell]:
    """Open a cell in this process."""
    # By default, glibc puts large arrays of a second cell, such as MuJoCo's arena, into memory
    # that the first one has freed. All of that stays resident: 1.1 MB more than with a mapping of
    # its own for the arena, of which little is used.
    _LIBC.mallopt(_M_MMAP_THRESHOLD, _LARGE)
    yield InProcessCell(overrides)


@contextlib.contextmanager
def driver_silent() -> Iterator[None]:
    """Suppress the log of the simulated driver."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
