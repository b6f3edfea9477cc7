# SPDX-License-Identifier: Apache-2.0
"""A cell as a person uses it, whether in this process or behind real nodes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import Outcome


class Cell(Protocol):
    """
    What can be done and observed in a cell; times are robot time [s].

    A request that cannot be carried out raises `Ur5PickPlaceError`.

    Attributes
    ----------
    silence_limit : float
        Time within which the task must detect that the robot is silent [s].
    reaction_limit : float
        Time within which the task must react to what the robot reports [s].

    """

    silence_limit: float
    reaction_limit: float

    @property
    def time(self) -> float:
        """Robot time, which also passes while the driver is dead."""
        ...

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of the task since `reset_measurements`."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether a job runs."""
        ...

    @property
    def stop_reason(self) -> str:
        """Why the task must be rearmed before its next job; empty if it need not."""
        ...

    @property
    def q(self) -> Array:
        """True joint positions, (6,) [rad]."""
        ...

    @property
    def T_world_part(self) -> Array:
        """True pose of the part, (4, 4)."""
        ...

    @property
    def holds_part(self) -> bool:
        """Whether the closed fingers truly hold the part."""
        ...

    @property
    def commands(self) -> tuple[int, int, int]:
        """Numbers of motions and holds sent to the controller, and of gripper commands."""
        ...

    @property
    def speed(self) -> float:
        """Measured peak of joint velocity over its limit, since `reset_measurements`."""
        ...

    def reset_measurements(self) -> None:
        """Forget all events and measurements so far, as before a cycle."""
        ...

    def placement(self, target: Spot) -> tuple[float, float]:
        """
        Return the position error [m] and the yaw error [rad] of a placed part.

        The reference is the pose of the part in the gripper after the grip, moved to the target.

        """
        ...

    def figures(self) -> dict[str, float]:
        """Return figures that must not grow from cycle to cycle, by name and unit."""
        ...

    def teach(self, start: Spot, target: Spot) -> None:
        """Teach home, start and target, and switch the tool supply on."""
        ...

    def put_part(self, spot: Spot) -> None:
        """Put the cube on the table."""
        ...

    def run(self) -> None:
        """Plan and start a run."""
        ...

    def start(self, job: str) -> None:
        """Start `init_gripper`, `go_home` or `open_gripper`."""
        ...

    def rearm(self) -> Outcome:
        """Rearm, or return why that is refused."""
        ...

    def inject(self, fault: str) -> None:
        """Inject a fault; `InvalidInput` if the state of the cell does not allow it."""
        ...

    def clear(self, fault: str = '') -> bool:
        """Clear a fault, or all; return whether the robot allowed it."""
        ...

    def press(self, button: str) -> bool:
        """Call a service of the dashboard; return whether it succeeded."""
        ...

    def settle(self) -> None:
        """Wait until the arm has braked after a stop and all messages have arrived."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def until(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        """Let time pass until `condition`; `ExecutionError` after `limit` [s]."""
        ...


OpenCell = Callable[[Mapping[str, Any]], AbstractContextManager[Cell]]
"""Takes settings that differ from `config/`, by name; the cell ends with the context."""


class ReusableCell(ExitStack):
    """
    A cell that is opened when it is needed and reused until `close`; it may be opened again.

    Parameters
    ----------
    open_cell : callable
    overrides : mapping of str to value
        Settings that differ from `config/`, by name.

    Attributes
    ----------
    cell : Cell or None
        None while no cell is open.

    """

    def __init__(self, open_cell: OpenCell, overrides: Mapping[str, Any]) -> None:
        super().__init__()
        self._open_cell, self._overrides = open_cell, overrides
        self.cell: Cell | None = None

    def open(self) -> Cell:
        """Open the cell and return it."""
        self.cell = self.enter_context(self._open_cell(self._overrides))
        return self.cell

    def close(self) -> None:
        """End the cell, if there is one."""
        self.cell = None
        super().close()
