# SPDX-License-Identifier: Apache-2.0
"""The robot's trajectory controller as the executor sees it, and what it is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.control.closed_loop import Window
from ur5_pick_place.control.supervision import MotionMonitor
from ur5_pick_place.planning.trajectory import Trajectory

OnEnd = Callable[[str], object]


@dataclass(eq=False)
class Goal:
    """
    A motion on its way.

    Attributes
    ----------
    trajectory : Trajectory
    monitor : MotionMonitor
    on_end : callable
        Takes '' once the joints have arrived, else the reason why not.
    sent : float
        Steady clock [s].
    begin : float
        Stamp at which it begins [s]; 0 = on arrival.
    progress : tuple of float
        Stamp [s], and where the controller was in the trajectory then, by its own word [s].
    is_accepted, has_arrived : bool
        By the controller's word; the joints have the last.
    stop_reason : str
        Set while braking.

    """

    trajectory: Trajectory
    monitor: MotionMonitor
    on_end: OnEnd
    sent: float
    begin: float
    progress: tuple[float, float]
    is_accepted: bool = False
    has_arrived: bool = False
    stop_reason: str = ''

    def time_at(self, stamp: float, speed_scaling: float) -> float:
        """Return where the controller is in the trajectory at `stamp` [s]."""
        return self.progress[1] + (stamp - self.progress[0]) * speed_scaling


class Controller(Protocol):
    """The robot's trajectory controller, as the executor needs it."""

    @property
    def missing(self) -> str:
        """Why it cannot be asked now; empty if it can."""
        ...

    def send(self, goal: Goal) -> None:
        """Send a goal; `on_answer` and `on_result` of the executor tell what becomes of it."""
        ...

    def cancel(self) -> None:
        """Ask it to cancel every goal that it has."""
        ...

    def follow(self, window: Window) -> None:
        """Let it follow a part of a stream, in place of the part before."""
        ...

    def hold(self, q: NDArray[np.float64]) -> None:
        """Let it hold joints (6,) [rad] in place of what it follows."""
        ...
