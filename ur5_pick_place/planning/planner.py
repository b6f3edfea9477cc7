# SPDX-License-Identifier: Apache-2.0
"""Motions for one arm in one scene: planned, timed and passed through the gate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ur5_pick_place.errors import GateRefusal, PlanningError
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning import gate
from ur5_pick_place.planning.arm_in_scene import ArmInScene
from ur5_pick_place.planning.detours import Detour, JointMotions, motion_to_any
from ur5_pick_place.planning.goals import free_at_rest, joint_goals
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.paths.follow import POSITION_STEP, JointPath
from ur5_pick_place.planning.paths.moves import PathSegment, between_stops, path_of
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.place_check import check_pose
from ur5_pick_place.planning.scaling import Scaling
from ur5_pick_place.planning.timing.path_timing import time_path
from ur5_pick_place.planning.timing.ptp import concatenate, time_ptp
from ur5_pick_place.planning.timing.time_optimal import SpeedOf
from ur5_pick_place.planning.ways_round import SEARCH_TIME

_CANDIDATES = 16  # joint goals tried for one pose, nearest first


@dataclass(frozen=True)
class PlannedMotion:
    """
    A motion and what the gate measured on it.

    Attributes
    ----------
    trajectory : Trajectory
    report : GateReport
    detour : Detour or None
        The obstacle it goes round and how much longer that takes; None for a straight motion.

    """

    trajectory: Trajectory
    report: gate.GateReport
    detour: Detour | None = None


class MotionPlanner(ArmInScene):
    """Plans point-to-point, straight-line and circular motions of an arm in its scene."""

    def ptp(self, q_start: Array, q_goal: Array, scaling: Scaling = Scaling()) -> PlannedMotion:
        """
        Return a joint motion from rest to rest; `q_start` and `q_goal` (6,) [rad].

        Raises
        ------
        PlanningError
            The goal is out of range, or the gate refuses the motion; gives the reason.

        """
        return self._admit(self._time_ptp(q_start, q_goal, scaling), q_start)

    def ptp_to_pose(
        self,
        q_start: Array,
        T_base_tool: Array,
        scaling: Scaling = Scaling(),
        branch: str = '',
        q_preferred: Array | None = None,
        within: tuple[Array, Array] | None = None,
    ) -> PlannedMotion:
        """
        Return a joint motion to a pose (4, 4), on `branch` or on the nearest branch.

        `q_preferred` (6,) [rad] is tried first, then the nearest solutions. `within` bounds the
        joints at the end, low and high (6,) [rad].

        Raises
        ------
        NoSolution
            The pose cannot be reached (on that branch) within the joint limits.
        JointLimitViolation
            The pose can be reached, but not `within`.
        PlanningError
            Every solution is in collision, or the gate refuses the motion to each; gives the
            reason, for the motion to the first one.

        """
        goals = self.joint_goals(T_base_tool, q_start, branch, within)
        # Before the loop: else each candidate would be timed before the gate refuses it.
        self.check_world()
        free = free_at_rest(
            self.collision, goals if q_preferred is None else [q_preferred, *goals]
        )
        if not free:
            reason = self._reason_against(T_base_tool, q_start) or self.collision.check(goals[0])
            raise GateRefusal(f'the goal is in collision: {reason}', 'collision')
        return self.ptp_to_any(q_start, free, scaling)

    def ptp_to_any(
        self, q_start: Array, goals: Sequence[Array], scaling: Scaling = Scaling()
    ) -> PlannedMotion:
        """Return a motion as `ptp` to the first of `goals` where one is possible."""
        first: PlanningError | None = None
        for q_goal in goals[:_CANDIDATES]:
            try:
                return self.ptp(q_start, q_goal, scaling)
            except PlanningError as error:
                first = first or error
        assert first is not None
        raise first

    def auto(
        self,
        q_start: Array,
        goals: Sequence[Array],
        scaling: Scaling = Scaling(),
        allowed: float = SEARCH_TIME,
    ) -> PlannedMotion:
        """
        Return a joint motion to any of `goals`, straight if that is free, else around obstacles.

        Equal requests give equal motions.

        Parameters
        ----------
        q_start : ndarray, shape (6,)
            [rad]
        goals : sequence of ndarray, shape (6,)
            [rad], the preferred one first.
        allowed : float
            Time in which a search must find its first path [s].

        Raises
        ------
        PlanningError
            The start or all goals are in collision, the gate refuses the motion, or no path around
            the obstacle was found in time; names the bodies.

        """
        for q_goal in goals:
            self.check_goal_range(q_goal)
        self.check_world()

        def along(paths: Sequence[JointPath]) -> PlannedMotion:
            limits, speeds = self.scaled_limits(scaling), self._speeds(scaling)
            parts = [time_path(path, limits, speeds, self.dynamics) for path in paths]
            return self._admit(concatenate(parts), q_start)

        motions = JointMotions(
            self.collision,
            self.limits,
            q_start,
            lambda q_goal: self.ptp(q_start, q_goal, scaling),
            lambda q_goal: self._time_ptp(q_start, q_goal, scaling).duration,
            along,
        )
        motion, detour = motion_to_any(motions, goals, allowed)
        return replace(motion, detour=detour)

    def auto_to_pose(
        self,
        q_start: Array,
        T_base_tool: Array,
        scaling: Scaling = Scaling(),
        branch: str = '',
        q_preferred: Array | None = None,
        within: tuple[Array, Array] | None = None,
        allowed: float = SEARCH_TIME,
    ) -> PlannedMotion:
        """
        Return a motion as `auto` to a pose (4, 4), on any branch, or on the one given.

        Parameters and errors as `ptp_to_pose` and `auto`.

        """
        goals = self.joint_goals(T_base_tool, q_start, branch, within)
        preferred = [] if q_preferred is None else [q_preferred]
        return self.auto(q_start, [*preferred, *goals], scaling, allowed)

    def lin(
        self,
        q_start: Array,
        T_waypoints: Sequence[Array],
        scaling: Scaling = Scaling(),
        position_step: float = POSITION_STEP,
    ) -> PlannedMotion:
        """
        Return a straight tool motion from `q_start` through poses T_base_tool, on one branch.

        The arm stops at every waypoint. Raises what `chain` raises.

        """
        return self.chain(q_start, [PathSegment(T) for T in T_waypoints], scaling, position_step)

    def chain(
        self,
        q_start: Array,
        segments: Sequence[PathSegment],
        scaling: Scaling = Scaling(),
        position_step: float = POSITION_STEP,
        T_tool_link: Array | None = None,
    ) -> PlannedMotion:
        """
        Return a motion along segments, on one branch, without a stop where they blend.

        Parameters
        ----------
        q_start : ndarray, shape (6,)
            [rad]
        position_step : float
            Largest distance between two samples of the path [m].
        T_tool_link : ndarray, shape (4, 4), optional
            The frame that follows lines and arcs, in the tool; the tool itself if not given.

        Raises
        ------
        InvalidInput
            A segment is shorter than the blends at its ends, or the points define no circle.
        IncompletePath
            The path cannot be followed to its end; names the first bad pose and the cause,
            which may be a collision.
        PlanningError
            The gate refuses the motion for another reason.

        """
        T_tool_link = np.eye(4) if T_tool_link is None else T_tool_link
        parts, q = [], q_start
        for group in between_stops(segments):
            one = group[0] if len(group) == 1 else None
            if one and one.q_goal is not None and not one.is_slow_in_part:
                parts.append(self._time_ptp(q, one.q_goal, scaling.at_most(one.speed)))
            else:
                path = path_of(self.model, group, q, T_tool_link, position_step)
                limits = self.scaled_limits(scaling)
                parts.append(time_path(path, limits, self._speeds(scaling), self.dynamics))
            q = parts[-1].q[-1]
        return self.admit_path(concatenate(parts), q_start)

    def admit_path(self, trajectory: Trajectory, q_start: Array) -> PlannedMotion:
        """
        Return a motion along a Cartesian path, passed by the gate.

        Raises
        ------
        BlockedPath
            It collides; names the first bad pose and the bodies.
        GateRefusal
            The gate refuses it for another reason.

        """
        try:
            return self._admit(trajectory, q_start)
        except GateRefusal as refusal:
            if refusal.check != 'collision' or self.scene.world.refusal:
                raise
            blocked = gate.blocked_path(trajectory, self.model, self.collision)
            raise blocked or refusal from None

    def joint_goals(
        self,
        T_base_tool: Array,
        q_near: Array,
        branch: str = '',
        within: tuple[Array, Array] | None = None,
    ) -> list[Array]:
        """
        Return every joint goal (6,) of a pose (4, 4), the nearest to `q_near` first; see `goals`.

        The error for an unreachable pose gives the distance by which it is out of reach.

        """
        why = partial(self._reason_against, T_base_tool, q_near)
        return joint_goals(self.model, self.limits.qd, T_base_tool, q_near, branch, within, why)

    def _reason_against(self, T_base_tool: Array, q_near: Array) -> str:
        """Return why a pose is possible on no branch; empty if it is on one."""
        q6 = float(q_near[5])
        return check_pose(self.model, self.limits, self.collision, T_base_tool, q6).reason

    def _time_ptp(self, q_start: Array, q_goal: Array, scaling: Scaling) -> Trajectory:
        self.check_goal_range(q_goal)
        limits = self.scaled_limits(scaling)
        return time_ptp(q_start, q_goal, limits, self._speeds(scaling), self.dynamics)

    def _admit(self, trajectory: Trajectory, q_start: Array) -> PlannedMotion:
        return PlannedMotion(trajectory, self.check(trajectory, q_start))

    def _speeds(self, scaling: Scaling) -> SpeedOf:
        """
        Return a function that gives the speeds to keep below `scaled_limits(scaling).speed`.

        They are the speeds of TCP and elbow and, if given, of `scaling.p_tool_point`. The latter
        is multiplied so that it equals this limit when the point moves at `scaling.speed`.

        """
        model, p_tool_tcp = self.model, self.scene.tool.p_tool_tcp
        p_tool_point = scaling.p_tool_point
        share = self.scaled_limits(scaling).speed / scaling.speed if scaling.speed else 0.0

        def speeds(q: Array, qd: Array) -> Array:
            own = tcp_and_elbow_speed(model, q, qd, p_tool_tcp)
            if p_tool_point is None:
                return own
            point = tcp_and_elbow_speed(model, q, qd, p_tool_point)[:, :1]
            return np.hstack([own, share * point])

        return speeds
