# SPDX-License-Identifier: Apache-2.0
"""Motions for one arm in one scene: planned, timed and passed through the gate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import GateRefusal, InvalidInput, NoSolution, PlanningError
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, Model, forward, inverse
from ur5_pick_place.kinematics.variants import all_variants
from ur5_pick_place.planning import gate
from ur5_pick_place.planning.collision import CollisionModel
from ur5_pick_place.planning.curves import Line
from ur5_pick_place.planning.limits import MotionSettings, motion_limits, tcp_and_elbow_speed
from ur5_pick_place.planning.path_timing import time_path
from ur5_pick_place.planning.paths import POSITION_STEP, follow
from ur5_pick_place.planning.scene import Scene
from ur5_pick_place.planning.timing import time_ptp
from ur5_pick_place.planning.trajectory import Trajectory

_CANDIDATES = 16  # joint goals tried for one pose, nearest first


@dataclass(frozen=True)
class PlannedMotion:
    """A motion and what the gate measured on it."""

    trajectory: Trajectory
    report: gate.GateReport


@dataclass(frozen=True)
class Pace:
    """
    How fast a motion may be, as shares of the limits (0 = the default) and an extra bound.

    Attributes
    ----------
    velocity, acceleration : float
        0 to 1.
    speed : float
        Bound on the speed of the TCP [m/s]; 0 = `max_speed` alone.

    """

    velocity: float = 0.0
    acceleration: float = 0.0
    speed: float = 0.0

    def __post_init__(self) -> None:
        for name in ('velocity', 'acceleration'):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InvalidInput(
                    f'{name} scaling = {value}: must lie in 0 to 1 (0 = the default)'
                )
        if not 0.0 <= self.speed < np.inf:
            raise InvalidInput(f'speed limit = {self.speed} m/s: must be 0 (none) or positive')


class MotionPlanner:
    """
    Plans point-to-point and straight-line motions and checks any motion.

    Parameters
    ----------
    model : Model
    settings : MotionSettings
    scene : Scene
        Table, boxes and tool; replace it with `set_scene`.

    """

    def __init__(self, model: Model, settings: MotionSettings, scene: Scene) -> None:
        self.model = model
        self.settings = settings
        self.limits = motion_limits(model, settings)
        self.set_scene(scene)

    def set_scene(self, scene: Scene) -> None:
        """Plan and check in another scene from now on."""
        self.scene = scene
        self.collision = CollisionModel(self.model, scene)

    def ptp(
        self, q_start: NDArray[np.float64], q_goal: NDArray[np.float64], pace: Pace = Pace()
    ) -> PlannedMotion:
        """
        Plan a joint motion from rest to rest; `q_start` and `q_goal` (6,) in rad.

        Raises
        ------
        PlanningError
            A goal out of range or a motion that the gate refuses, with the reason.

        """
        self._check_goal_range(q_goal)
        return self._admit(time_ptp(q_start, q_goal, self._paced(pace), self._speed_of), q_start)

    def ptp_to_pose(
        self,
        q_start: NDArray[np.float64],
        T_base_tool: NDArray[np.float64],
        pace: Pace = Pace(),
        branch: str = '',
    ) -> PlannedMotion:
        """
        Plan a joint motion to a pose (4, 4), on `branch` or on the branch that is nearest.

        Raises
        ------
        NoSolution
            The pose cannot be reached (on that branch) within the joint limits.
        PlanningError
            No way to any of the solutions passes the gate; names the reason of the nearest.

        """
        first: PlanningError | None = None
        for q_goal in self.joint_goals(T_base_tool, q_start, branch)[:_CANDIDATES]:
            try:
                return self.ptp(q_start, q_goal, pace)
            except PlanningError as error:
                first = first or error
        assert first is not None
        raise first

    def lin(
        self,
        q_start: NDArray[np.float64],
        T_waypoints: Sequence[NDArray[np.float64]],
        pace: Pace = Pace(),
        position_step: float = POSITION_STEP,
    ) -> PlannedMotion:
        """
        Plan a straight tool motion from `q_start` through poses T_base_tool, on one branch.

        The arm rests at every waypoint but the last only in passing (there it ends).

        Raises
        ------
        IncompletePath
            The line cannot be followed to its end; names the first bad pose and the cause.
        PlanningError
            The motion is refused by the gate.

        """
        legs = []
        q, T = q_start, forward(self.model, q_start)
        for T_next in T_waypoints:
            path = follow(self.model, Line(T, T_next), q, position_step)
            legs.append(time_path(path, self._paced(pace), self._speed_of))
            q, T = legs[-1].q[-1], T_next
        return self._admit(concatenate(legs), q_start)

    def joint_goals(
        self, T_base_tool: NDArray[np.float64], q_near: NDArray[np.float64], branch: str = ''
    ) -> list[NDArray[np.float64]]:
        """
        Return every joint goal (6,) for a pose within the limits, the nearest to `q_near` first.

        Near means a short point-to-point time: the largest joint distance over its speed.

        """
        if branch and branch not in BRANCHES:
            raise InvalidInput(f'branch {branch!r} is unknown; one of {", ".join(BRANCHES)}')
        rows, reached = inverse(self.model, T_base_tool, q6=float(q_near[5]))
        wanted = [BRANCHES.index(branch)] if branch else range(len(BRANCHES))
        goals = [q for k in wanted if reached[k] for q in all_variants(self.model, rows[k])]
        if not goals:
            p = T_base_tool[:3, 3]
            raise NoSolution(
                f'no joint solution{f" on branch {branch}" if branch else ""} for the tool at '
                f'({p[0]:.3f}, {p[1]:.3f}, {p[2]:.3f}) m in base within the joint limits'
            )
        return sorted(goals, key=lambda q: float((np.abs(q - q_near) / self.limits.qd).max()))

    def check(
        self, trajectory: Trajectory, q_now: NDArray[np.float64], is_reduced: bool = False
    ) -> gate.GateReport:
        """Pass a motion through the gate; `is_reduced` = the robot's reduced mode is on."""
        limits = self.limits
        if is_reduced:
            limits = replace(limits, speed=min(limits.speed, self.settings.reduced_speed))
        return gate.check_motion(
            trajectory,
            q_now,
            self.model,
            limits,
            self.collision,
            self.scene.tool.p_tool_tcp,
            self.settings.start_tolerance,
        )

    def _admit(self, trajectory: Trajectory, q_start: NDArray[np.float64]) -> PlannedMotion:
        return PlannedMotion(trajectory, self.check(trajectory, q_start))

    def _paced(self, pace: Pace):
        limits = self.limits.scaled(
            pace.velocity or self.settings.velocity_scaling,
            pace.acceleration or self.settings.acceleration_scaling,
        )
        return replace(limits, speed=min(limits.speed, pace.speed)) if pace.speed else limits

    def _speed_of(self, q: NDArray[np.float64], qd: NDArray[np.float64]) -> NDArray[np.float64]:
        return tcp_and_elbow_speed(self.model, q, qd, self.scene.tool.p_tool_tcp)

    def _check_goal_range(self, q_goal: NDArray[np.float64]) -> None:
        outside = (q_goal < self.limits.q_min) | (q_goal > self.limits.q_max)
        if outside.any():
            joint = int(outside.argmax())
            low, high = np.degrees([self.limits.q_min[joint], self.limits.q_max[joint]])
            raise GateRefusal(
                f'goal of {JOINT_NAMES[joint]} is {np.degrees(q_goal[joint]):.1f} deg: '
                f'must lie in {low:.0f} to {high:.0f} deg',
                'position',
            )


def concatenate(legs: Sequence[Trajectory]) -> Trajectory:
    """Join motions that each start at rest where the one before ends."""
    legs = [leg for leg in legs if leg.t.size > 1] or list(legs[:1])
    starts = np.cumsum([0.0, *(leg.duration for leg in legs[:-1])])
    parts = [(leg.t + t0, leg.q, leg.qd, leg.qdd) for leg, t0 in zip(legs, starts, strict=True)]
    keep = [slice(0 if i == 0 else 1, None) for i in range(len(legs))]
    return Trajectory(
        *(np.concatenate([p[k][s] for p, s in zip(parts, keep, strict=True)]) for k in range(4))
    )
