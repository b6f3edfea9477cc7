# SPDX-License-Identifier: Apache-2.0
"""An executor with a closed loop over a cell without nodes, for tests."""

from closed_loop_cell import PLANNER, START, Cell, free, loop_on, plan

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings, RobotStatus
from ur5_pick_place.kinematics.model import CYCLE


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
