# SPDX-License-Identifier: Apache-2.0
"""
The connection between driver and clients, which may delay, change or drop messages.

The ROS node or a test sends through the two channels, and offers a service or an action only
while it is not absent here.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.arm import CYCLE

_EARLY = 0.01  # cycles; a delivery that is due with a cycle is made in it


class JointReport(NamedTuple):
    """One measurement of the joints, (6,) in controller order, as in joint_states."""

    stamp: float  # [s]
    q: Array  # [rad]
    qd: Array  # [rad/s]
    current: Array  # of the motors [A]


Distortion = Callable[[JointReport], JointReport | None]
"""Returns a changed report, or None to drop it. Called once per cycle."""


class Channel:
    """
    One direction of the connection, with optional latency and loss.

    `seed`: seed of the losses and of the jitter. `period`: time of a cycle [s].
    """

    def __init__(self, seed: int, period: float) -> None:
        self.latency = 0.0  # delay of every delivery [s]
        self.loss = 0.0  # fraction of best-effort deliveries that are lost; of reliable ones none
        self.jitter = 0  # largest further delay of a delivery, at random [cycles]
        self._period = period
        self._random = random.Random(seed)
        self._under_way: deque[tuple[float, Callable[[], object]]] = deque()

    def send(self, deliver: Callable[[], object], now: float, reliable: bool = False) -> None:
        """Call `deliver` now, later from `advance`, or never; the order is kept."""
        if self.loss and not reliable and self._random.random() < self.loss:
            return
        due = now + self.latency
        if self.jitter:
            due += self._period * (self._random.randint(0, self.jitter) - _EARLY)
        if due > now or self._under_way:
            self._under_way.append((due, deliver))
        else:
            deliver()

    @property
    def is_empty(self) -> bool:
        """Whether no message is under way."""
        return not self._under_way

    def advance(self, now: float) -> None:
        """Deliver the messages due by `now` [s]."""
        while self._under_way and self._under_way[0][0] <= now:
            self._under_way.popleft()[1]()


class Link:
    """Both directions of the connection, and what the driver no longer offers."""

    def __init__(self, period: float = CYCLE) -> None:
        self.to_clients, self.to_driver = Channel(0, period), Channel(1, period)
        self.joint_faults: list[Distortion] = []  # in order
        self.io_states_silent = self.set_io_absent = self.actions_absent = False
        self.killed = False  # whether the driver's process is dead

    def pass_on(self, report: JointReport) -> JointReport | None:
        """Return the report after all distortions; None if it is dropped."""
        passed: JointReport | None = report
        for distort in self.joint_faults:
            if passed is not None:
                passed = distort(passed)
        return passed


class Frozen:
    """Repeats the first report with new stamps."""

    def __init__(self) -> None:
        self._first: JointReport | None = None

    def __call__(self, report: JointReport) -> JointReport:
        if self._first is None:
            self._first = report
        return self._first._replace(stamp=report.stamp)


class Jumping:
    """Shifts the first joint in every 50th report."""

    _JUMP = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])  # [rad] in 8 ms: 60 rad/s, beyond any arm
    _PERIOD = 50

    def __init__(self) -> None:
        self._reports = 0

    def __call__(self, report: JointReport) -> JointReport:
        jumps = self._reports % self._PERIOD == 0
        self._reports += 1
        return report._replace(q=report.q + self._JUMP) if jumps else report


def dropped(report: JointReport) -> None:
    """Drop the report."""


def not_a_number(report: JointReport) -> JointReport:
    """Return the report with NaN positions."""
    return report._replace(q=np.full(6, np.nan))
