# SPDX-License-Identifier: Apache-2.0
"""What the client's methods return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.task.plan_report import report_text


@dataclass(frozen=True)
class PlanReport:
    """
    A planned run; prints as a table of its motions.

    Attributes
    ----------
    message : str
        One line: stages, branch and time.
    branch : str
        On which every motion stays.
    motion_time : float
        Of all motions together [s].
    cycles : int
        How many times the run goes through the stages of the cycle file.
    rows : tuple of dict
        One for each motion: its duration, its speeds, and how much of each limit it uses.

    """

    message: str
    branch: str
    motion_time: float
    cycles: int
    rows: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return f'{self.message}\n{report_text(self.rows)}'


@dataclass(frozen=True)
class RunResult:
    """
    The outcome of a run that ended as planned.

    Attributes
    ----------
    placed : int
        How many parts were released at a place (events `placed`).
    verified : bool
        Whether the gripper's feedback verified every grasp of a part that was placed; False
        without feedback.
    duration : float
        From the start of the run to its end [s of ROS time].

    """

    placed: int
    verified: bool
    duration: float


class Solutions(dict[str, Array]):
    """
    The joint solutions of a pose by branch, nearest to the arm first; prints as a table.

    Of each branch the joints (6,) [rad].

    Attributes
    ----------
    missing : mapping of str to str
        Why each other branch has no solution.

    """

    def __init__(self, joints: Mapping[str, Array], missing: Mapping[str, str]) -> None:
        super().__init__(joints)
        self.missing = dict(missing)

    def __str__(self) -> str:
        found = [(name, ' '.join(f'{v:8.4f}' for v in q)) for name, q in self.items()]
        return table([*found, *self.missing.items()])


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two cells as text with aligned columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return '\n'.join(f'{name.ljust(width)}  {text}' for name, text in rows)
