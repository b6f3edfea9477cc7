# SPDX-License-Identifier: Apache-2.0
"""A cell as a person works and watches it, whether in this process or behind real nodes."""

import contextlib
import ctypes
import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.trials.in_process import Rig
from ur5_pick_place.trials.spots import Spot

_LIBC = ctypes.CDLL(None)
_BRAKING = 1.0  # [s]
_M_MMAP_THRESHOLD, _LARGE = -3, 2**19  # mallopt's option; [B]


class Cell(Protocol):
    """
    What can be done in a cell, and what is seen; times are of the robot [s].

    What cannot be done raises `Ur5PickPlaceError`.

    Attributes
    ----------
    patience, notice : float
        In which silence of the robot has to be noticed, and what it tells.

    """

    patience: float
    notice: float

    @property
    def time(self) -> float:
        """The time, which also passes for a robot that is dead."""
        ...

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the task has told since `watch`."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a job runs."""
        ...

    @property
    def stopped(self) -> str:
        """Why the task takes no job before it is rearmed; empty if it does."""
        ...

    @property
    def q(self) -> Array:
        """Where the arm really is, (6,) [rad]."""
        ...

    @property
    def T_world_part(self) -> Array:
        """Where the part really is, (4, 4)."""
        ...

    @property
    def holds_part(self) -> bool:
        """Whether the part really is between the closed fingers."""
        ...

    @property
    def commands(self) -> tuple[int, int, int]:
        """How often the controller was told to move, to stay in place, and the gripper to act."""
        ...

    @property
    def speed(self) -> float:
        """Peak share of a joint's velocity limit since `watch`, measured."""
        ...

    def watch(self) -> None:
        """Forget what was told and seen so far, as before a cycle."""
        ...

    def placement(self, target: Spot) -> tuple[float, float]:
        """
        Return how far a placed part lies [m] and is turned [rad] from where it should.

        That is where the grip left it in the hand, brought to the target.

        """
        ...

    def figures(self) -> dict[str, float]:
        """Return what should not grow from cycle to cycle, by name and unit."""
        ...

    def teach(self, start: Spot, target: Spot) -> None:
        """Teach the places, home included, and give the tool its power."""
        ...

    def put_part(self, spot: Spot) -> None:
        """Lay the cube down."""
        ...

    def run(self) -> None:
        """Plan and start a run."""
        ...

    def start(self, job: str) -> None:
        """Start `init_gripper`, `go_home` or `open_gripper`."""
        ...

    def rearm(self) -> str:
        """Rearm; return what stands against it, or ''."""
        ...

    def inject(self, fault: str) -> None:
        """Bring a fault about; `InvalidInput` if the cell is not in a state for it."""
        ...

    def clear(self, fault: str = '') -> bool:
        """Take a fault back, or all; return whether the robot allows it by now."""
        ...

    def press(self, button: str) -> bool:
        """Call a service of the dashboard; return whether it was carried out."""
        ...

    def settle(self) -> None:
        """Let the arm brake where it is to brake after a stop, and what is under way arrive."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def until(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        """Let time pass until something is so; `ExecutionError` after `limit`."""
        ...


OpenCell = Callable[[Mapping[str, Any]], AbstractContextManager[Cell]]
"""Takes settings that differ from `config/`, by name; leaving it ends the cell."""


class RigCell:
    """
    A `Cell` in this process.

    Parameters
    ----------
    changes : mapping of str to value
        See `Rig`.

    """

    patience, notice = 0.65, 0.5

    def __init__(self, changes: Mapping[str, Any]) -> None:
        # Left to itself, glibc puts large arrays of a second cell, such as MuJoCo's hardly touched
        # arena, where the first one's were, in memory once touched: 1.1 MB more, for good.
        _LIBC.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        rig = self._rig = Rig(changes)
        self._limit = rig.planner.planner.limits.qd
        self._T_tcp_part: Array | None = None
        self.speed = 0.0
        self._jobs: dict[str, Callable[[], object]] = {
            'init_gripper': lambda: rig.machine.start('init_gripper', rig.gripper.initialise()),
            'go_home': lambda: rig.machine.go_home(rig.poses),
            'open_gripper': lambda: rig.machine.start('open_gripper', rig.run.open()),
        }
        rig.on_step = self._look

    @property
    def time(self) -> float:
        return self._rig.elapsed(0)

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._rig.events

    @property
    def is_busy(self) -> bool:
        return bool(self._rig.machine.job_name)

    @property
    def stopped(self) -> str:
        return self._rig.machine.stopped

    @property
    def q(self) -> Array:
        return self._rig.world.q

    @property
    def T_world_part(self) -> Array:
        return self._rig.world.T_world_part

    @property
    def holds_part(self) -> bool:
        return self._rig.world.part_present

    @property
    def commands(self) -> tuple[int, int, int]:
        controller = self._rig.controller
        return controller.motions, controller.holds, self._rig.task.gripper_commands

    def watch(self) -> None:
        self._rig.events.clear()
        self.speed, self._T_tcp_part = 0.0, None

    def placement(self, target: Spot) -> tuple[float, float]:
        assert self._T_tcp_part is not None
        wanted = self._rig.T_base_link_tcp(target) @ self._T_tcp_part
        off = inverse_transform(wanted) @ self.T_world_part
        turn = math.atan2(off[1, 0], off[0, 0])
        away = wanted[:2, 3] - self.T_world_part[:2, 3]
        return float(np.linalg.norm(away)), abs((turn + math.pi / 4) % (math.pi / 2) - math.pi / 4)

    def figures(self) -> dict[str, float]:
        self._rig.machine.plan = None  # up to 0.5 MB, and another one in each cycle
        gc.collect()
        _LIBC.malloc_trim(0)  # else what was freed in pieces counts too, 20 MB up or down
        pages = int(Path('/proc/self/statm').read_text(encoding='ascii').split()[1])
        return {'memory [MB]': pages * os.sysconf('SC_PAGE_SIZE') / 2**20}

    def teach(self, start: Spot, target: Spot) -> None:
        self._rig.events.clear()
        self._rig.prepare(start, target)

    def put_part(self, spot: Spot) -> None:
        self._rig.put_part(spot)

    def run(self) -> None:
        self._rig.plan_and_run()

    def start(self, job: str) -> None:
        self._jobs[job]()

    def rearm(self) -> str:
        return self._rig.rearm()

    def inject(self, fault: str) -> None:
        self._rig.faults.inject(fault)

    def clear(self, fault: str = '') -> bool:
        faults = self._rig.faults
        try:
            faults.clear(fault) if fault else faults.clear_all()
        except InvalidInput:
            return False
        return True

    def press(self, button: str) -> bool:
        return getattr(self._rig.driver.dashboard, button)().success

    def settle(self) -> None:
        executor = self._rig.executor
        self.until(lambda: not executor.is_moving, _BRAKING, 'the arm to brake')

    def wait(self, seconds: float) -> None:
        self._rig.wait(seconds)

    def until(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        self._rig.until(condition, limit, what)

    def _look(self) -> None:
        rig = self._rig
        self.speed = max(self.speed, float((np.abs(rig.driver.qd) / self._limit).max()))
        if self._T_tcp_part is None and rig.events and rig.run.is_carrying:
            self._T_tcp_part = inverse_transform(rig.world.T_world_tcp) @ rig.world.T_world_part


@contextlib.contextmanager
def open_rig(changes: Mapping[str, Any]) -> Iterator[RigCell]:
    """Open a cell in this process."""
    yield RigCell(changes)
