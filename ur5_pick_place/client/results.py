# SPDX-License-Identifier: Apache-2.0
"""What the client's methods return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ur5_pick_place.errors import fixed
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.task import events
from ur5_pick_place.task.plan_report import report_text


@dataclass(frozen=True)
class PlanReport:
    """
    A planned run; prints as a table of its motions.

    - `message`: one line: stages, branch and time
    - `branch`: on which every motion stays
    - `motion_time`: of all motions together [s]
    - `cycles`: how many times the run goes through the stages of the cycle file
    - `rows`: one for each motion: its duration, its speeds, and how much of each limit it uses
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
    What a run did; prints as one line.

    - `placed`: how many parts were released at a place (events `placed`)
    - `missed`: how many times the gripper closed on nothing (events `grasp_missed`)
    - `verified`: whether the gripper's feedback verified every grasp of a part that was placed;
      False without feedback
    - `duration`: from the start of the run to its end [s of ROS time]
    """

    placed: int
    missed: int
    verified: bool
    duration: float

    def __str__(self) -> str:
        return f'placed {self.placed}, missed {self.missed}, in {self.duration:.1f} s'


def run_result(seen: Sequence[Mapping[str, Any]]) -> RunResult:
    """Return what a run did from its events, from `started` to `done` or `stopped`."""
    names = [event['event'] for event in seen]
    return RunResult(
        placed=names.count(events.PLACED),
        missed=names.count(events.GRASP_MISSED),
        verified=_are_verified(names),
        duration=float(seen[-1]['time'] - seen[0]['time']),
    )


def _are_verified(names: Sequence[str]) -> bool:
    """Return whether a grasp was verified, and every grasp of a part that was placed."""
    is_verified = False
    for name in names:
        if name == events.GRASP_VERIFIED:  # maybe several times for one grasp
            is_verified = True
        elif name == events.PLACED:
            if not is_verified:
                return False
            is_verified = False
    return events.GRASP_VERIFIED in names and events.GRASP_UNVERIFIED not in names


class Solutions(dict[str, Array]):
    """
    The joint solutions of a pose by branch, nearest to the arm first; prints as a table.

    Of each branch the joints (6,) [rad].

    - `missing`: why each other branch has no solution
    """

    def __init__(self, joints: Mapping[str, Array], missing: Mapping[str, str]) -> None:
        super().__init__(joints)
        self.missing = dict(missing)

    def __str__(self) -> str:
        found = [(name, ' '.join(f'{fixed(v, 4):>8}' for v in q)) for name, q in self.items()]
        return table([*found, *self.missing.items()])


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two cells as text with aligned columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return '\n'.join(f'{name.ljust(width)}  {text}' for name, text in rows)
