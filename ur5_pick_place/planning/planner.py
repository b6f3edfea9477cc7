# SPDX-License-Identifier: Apache-2.0
"""Motions for one arm in one scene: planned, timed and passed through the gate."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ur5_pick_place.errors import GateRefusal, PlanningError
from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning import gate
from ur5_pick_place.planning.collision import collision_model
from ur5_pick_place.planning.detours import Detour, JointMotions, motion_to_any
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.goals import free_at_rest, joint_goals
from ur5_pick_place.planning.inertias import Load
from ur5_pick_place.planning.limits import (
    Limits,
    MotionSettings,
    motion_limits,
    tcp_and_elbow_speed,
)
from ur5_pick_place.planning.moves import PathSegment, between_stops, path_of
from ur5_pick_place.planning.path_timing import time_path
from ur5_pick_place.planning.paths import POSITION_STEP, JointPath
from ur5_pick_place.planning.place_check import check_pose
from ur5_pick_place.planning.scaling import Scaling
from ur5_pick_place.planning.scene import Box, Part, Scene
from ur5_pick_place.planning.time_optimal import SpeedOf
from ur5_pick_place.planning.timing import concatenate, time_ptp
from ur5_pick_place.planning.trajectory import Trajectory
from ur5_pick_place.planning.ways_round import SEARCH_TIME
from ur5_pick_place.planning.world import World

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


class MotionPlanner:
    """
    Plans point-to-point, straight-line and circular motions, and checks any motion.

    Parameters
    ----------
    model : Model
    settings : MotionSettings
    scene : Scene
        Table, boxes and tool; replace it with `set_scene`.
    dynamics : Dynamics, optional
        The arm with its load; torques are not checked if not given.

    """

    def __init__(
        self,
        model: Model,
        settings: MotionSettings,
        scene: Scene,
        dynamics: Dynamics | None = None,
    ) -> None:
        self.model, self._dynamics, self._empty = model, dynamics, dynamics
        self.carried: Load | None = None
        self._part: Part | None = None
        self.before_check: Callable[[], object] = lambda: None
        """Called before a motion is checked, to bring the scene up to date."""
        self.settings = settings
        self.limits = motion_limits(model, settings)
        self.set_scene(scene)

    def set_scene(self, scene: Scene) -> None:
        """Plan and check in another scene from now on; the carried part stays in the gripper."""
        self._given, part = scene, self._part or scene.part
        scene = replace(scene, part=part, carried=self.carried is not None and part is not None)
        collision = collision_model(self.model, scene)
        dynamics = self._empty
        if dynamics is not None:
            loads = [thing.load for thing in scene.world.attached.values()]
            for load in [*loads, self.carried] if self.carried else loads:
                dynamics = dynamics.with_load(load)
        self.scene, self.collision, self._dynamics = scene, collision, dynamics

    def carry(self, load: Load | None, part: Part | None = None) -> None:
        """Carry `part`, or the scene's part, as `load` from now on; None = carry nothing."""
        self.carried, self._part = load, part if load else None
        self.set_scene(self._given)

    def among(self, boxes: Sequence[Box]) -> 'MotionPlanner':
        """Return a planner for the same arm with more boxes in the scene."""
        if not boxes:
            return self
        other = copy.copy(self)
        other.set_scene(replace(self._given, boxes=(*self._given.boxes, *boxes)))
        return other

    def carrying(self, load: Load) -> 'MotionPlanner':
        """Return a planner for the same arm and scene with the part in the gripper."""
        other = copy.copy(self)
        other.carry(load)
        return other

    def without_objects(self) -> 'MotionPlanner':
        """Return a planner for the same arm without clients' objects, held ones included."""
        other = copy.copy(self)
        other.set_scene(replace(self._given, world=World()))
        return other

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
        first: PlanningError | None = None
        goals = self.joint_goals(T_base_tool, q_start, branch, within)
        self._check_world()  # each candidate would be timed before the gate refuses it
        free = free_at_rest(
            self.collision, goals if q_preferred is None else [q_preferred, *goals]
        )
        if not free:
            reason = self._reason_against(T_base_tool, q_start) or self.collision.check(goals[0])
            raise GateRefusal(f'the goal is in collision: {reason}', 'collision')
        for q_goal in free[:_CANDIDATES]:
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
        Return a joint motion to any of `goals`, straight if that is free, else a way round.

        Equal requests give equal motions.

        Parameters
        ----------
        q_start : ndarray, shape (6,)
            [rad]
        goals : sequence of ndarray, shape (6,)
            [rad], the preferred one first.
        scaling : Scaling
        allowed : float
            Time in which a search must find its first way [s].

        Raises
        ------
        PlanningError
            The start or all goals are in collision, the gate refuses the motion, or no way round
            was found in time; names the bodies.

        """
        for q_goal in goals:
            self._check_goal_range(q_goal)
        self._check_world()

        def along(paths: Sequence[JointPath]) -> PlannedMotion:
            limits, speeds = self._scaled_limits(scaling), self._speeds(scaling)
            parts = [time_path(path, limits, speeds, self._dynamics) for path in paths]
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
        segments : sequence of PathSegment
        scaling : Scaling
        position_step : float
            Largest distance between two samples of the path [m].
        T_tool_link : ndarray, shape (4, 4), optional
            The frame that follows lines and arcs, in the tool; the tool itself if not given.

        Raises
        ------
        InvalidInput
            A segment is shorter than the blends at its ends, or the points define no circle.
        IncompletePath
            The path cannot be followed to its end; names the first bad pose and the cause.
        PlanningError
            The gate refuses the motion.

        """
        T_tool_link = np.eye(4) if T_tool_link is None else T_tool_link
        parts, q = [], q_start
        for group in between_stops(segments):
            if len(group) == 1 and group[0].q_goal is not None:
                parts.append(self._time_ptp(q, group[0].q_goal, scaling.at_most(group[0].speed)))
            else:
                path = path_of(self.model, group, q, T_tool_link, position_step)
                limits = self._scaled_limits(scaling)
                parts.append(time_path(path, limits, self._speeds(scaling), self._dynamics))
            q = parts[-1].q[-1]
        return self._admit(concatenate(parts), q_start)

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

    def check(
        self, trajectory: Trajectory, q_now: Array, is_reduced: bool = False
    ) -> gate.GateReport:
        """Return the gate's report on a motion; `is_reduced` = the robot is in reduced mode."""
        self._check_world()
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
            self._dynamics,
        )

    def _check_world(self) -> None:
        self.before_check()
        if refusal := self.scene.world.refusal:
            raise GateRefusal(refusal, 'collision')

    def limits_at(self, scaling: Scaling) -> Limits:
        """Return the bounds at a scaling; its speed bound applies to TCP and elbow."""
        return self._scaled_limits(replace(scaling, p_tool_point=None))

    def obstacle(self, q: Array) -> str:
        """Return why a path of joints (n, 6) [rad] is not free; empty if it is."""
        if refusal := self.scene.world.refusal:
            return refusal
        outside = (q < self.limits.q_min) | (q > self.limits.q_max)
        if outside.any():
            joint = int(outside.any(axis=0).argmax())
            return f'{JOINT_NAMES[joint]} is outside its range; start from another turn'
        return str(self.collision.check_path(q) or '')

    def _reason_against(self, T_base_tool: Array, q_near: Array) -> str:
        """Return why a pose is possible on no branch; empty if it is on one."""
        q6 = float(q_near[5])
        return check_pose(self.model, self.limits, self.collision, T_base_tool, q6).reason

    def _time_ptp(self, q_start: Array, q_goal: Array, scaling: Scaling) -> Trajectory:
        self._check_goal_range(q_goal)
        limits = self._scaled_limits(scaling)
        return time_ptp(q_start, q_goal, limits, self._speeds(scaling), self._dynamics)

    def _admit(self, trajectory: Trajectory, q_start: Array) -> PlannedMotion:
        return PlannedMotion(trajectory, self.check(trajectory, q_start))

    def _scaled_limits(self, scaling: Scaling) -> Limits:
        limits = self.limits.scaled(
            scaling.velocity or self.settings.velocity_scaling,
            scaling.acceleration or self.settings.acceleration_scaling,
        )
        if not scaling.speed or scaling.p_tool_point is not None:
            return limits
        return replace(limits, speed=min(limits.speed, scaling.speed))

    def _speeds(self, scaling: Scaling) -> SpeedOf:
        """
        Return the function of the speeds to keep under the scaled limit.

        The speed of `p_tool_point` is multiplied so that its own bound becomes that limit.

        """
        model, p_tool_tcp = self.model, self.scene.tool.p_tool_tcp
        p_tool_point = scaling.p_tool_point
        share = self._scaled_limits(scaling).speed / scaling.speed if scaling.speed else 0.0

        def speeds(q: Array, qd: Array) -> Array:
            own = tcp_and_elbow_speed(model, q, qd, p_tool_tcp)
            if p_tool_point is None:
                return own
            point = tcp_and_elbow_speed(model, q, qd, p_tool_point)[:, :1]
            return np.hstack([own, share * point])

        return speeds

    def _check_goal_range(self, q_goal: Array) -> None:
        outside = (q_goal < self.limits.q_min) | (q_goal > self.limits.q_max)
        if outside.any():
            joint = int(outside.argmax())
            low, high = np.degrees([self.limits.q_min[joint], self.limits.q_max[joint]])
            raise GateRefusal(
                f'goal of {JOINT_NAMES[joint]} is {np.degrees(q_goal[joint]):.1f} deg: '
                f'must lie in {low:.0f} to {high:.0f} deg',
                'position',
            )
