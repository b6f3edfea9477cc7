# SPDX-License-Identifier: Apache-2.0
"""A report on a plan: each motion, and how much of the limits it uses."""

from collections.abc import Iterator, Sequence
from typing import Any

from ur5_pick_place.planning.planner import PlannedMotion
from ur5_pick_place.task.motions import IK, PlannedStage
from ur5_pick_place.task.plan import CyclePlan

COLUMNS = (  # key in a row, heading, format
    ('cycle', 'cycle', '{}'),
    ('motion', 'motion', '{}'),
    ('method', 'method', '{}'),
    ('duration', 'time [s]', '{:.2f}'),
    ('tcp_speed', 'TCP [m/s]', '{:.2f}'),
    ('elbow_speed', 'elbow [m/s]', '{:.2f}'),
    ('joint_velocity', 'velocity', '{:.0%}'),
    ('joint_acceleration', 'acceleration', '{:.0%}'),
    ('joint_jerk', 'jerk', '{:.0%}'),
    ('torque', 'torque', '{:.0%}'),
    ('joint_margin', 'to a joint limit [rad]', '{:.2f}'),
    ('remark', 'remark', '{}'),
)
_DIGITS = 4


def plan_rows(plan: CyclePlan) -> list[dict[str, Any]]:
    """
    Return one row for each motion of a plan, in order; identical cycles appear once.

    Returns `cycle`, the number of the first cycle with this motion; `motion`, its stages;
    `method`; the values measured by the gate, as in `GateReport`; `remark`. The motions of a retry
    follow the stage that they repeat.
    """
    rows: list[dict[str, Any]] = []
    known: set[int] = set()
    for number, stages in enumerate(plan.cycles, plan.first + 1):
        if id(stages) not in known:
            known.add(id(stages))
            rows += [row for planned in stages for row in _rows(number, planned)]
    return rows


def report_text(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of `plan_rows`; velocity to torque are fractions of their limits."""
    lines = [[heading for _, heading, _ in COLUMNS]]
    lines += [[shape.format(row[key]) for key, _, shape in COLUMNS] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return '\n'.join(
        '  '.join(cell.ljust(n) for cell, n in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _rows(cycle: int, planned: PlannedStage) -> Iterator[dict[str, Any]]:
    if planned.motion:
        yield _row(cycle, planned.name, planned.method or IK, planned.motion, planned.remark)
    for motion in planned.retry:
        yield _row(cycle, f'{planned.name}: retry', IK, motion, 'only if the grasp is missed')


def _row(
    cycle: int, name: str, method: str, motion: PlannedMotion, remark: str
) -> dict[str, Any]:
    measured = {key: round(value, _DIGITS) for key, value in vars(motion.report).items()}
    return {'cycle': cycle, 'motion': name, 'method': method, **measured, 'remark': remark}
