# SPDX-License-Identifier: Apache-2.0
"""The simulated cell with the planner's executor and the task's machine on it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus, io_patience
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array, make_transform
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.inertias import Load
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.sim.cell import PART_SIZE
from ur5_pick_place.sim.contact import ContactSettings
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.fault_injector import FaultInjector
from ur5_pick_place.sim.fault_schedule import Planned
from ur5_pick_place.sim.robot import Program
from ur5_pick_place.sim.world import CellSettings, World
from ur5_pick_place.task.cycle import load_cycle
from ur5_pick_place.task.gripper import Gripper, GripperSettings
from ur5_pick_place.task.machine import Machine
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.pattern import PatternSettings
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.poses import Provenance, TaughtPose, numbers_from_matrix
from ur5_pick_place.task.run import CycleRun
from ur5_pick_place.trials.configuration import CONFIG, Configuration
from ur5_pick_place.trials.in_process_ports import ControllerPort, TaskPort

_WATCH_EVERY, _TICK_EVERY = 2, 4  # cycles, as the nodes do

# The simulated cell's own patience is for a PC that simulates in real time; here none is late.
_ROBOT = {'joint_state_timeout': 0.1, 'running_joint_state_timeout': 0.5}

Spot = tuple[float, float, float]
"""x, y [m] and yaw [rad] of the cube in base_link, lying on the table."""


class Rig:
    """
    The whole cell; nothing happens but in `step`.

    Parameters
    ----------
    changes : mapping of str to value
        Settings that differ from `config/`, by name.
    schedule : sequence of Planned
        Faults that happen by themselves.

    Attributes
    ----------
    world, driver, faults, controller, executor, machine, run
        The parts.
    cycles : int
        How many cycles of 8 ms have passed, whether the driver lived or not.
    events : list of dict
        What the task told, with `event` and the `time` of the robot [s].
    poses : dict of str to TaughtPose
    on_step : callable or None
        Called after every step.

    """

    def __init__(
        self, changes: Mapping[str, Any] = {}, schedule: Sequence[Planned] = ()
    ) -> None:
        config = Configuration({**_ROBOT, **changes})
        scene = load_scene(CONFIG / config['scene_file'])
        self.model = load_model(config['ur_type'])
        self.world = World(config.read(CellSettings))
        self.driver = Driver(self.world, contact=config.read(ContactSettings))
        self.faults = FaultInjector(self.driver, schedule)
        self.events: list[dict[str, Any]] = []
        self.poses: dict[str, TaughtPose] = {}
        self.on_step: Callable[[], object] | None = None
        self._status = RobotStatus()
        self.cycles = self._heard = 0

        def planner() -> MotionPlanner:
            dynamics = Dynamics(self.model, [Load(config['payload_mass'], np.zeros(3))])
            return MotionPlanner(self.model, config.read(MotionSettings), scene, dynamics)

        tracking = config.read(TrackingSettings)
        self.controller = ControllerPort(self.driver, config['controller'], tracking)
        gate = planner()
        self.executor = self.controller.executor = ExecutionManager(
            gate,
            self.controller,
            self._status,
            (config.read(HealthSettings), tracking),
            '',
            lambda _state: None,
            lambda: self.cycles * CYCLE,
        )
        loops = config.read(LoopSettings)
        health = config.read(HealthSettings)
        self.task = TaskPort(self.driver, self.executor, gate, loops, io_patience(health))
        task = config.read(TaskSettings)
        self._origin = Provenance(
            self.model.name,
            self.model.calibration,
            numbers_from_matrix(scene.tool.T_tool_tcp),
            config['payload_mass'],
        )
        cycle = load_cycle(CONFIG / config['cycle_file'])
        self.planner = CyclePlanner(
            planner(), task, cycle, self._origin, config.read(PatternSettings), loops
        )
        self.gripper = Gripper(config.read(GripperSettings), config['tool_voltage'])
        payload = (config['payload_mass'], (0.0, 0.0, 0.0))
        self.run = CycleRun(self.planner, self.gripper, task, payload, self._emit)
        self.machine = Machine(self.planner, self.run, self.task, self._emit)

    @property
    def time(self) -> float:
        """Time of the robot [s]."""
        return self.driver.time

    # -- what an operator does -----------------------------------------------------------------

    def prepare(self, start: Spot, target: Spot) -> None:
        """Wait for the robot, switch the tool on, teach home, start and target."""
        self.until(lambda: self.executor.motion_state == 'ready', 5.0, 'the planner to be ready')
        self.do('init_gripper', self.gripper.initialise)
        T_home = forward(self.model, HOME) @ self._T_tool_tcp
        joints = tuple(float(v) for v in HOME)
        self.poses = {
            'home': TaughtPose(numbers_from_matrix(T_home), self._origin, '', joints),
            'start': self._taught(start),
            'target': self._taught(target),
        }

    def put_part(self, spot: Spot) -> None:
        """Lay the cube down somewhere."""
        self.world.place_part(*spot)

    def do(self, name: str, steps: Callable[[], Any], limit: float = 60.0) -> str:
        """Do a job to its end; return why it ended early, or ''."""
        ended: list[str] = []
        self.machine.start(name, steps(), ended.append)
        self.until(lambda: bool(ended), limit, f'the end of {name}')
        return ended[0]

    def plan_and_run(self) -> None:
        """Plan and start a run."""
        self.machine.make_plan(self.poses)
        self.machine.start_run(self.poses)

    def stop(self) -> None:
        """Stop, as ~/stop does."""
        self.machine.stop('stop requested')
        self.executor.stop('stop requested', latch=True)

    def rearm(self) -> str:
        """Rearm, as ~/rearm does; return what stands against it, or ''."""
        obstacle = self.executor.rearm()
        if not obstacle:
            self.machine.rearmed()
        return obstacle

    # -- time ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Let 8 ms pass."""
        self.cycles += 1
        if not self.driver.link.killed:
            self.driver.cycle()
            self.faults.tick()
            now = self.driver.time
            self.driver.link.to_driver.advance(now)
            self.driver.link.to_clients.advance(now)
            self._report()
            self.controller.monitor()
            self.task.monitor()
        if self.cycles % _WATCH_EVERY == 0:
            self.executor.watch()
        if self.executor.motion_state.startswith('stopped'):
            self.machine.tick()
        if self.on_step is not None:
            self.on_step()

    def until(
        self, condition: Callable[[], bool], limit: float = math.inf, what: str = ''
    ) -> None:
        """
        Let time pass until something is so.

        Raises
        ------
        ExecutionError
            It has not come within `limit` seconds of robot time.

        """
        end = self.cycles + limit / CYCLE
        while not condition():
            if self.cycles >= end:
                raise ExecutionError(f'waited {limit} s in vain for {what}')
            self.step()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / CYCLE)):
            self.step()

    def elapsed(self, since: int) -> float:
        """Return the time since a number of cycles [s]."""
        return (self.cycles - since) * CYCLE

    # -- within --------------------------------------------------------------------------------

    @property
    def _T_tool_tcp(self) -> Any:
        return self.planner.planner.scene.tool.T_tool_tcp

    def T_base_link_tcp(self, spot: Spot) -> Array:
        """Return where the TCP is when it grips a cube at a spot, (4, 4)."""
        x, y, yaw = spot
        c, s = math.cos(yaw), math.sin(yaw)
        down = np.array([[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]])
        return make_transform(down, [x, y, PART_SIZE / 2])

    def _taught(self, spot: Spot) -> TaughtPose:
        T = T_BASE_BASE_LINK @ self.T_base_link_tcp(spot)
        return TaughtPose(numbers_from_matrix(T), self._origin, '')

    def _report(self) -> None:
        """Pass on what the driver says of joints and modes."""
        driver, status = self.driver, self._status
        robot, report = driver.robot, driver.report
        status.robot_mode, status.safety_mode = int(robot.mode), int(robot.safety)
        status.program_running = robot.program_running
        status.program_paused = robot.program is Program.PAUSED
        status.speed_scaling = robot.scaling
        if report is not None:
            driver.link.to_clients.send(lambda: self._hear(report), driver.time)

    def _hear(self, report: Any) -> None:
        self._heard += 1
        now = self.cycles * CYCLE
        self._status.update_joints(
            report.stamp, report.q, report.qd, self.driver.joint_names, now
        )
        self.executor.on_joints()
        if self._heard % _TICK_EVERY == 0:
            self.machine.tick()

    def _emit(self, event: str, **data: Any) -> None:
        self.events.append({'time': round(self._status.stamp, 3), 'event': event, **data})
