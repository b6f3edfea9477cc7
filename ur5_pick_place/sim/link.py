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

    Parameters
    ----------
    seed : int
        Seed of the losses.

    Attributes
    ----------
    latency : float
        Delay of every delivery [s].
    loss : float
        Fraction of best-effort deliveries that are lost, 0 to 1; reliable ones never are.

    """

    def __init__(self, seed: int) -> None:
        self.latency = self.loss = 0.0
        self._random = random.Random(seed)
        self._under_way: deque[tuple[float, Callable[[], object]]] = deque()

    def send(self, deliver: Callable[[], object], now: float, reliable: bool = False) -> None:
        """Call `deliver` now, later from `advance`, or never; the order is kept."""
        if self.loss and not reliable and self._random.random() < self.loss:
            return
        if self.latency or self._under_way:
            self._under_way.append((now + self.latency, deliver))
        else:
            deliver()

    def advance(self, now: float) -> None:
        """Deliver the messages due by `now` [s]."""
        while self._under_way and self._under_way[0][0] <= now:
            self._under_way.popleft()[1]()


class Link:
    """
    Both directions of the connection, and what the driver no longer offers.

    Attributes
    ----------
    to_clients, to_driver : Channel
    joint_faults : list of Distortion
        Distortions of the joint reports, in order.
    io_states_silent : bool
    set_io_absent, actions_absent : bool
        Whether the service or actions are missing.
    killed : bool
        Whether the driver's process is dead.

    """

    def __init__(self) -> None:
        self.to_clients, self.to_driver = Channel(0), Channel(1)
        self.joint_faults: list[Distortion] = []
        self.io_states_silent = False
        self.set_io_absent = self.actions_absent = False
        self.killed = False

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
        """See `Distortion`."""
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
        """See `Distortion`."""
        jumps = self._reports % self._PERIOD == 0
        self._reports += 1
        return report._replace(q=report.q + self._JUMP) if jumps else report


def dropped(report: JointReport) -> None:
    """Drop the report."""


def not_a_number(report: JointReport) -> JointReport:
    """Return the report with NaN positions."""
    return report._replace(q=np.full(6, np.nan))
