# SPDX-License-Identifier: Apache-2.0
"""
What lies between the driver and its clients: messages pass as they are, late, changed or never.

Whoever serves the clients sends through the two channels, be it ROS or a test, and offers a
service or an action only as long as it is not absent here.

"""

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ur5_pick_place.kinematics.transforms import Array


class JointReport(NamedTuple):
    """One reading of the joints, (6,) in controller order: what joint_states tells."""

    stamp: float  # [s]
    q: Array  # [rad]
    qd: Array  # [rad/s]
    effort: Array  # [N m]


Distortion = Callable[[JointReport], JointReport | None]
"""What becomes of a report; None for nothing. Called once a cycle."""


class Channel:
    """
    One direction, late and lossy when told to be.

    Parameters
    ----------
    seed : int
        Of the losses.

    Attributes
    ----------
    latency : float
        How long every delivery takes [s].
    loss : float
        Share of the deliveries that never happen, 0 to 1; reliable ones always do.

    """

    def __init__(self, seed: int) -> None:
        self.latency = self.loss = 0.0
        self._random = random.Random(seed)
        self._under_way: deque[tuple[float, Callable[[], object]]] = deque()

    def send(self, deliver: Callable[[], object], now: float, reliable: bool = False) -> None:
        """Call `deliver` at once, later through `advance`, or never; the order is kept."""
        if self.loss and not reliable and self._random.random() < self.loss:
            return
        if self.latency or self._under_way:
            self._under_way.append((now + self.latency, deliver))
        else:
            deliver()

    def advance(self, now: float) -> None:
        """Deliver what has arrived by `now` [s]."""
        while self._under_way and self._under_way[0][0] <= now:
            self._under_way.popleft()[1]()


class Link:
    """
    Both directions, and what has gone from the driver's side.

    Attributes
    ----------
    to_clients, to_driver : Channel
    joint_faults : list of Distortion
        What a joint report passes through.
    io_states_silent : bool
    set_io_absent, actions_absent : bool
        Not offered any more.
    killed : bool
        The driver's process has died.

    """

    def __init__(self) -> None:
        self.to_clients, self.to_driver = Channel(0), Channel(1)
        self.joint_faults: list[Distortion] = []
        self.io_states_silent = False
        self.set_io_absent = self.actions_absent = False
        self.killed = False

    def pass_on(self, report: JointReport) -> JointReport | None:
        """Return what clients are told instead of this report."""
        told: JointReport | None = report
        for distort in self.joint_faults:
            if told is not None:
                told = distort(told)
        return told


class Frozen:
    """Repeats the first report under new stamps."""

    def __init__(self) -> None:
        self._first: JointReport | None = None

    def __call__(self, report: JointReport) -> JointReport:
        """See `Distortion`."""
        if self._first is None:
            self._first = report
        return self._first._replace(stamp=report.stamp)


class Jumping:
    """Shows the first joint somewhere else in every fiftieth report."""

    _JUMP = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])  # [rad] 60 rad/s: no arm does that
    _PERIOD = 50

    def __init__(self) -> None:
        self._reports = 0

    def __call__(self, report: JointReport) -> JointReport:
        """See `Distortion`."""
        jumps = self._reports % self._PERIOD == 0
        self._reports += 1
        return report._replace(q=report.q + self._JUMP) if jumps else report


def dropped(report: JointReport) -> None:
    """Tell nothing."""


def not_a_number(report: JointReport) -> JointReport:
    """Tell positions that are none."""
    return report._replace(q=np.full(6, np.nan))
