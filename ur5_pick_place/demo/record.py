# SPDX-License-Identifier: Apache-2.0
"""Messages recorded during a cycle, and the figures computed from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.demo.spots import Displacement, Spot
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    inverse_transform,
    log_so3,
    tool_down,
)
from ur5_pick_place.task import events

_Six = Sequence[float] | Array
JointSample = tuple[float, _Six, _Six, _Six]
"""Simulated time [s], measured joints [rad] and their velocities [rad/s], reference [rad]."""

TOLERANCE_M = 0.002
TOLERANCE_RAD = math.radians(1.0)
"""Largest placement error of a successful cycle."""


@dataclass
class Record:
    """
    Samples over simulated time [s].

    Attributes
    ----------
    joints : list of (t, q, qd, q_planned)
        Measured positions [rad] and velocities [rad/s], and the controller's reference [rad].
    parts : list of (t, T_world_parts)
        Poses of the cubes in the simulator, (k, 4, 4) in `base_link`, in order of feeding.
    fingers : list of (t, travel)
        Closing travel of both fingers, two numbers [m].
    events : list of dict
        Events of the task node.

    """

    joints: list[JointSample] = field(default_factory=list)
    parts: list[tuple[float, Array]] = field(default_factory=list)
    fingers: list[tuple[float, Sequence[float]]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether the record holds samples of joints, cube and fingers."""
        return bool(self.joints and self.parts and self.fingers)

    def time_of(self, event: str) -> float | None:
        """Return the time of the first event of that name [s], or None."""
        return next((e['time'] for e in self.events if e['event'] == event), None)

    def joints_at(self, t: float | Array) -> Array:
        """Return the last measured joints up to time `t`, (..., 6) [rad]."""
        return np.array([q for _, q, *_ in self.joints])[_last(self.joints, t)]

    def parts_at(self, t: float | Array) -> Array:
        """Return the cubes' last poses up to time `t`, (..., k, 4, 4); NaN before one came."""
        found = np.full((len(self.parts), max(len(T) for _, T in self.parts), 4, 4), np.nan)
        for row, (_, T) in zip(found, self.parts, strict=True):
            row[: len(T)] = T
        return found[_last(self.parts, t)]

    def fingers_at(self, t: float | Array) -> Array:
        """Return the last travel of the fingers up to time `t`, (..., 2) [m]."""
        return np.array([travel for _, travel in self.fingers])[_last(self.fingers, t)]


def _last(samples: Sequence[tuple[Any, ...]], t: float | Array) -> NDArray[np.intp]:
    times = np.array([sample[0] for sample in samples])
    slack = 1e-3  # an event's time is rounded to milliseconds
    return np.maximum(np.searchsorted(times, np.asarray(t) + slack, side='right') - 1, 0)


@dataclass(frozen=True)
class Task:
    """
    What a run does with the cubes.

    Attributes
    ----------
    spots : mapping of str to Spot
        Where the places of the cycle are taught, by name.
    moves : tuple of (str, str)
        By cube of one cycle: the place where it lies at first, and where it ends.
    ends : tuple of ndarray, shape (4, 4)
        Where each cube of the run must lie at the end, in `base_link`, in order of feeding.
    displacement : Displacement or None
        How the only cube is moved after teaching.

    """

    spots: Mapping[str, Spot]
    moves: tuple[tuple[str, str], ...]
    ends: tuple[Array, ...] = field(compare=False)
    displacement: Displacement | None = None

    @property
    def start(self) -> Spot | None:
        """Where the first cube lies; None without a cube."""
        return self.spots[self.moves[0][0]] if self.moves else None

    @property
    def target(self) -> Spot | None:
        """Where the first cube is put down; None without a cube."""
        return self.spots[self.moves[0][1]] if self.moves else None

    @property
    def cycles(self) -> int:
        """Number of cycles of the run."""
        return len(self.ends) // len(self.moves) if self.moves else 1


def transfer(start: Spot, target: Spot, displacement: Displacement | None = None) -> Task:
    """Return the task of moving one cube from start to target."""
    spots = {'start': start, 'target': target}
    return Task(spots, (('start', 'target'),), (target.T_base_link_part,), displacement)


@dataclass(frozen=True)
class RunResult:
    """
    Result of one cycle; lengths and angles are the simulator's, times are simulated.

    Attributes
    ----------
    method : str
    task : Task
    success : bool
        The task node reported success, and each cube is within tolerance of its place.
    reason : str
        Why the cycle failed; empty on success.
    placement_error_m, placement_error_rad : float or None
        Largest pose error of a cube from its place; a quarter turn of the cube counts as an error.
    placement_errors_m, placement_errors_rad : tuple of float or None
        Those of each cube, in order of feeding.
    grip_offset_m, grip_offset_rad : tuple of float or None
        Pose of the cube in the gripper relative to the taught grip: translation and rotation
        vector; None unless one cube is gripped once.
    in_hand_error_m, in_hand_error_rad : float or None
        Placement error without the grip offset: the error that the arm causes, not the grip.
    cycle_time_s : float or None
        Duration of the run.
    planning_time_s : float or None
        Wall time.
    max_tcp_speed_m_s : float or None
        Computed from the measured joints.
    time_floor_s : float or None
        Lower bound of the cycle time, see `time_shares`.
    time_free_motions_s, ..., time_other_s : float or None
        The shares of the cycle time, see `time_shares`.

    """

    method: str
    success: bool
    reason: str
    task: Task
    placement_error_m: float | None = None
    placement_error_rad: float | None = None
    placement_errors_m: tuple[float, ...] | None = None
    placement_errors_rad: tuple[float, ...] | None = None
    grip_offset_m: tuple[float, ...] | None = None
    grip_offset_rad: tuple[float, ...] | None = None
    in_hand_error_m: float | None = None
    in_hand_error_rad: float | None = None
    cycle_time_s: float | None = None
    planning_time_s: float | None = None
    max_tcp_speed_m_s: float | None = None
    time_floor_s: float | None = None
    time_free_motions_s: float | None = None
    time_fingers_s: float | None = None
    time_approach_s: float | None = None
    time_waiting_s: float | None = None
    time_other_s: float | None = None


def measure(record: Record, task: Task, model: Model, T_tool_tcp: Array) -> Mapping[str, Any]:
    """
    Return the measured fields of a `RunResult` that the record suffices for.

    Parameters
    ----------
    record : Record
        Covers the run from before its start until the cube is at rest.
    T_tool_tcp : ndarray, shape (4, 4)

    """
    found: dict[str, Any] = {}
    if not record.is_complete:
        return found
    started, done = record.time_of(events.STARTED), record.time_of(events.DONE)
    if started is not None and done is not None:
        found['cycle_time_s'] = round(done - started, 3)
    T_world_tcp = T_BASE_LINK_BASE @ forward(model, record.joints_at(_times(record))) @ T_tool_tcp
    found['max_tcp_speed_m_s'] = _top_speed(_times(record), T_world_tcp[:, :3, 3])
    ended = record.parts[-1][1]
    if not task.ends or len(ended) < len(task.ends):
        return found
    misses = [distance(*pair) for pair in zip(task.ends, ended, strict=False)]
    for unit, errors in zip(('m', 'rad'), zip(*misses, strict=True), strict=True):
        found[f'placement_errors_{unit}'] = errors
        found[f'placement_error_{unit}'] = max(errors)
    grips = [e['time'] for e in record.events if e['event'] == events.GRASP_VERIFIED]
    if len(task.ends) == len(grips) == 1:
        T_world_tcp = T_BASE_LINK_BASE @ forward(model, record.joints_at(grips[0])) @ T_tool_tcp
        T_tcp_part = inverse_transform(T_world_tcp) @ record.parts_at(grips[0])[0]
        offset = tool_down(0.0, 0.0, 0.0, 0.0) @ T_tcp_part  # its own inverse
        found['grip_offset_m'] = tuple(float(v) for v in offset[:3, 3])
        found['grip_offset_rad'] = tuple(float(v) for v in log_so3(offset[:3, :3]))
        found['in_hand_error_m'], found['in_hand_error_rad'] = distance(
            task.ends[0] @ offset, ended[0]
        )
    return found


def check_placement(result: RunResult) -> None:
    """
    Check that each cube is within tolerance of its place.

    If the cube was displaced after teaching, the error without the grip offset is checked.

    Raises
    ------
    ExecutionError
        The error exceeds the tolerance, or is unknown.

    """
    if not result.task.ends:
        return
    is_displaced = result.task.displacement is not None
    what, how = ('in_hand', ' without grip offset') if is_displaced else ('placement', '')
    miss, turn = (getattr(result, f'{what}_error_{unit}') for unit in ('m', 'rad'))
    if miss is None or turn is None:
        raise ExecutionError('the simulator published no pose of the cube, or too few cubes')
    if miss > TOLERANCE_M or turn > TOLERANCE_RAD:
        raise ExecutionError(
            f'placement error{how} {1e3 * miss:.1f} mm and {math.degrees(turn):.1f} deg: must be '
            f'at most {1e3 * TOLERANCE_M:.0f} mm and {math.degrees(TOLERANCE_RAD):.0f} deg'
        )


def distance(T_a: Array, T_b: Array) -> tuple[float, float]:
    """Return the distance [m] and the angle [rad] between two poses (4, 4)."""
    delta = inverse_transform(T_a) @ T_b
    return float(np.linalg.norm(delta[:3, 3])), float(np.linalg.norm(log_so3(delta[:3, :3])))


def _times(record: Record) -> Array:
    return np.array([t for t, *_ in record.joints])


def _top_speed(t: Array, p: Array) -> float:
    steps, passed = np.linalg.norm(np.diff(p, axis=0), axis=1), np.diff(t)
    moves = passed > 0.0  # two samples may have one stamp
    return float((steps[moves] / passed[moves]).max(initial=0.0))
