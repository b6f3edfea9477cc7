# SPDX-License-Identifier: Apache-2.0
"""Cycle after cycle over random spots, with random faults at random times if wanted."""

import math
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.rig.matrix import EXPECTED, Case
from ur5_pick_place.rig.rig import Rig, Spot

_RADIUS = (0.35, 0.55)  # [m] from the base's axis
_AZIMUTH = math.radians(60.0)  # to either side
_APART = 0.12  # [m] between start and target
_LATEST = 9.0  # [s] into a cycle that a fault comes
_PLACED = (2e-3, math.radians(1.0))  # [m], [rad]
_SPEED = 1.005  # share of the limit that a measured joint may reach: servos ring a little


@dataclass(frozen=True)
class CycleReport:
    """
    One cycle.

    Attributes
    ----------
    number : int
    fault : str
        Empty where there was none.
    end : {'placed', 'stopped'}
    reason : str
        As told.
    error, turn : float
        Of a placed part, from where the grip left it in the hand [m], [rad].
    speed : float
        Peak share of a joint's velocity limit, measured.
    memory : float
        Of the process [MB].
    wall : float
        Time the cycle took on the wall [s].
    problem : str
        What cannot be explained; empty if nothing.

    """

    number: int
    fault: str
    end: str
    reason: str
    error: float
    turn: float
    speed: float
    memory: float
    wall: float
    problem: str


def soak(
    cycles: int, seed: int, faults: tuple[str, ...] = (), changes: dict | None = None
) -> Iterator[CycleReport]:
    """
    Run cycles in process, a fault in every third if there are any to choose from.

    Parameters
    ----------
    cycles, seed : int
    faults : tuple of str
        Names to choose from.
    changes : dict, optional
        Settings that differ from `config/`.

    """
    rng = np.random.default_rng(seed)
    rig: Rig | None = None
    for number in range(1, cycles + 1):
        begin = time.perf_counter()
        rig = rig or Rig(changes or {})
        start, target = _spots(rng)
        rig.prepare(start, target)
        fault = str(rng.choice(faults)) if faults and number % 3 == 0 else ''
        watch = _Watch(rig)
        outcome = Case(rig, fault, start, target, float(rng.uniform(0.0, _LATEST))).run()
        error, turn = watch.placement(target) if outcome.end == 'placed' else (0.0, 0.0)
        problem = outcome.problem
        if not fault and not problem:
            problem = _amiss(outcome.end, outcome.reason, error, turn, watch.speed)
        yield CycleReport(
            number,
            fault,
            outcome.end,
            outcome.reason,
            error,
            turn,
            watch.speed,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
            time.perf_counter() - begin,
            problem,
        )
        rig.on_step = None
        rig.events.clear()
        if problem or fault == 'driver_killed':
            rig = None


def _amiss(end: str, reason: str, error: float, turn: float, speed: float) -> str:
    if end != 'placed':
        return f'without a fault the cycle ended: {reason}'
    if error > _PLACED[0] or turn > _PLACED[1]:
        return f'placed {1e3 * error:.1f} mm and {math.degrees(turn):.1f} deg off'
    return f'a joint ran at {speed:.3f} of its limit' if speed > _SPEED else ''


def _spots(rng: np.random.Generator) -> tuple[Spot, Spot]:
    """Return where the cube lies and where it goes."""
    while True:
        places = []
        for _ in range(2):
            r, azimuth = rng.uniform(*_RADIUS), rng.uniform(-_AZIMUTH, _AZIMUTH)
            yaw = rng.uniform(-math.pi / 4, math.pi / 4)
            places.append((r * math.cos(azimuth), r * math.sin(azimuth), yaw))
        if math.dist(places[0][:2], places[1][:2]) > _APART:
            return places[0], places[1]


class _Watch:
    """Sees how fast the joints are, and how the part sits in the hand after the grip."""

    def __init__(self, rig: Rig) -> None:
        self.speed = 0.0
        self._rig, self._limit = rig, rig.planner.planner.limits.qd
        self._T_tcp_part: NDArray[np.float64] | None = None
        rig.on_step = self._look

    def placement(self, target: Spot) -> tuple[float, float]:
        """Return how far the part lies [m] and is turned [rad] from where it should be."""
        assert self._T_tcp_part is not None
        wanted = self._rig.T_base_link_tcp(target) @ self._T_tcp_part
        off = inverse_transform(wanted) @ self._rig.world.T_world_part
        turn = math.atan2(off[1, 0], off[0, 0])
        away = wanted[:2, 3] - self._rig.world.T_world_part[:2, 3]
        return float(np.linalg.norm(away)), abs((turn + math.pi / 4) % (math.pi / 2) - math.pi / 4)

    def _look(self) -> None:
        rig = self._rig
        self.speed = max(self.speed, float((np.abs(rig.driver.qd) / self._limit).max()))
        if self._T_tcp_part is None and rig.events and rig.run.is_carrying:
            self._T_tcp_part = inverse_transform(rig.world.T_world_tcp) @ rig.world.T_world_part


FAULTS = tuple(EXPECTED)
"""Every fault that a soak may choose from."""
