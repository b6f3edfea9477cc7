# SPDX-License-Identifier: Apache-2.0
"""The two closed-loop methods on a simulated driver that hears windows, late or not at all."""

from contextlib import suppress
from copy import copy
from functools import cache
from pathlib import Path

import numpy as np

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loops.closed_loop import ClosedLoop
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import roll_out
from ur5_pick_place.control.loops.splicing import next_segment
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import forward, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import exp_so3, inverse_transform, log_se3
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.physics.world import CellSettings, World

MODEL = load_model('ur5')
PLANNER = MotionPlanner(
    MODEL,
    MotionSettings(max_acceleration=10.0, max_jerk=100.0, max_speed=0.5),
    load_scene(Path(__file__).parents[3] / 'config' / 'scene_sim.yaml'),
)
TCP = PLANNER.scene.tool.p_tool_tcp
METHODS = ('resolved_rate', 'gradient')
START = np.array([0.2, -1.5, 1.7, -1.77, -1.57, 0.3])
LIFT = np.array([0.05, 0.1, -0.04])  # [m] from the start to the goal


def goal_of(q, way=LIFT, turn=(0.0, 0.0, 0.2)):
    """A pose some way [m] off the tool at `q`, turned about its own axes [rad]."""
    T = forward(MODEL, q)
    T[:3, 3] += way
    T[:3, :3] = T[:3, :3] @ exp_so3(turn)
    return T


@cache
def usual(method):
    """The roll-out from the start to the usual goal."""
    return roll_out(PLANNER, method, PLANNER.limits, START, goal_of(START), LoopSettings())


def plan(method, q=START, T_goal=None, settings=LoopSettings()):
    if T_goal is None:
        return usual(method)
    return roll_out(PLANNER, method, PLANNER.limits, q, T_goal, settings)


def free(q):
    return ''


class Cell:
    """
    A driver on the simulated cell that hears windows, late or not at all, and a record.

    The loop hears every so many cycles of the joints, and of these all but a share.
    """

    def __init__(self, q, lag, late=1, lost=0.0, slider=1.0, every=1, unheard=0.0):
        self.driver = Driver(World(CellSettings(servo_lag=lag), q))
        self.driver.robot.slider = slider
        self._late, self._lost, self._every, self._unheard = late, lost, every, unheard
        self._rng = np.random.default_rng(5)
        self._queue = []
        self.q, self.sent = [], 0
        for _ in range(25):
            self.cycle()

    def cycle(self):
        self.driver.cycle()
        self.q.append(self.driver.q.copy())
        self._queue = [(cycles - 1, command) for cycles, command in self._queue]
        while self._queue and self._queue[0][0] <= 0:
            with suppress(InvalidInput):  # a window of the past; the driver logs and drops it
                self.driver.trajectory[SCALED].follow(self._queue.pop(0)[1], self.driver.time)

    def send(self, segment):
        self.sent += 1
        if self._rng.random() < self._lost:
            return
        motion, stamp = next_segment(segment, segment.stamp + CYCLE)
        points = [
            Waypoint(round(float(t), 9), *state)
            for t, *state in zip(*vars(motion).values(), strict=False)
        ]
        command = TrajectoryCommand(self.driver.joint_names, points, round(stamp, 9))
        self._queue.append((self._late, command))

    def hold(self, q):
        command = TrajectoryCommand(self.driver.joint_names, [Waypoint(0.0, q)])
        self._queue.append((self._late, command))

    @property
    def measured(self):
        """The joints that a loop is told."""
        return self.driver.q

    def run(self, loop, seconds=30.0, at=()):
        """Run the loop to its outcome; `at` maps a cycle to what happens then."""
        events = dict(at)
        for k in range(round(seconds / CYCLE)):
            self.cycle()
            if k in events:
                events[k]()
            if k % self._every or (self._unheard and self._rng.random() < self._unheard):
                continue
            driver = self.driver
            segment = loop.tick(driver.time, self.measured, driver.qd, driver.robot.scaling)
            if loop.outcome is not None:
                return loop.outcome.reason
            if segment is not None:
                self.send(segment)
        return None

    @property
    def rates(self):
        """Velocity and acceleration of the measured joints by differences (n, 6)."""
        qd = np.diff(self.q, axis=0) / CYCLE
        return qd, np.diff(qd, axis=0) / CYCLE


def loop_on(path, method, settings=LoopSettings(), why_blocked=free):
    planner = copy(PLANNER)
    planner.why_blocked = why_blocked
    return ClosedLoop(planner, method, PLANNER.limits, path.q, settings)


def off_line(q, T_goal):
    """Largest distance [m] of the tool from the line to its goal, over joints (n, 6)."""
    p = forward(MODEL, np.asarray(q))[:, :3, 3]
    way = T_goal[:3, 3] - p[0]
    return np.linalg.norm(np.cross(p - p[0], way / np.linalg.norm(way)), axis=1).max()


def miss(q, T_goal):
    """Position [mm] and angle [deg] by which the tool misses."""
    xi = log_se3(inverse_transform(T_goal) @ forward(MODEL, q))
    return 1e3 * np.linalg.norm(xi[:3]), np.degrees(np.linalg.norm(xi[3:]))


class Port:
    """A controller that is there; it hands windows to a cell and remembers what it was told."""

    why_unavailable = conflict = why_not_canceled = why_no_stream = ''

    def __init__(self, cell):
        self.cell, self.windows, self.held, self.canceled = cell, 0, [], 0

    def follow(self, segment):
        self.windows += 1
        self.cell.send(segment)

    def hold(self, q):
        self.held.append(q)
        self.cell.hold(q)

    def cancel(self):
        self.canceled += 1

    goals = frozenset()


class Bench:
    """An executor over a cell, with a steady clock that stands unless told otherwise."""

    def __init__(self, why_blocked=free):
        self.cell, self.now, self.ends = Cell(START, 0.03), 10.0, []
        self.port = Port(self.cell)
        self.status = RobotStatus(robot_mode=7, safety_mode=1, program_running=True)
        self.executor = ExecutionManager(
            PLANNER,
            self.port,
            self.status,
            (HealthSettings(), TrackingSettings()),
            '',
            lambda state: None,
            lambda: self.now,
        )
        self.run(0.3)
        self.executor.watch()
        path = plan('resolved_rate')
        loop = loop_on(path, 'resolved_rate', why_blocked=why_blocked)
        self.executor.start_loop(lambda _: loop, path, self.ends.append)

    def run(self, seconds):
        for _ in range(round(seconds / CYCLE)):
            self.cell.cycle()
            driver = self.cell.driver
            self.status.q, self.status.qd = driver.q, driver.qd
            self.status.stamp = driver.time
            self.status.arrived = self.status.silent_since = self.now
            self.executor.on_joints()
