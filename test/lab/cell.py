# SPDX-License-Identifier: Apache-2.0
"""A cell as a person uses it, whether in this process or behind real nodes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from lab.cell_over_dds import NodesCell
    from lab.in_process import InProcessCell


# Both do and show the same, in robot time [s]; what cannot be done is a `Ur5PickPlaceError`.
# The task detects a silent robot within `silence_limit`, and reacts to what the robot reports
# within `reaction_limit` [s]. `commands` are the numbers of motions and of holds sent to the
# controller and of gripper commands; `speed` is the measured peak of joint velocity over its
# limit; `figures` must not grow from cycle to cycle. `placement` is the error of position [m] and
# of yaw [rad] from the pose in the gripper after the grip, moved to the target.
Cell: TypeAlias = 'InProcessCell | NodesCell'

OpenCell = Callable[[Mapping[str, Any]], AbstractContextManager['Cell']]
"""Takes settings that differ from `config/`, by name; the cell ends with the context."""


class ReusableCell(ExitStack):
    """A `cell` that is opened when it is needed and reused until `close`; it may open again."""

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
