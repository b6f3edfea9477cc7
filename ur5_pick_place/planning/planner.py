# SPDX-License-Identifier: Apache-2.0
"""Motions for one arm in one scene: planned, timed and passed through the gate."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ur5_pick_place.errors import GateRefusal, PlanningError
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.kinematics._ik import are_within
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.collision import Contact, collision_model
from ur5_pick_place.planning.detours import Detour, paths_round, straight_samples
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.gate import Gate, GateReport
from ur5_pick_place.planning.joint_goals import check_pose, free_at_rest, joint_goals
from ur5_pick_place.planning.limits import (
    Limits,
    MotionSettings,
    Scaling,
    in_degrees,
    motion_limits,
    range_from,
    tcp_and_elbow_speed,
)
from ur5_pick_place.planning.paths.follow import POSITION_STEP, JointPath
from ur5_pick_place.planning.paths.moves import PathSegment, between_stops, path_of
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Part, Scene
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.planning.timing.path_timing import time_path
from ur5_pick_place.planning.timing.ptp import concatenate, time_ptp
from ur5_pick_place.planning.timing.time_optimal import SpeedOf
from ur5_pick_place.planning.ways_round import SEARCH_TIME, time_distance

_CANDIDATES = 16  # joint goals tried for one pose, the soonest reached first
_NO_SEARCH = 1.25  # no search if a straight motion is at most this multiple of the shortest
_PARTS = 6  # of a straight motion, to measure how far it moves the TCP and the elbow


@dataclass(frozen=True)
class PlannedMotion:
    """
    A motion and what the gate measured on it.

    `detour` is the obstacle it goes round and how much longer that takes; None for a straight
    motion.
    """

    trajectory: Trajectory
    report: GateReport
    detour: Detour | None = None


class MotionPlanner:
    """
    Plans motions of an arm in a scene, with what its gripper holds, and checks any motion of it.

    `scene`: table, boxes and tool; replace it with `set_scene`. `dynamics`: the arm with its load;
    torques are not checked if not given.
    """

    def __init__(
        self,
        model: Model,
        settings: MotionSettings,
        scene: Scene,
        dynamics: Dynamics | None = None,
    ) -> None:
        self.model, self.dynamics, self._empty = model, dynamics, dynamics
        self.carried: Load | None = None
        self.settings = settings
        self.limits = motion_limits(model, settings)
        self.set_scene(scene)

    # -- the scene -----------------------------------------------------------------------------

    def set_scene(self, scene: Scene) -> None:
        """Plan and check in another scene from now on; the carried part stays in the gripper."""
        self._given, part = scene, scene.part
        if part and self.carried and self.carried.T_tcp_part is not None:
            part = Part(self.carried.T_tcp_part, part.size)
        scene = replace(scene, part=part, carried=self.carried is not None and part is not None)
        collision = collision_model(self.model, scene)
        dynamics = self._empty
        if dynamics is not None:
            loads = [thing.load for thing in scene.world.attached.values()]
            for load in [*loads, self.carried] if self.carried else loads:
                dynamics = dynamics.with_load(load)
        self.scene, self.collision, self.dynamics = scene, collision, dynamics

    def carry(self, load: Load | None) -> None:
        """Carry the scene's part as `load` from now on; None = carry nothing."""
        self.carried = load
        self.set_scene(self._given)

    def among(self, boxes: Sequence[Box]) -> 'MotionPlanner':
        """Return the same arm with more boxes in the scene."""
        if not boxes:
            return self
        other = copy.copy(self)
        other.set_scene(replace(self._given, boxes=(*self._given.boxes, *boxes)))
        return other

    def carrying(self, load: Load) -> 'MotionPlanner':
        """Return the same arm in the same scene with the part in the gripper."""
        other = copy.copy(self)
        other.carry(load)
        return other

    def without_objects(self) -> 'MotionPlanner':
        """Return the same arm without clients' objects, held ones included."""
        other = copy.copy(self)
        other.set_scene(replace(self._given, world=World()))
        return other

    # -- its limits ----------------------------------------------------------------------------

    def limits_in(self, is_reduced: bool) -> Limits:
        """Return the limits of the gate; `is_reduced` = the robot is in reduced mode."""
        if not is_reduced:
            return self.limits
        reduced = self.settings.reduced_speed
        if reduced >= self.limits.speed:
            return self.limits
        return replace(self.limits, speed=reduced, speed_name='reduced_speed')

    def limits_at(self, scaling: Scaling) -> Limits:
        """Return the bounds at a scaling; its speed bound is always applied to TCP and elbow."""
        limits = self.limits.scaled(
            scaling.velocity or self.settings.velocity_scaling,
            scaling.acceleration or self.settings.acceleration_scaling,
        )
        return replace(limits, speed=min(limits.speed, scaling.speed or np.inf))

    def holding_torque(self, q: Array) -> Array:
        """Return the torques to hold the arm at joints (n, 6) [rad], as fractions of limits."""
        if self.dynamics is None:
            return np.zeros(q.shape)
        return np.asarray(np.abs(self.dynamics.gravity(q)) / self.dynamics.torque_max)

    # -- checks --------------------------------------------------------------------------------

    def check(
        self, trajectory: Trajectory, q_now: Array, is_reduced: bool = False
    ) -> GateReport:
        """Return the gate's report on a motion; `is_reduced` = the robot is in reduced mode."""
        self.check_world()
        return self._gate(is_reduced).check(trajectory, q_now)

    def check_running_motion(self, trajectory: Trajectory, is_reduced: bool = False) -> GateReport:
        """Return the gate's report on the rest of a motion that may run, and ends at rest."""
        self.check_world()
        return self._gate(is_reduced).check_running(trajectory)

    def check_world(self) -> None:
        """Raise `GateRefusal` if an object was not accepted."""
        if refusal := self.scene.world.refusal:
            raise GateRefusal(refusal, 'collision')

    def why_blocked(self, q: Array) -> str:
        """Return why a path of joints (n, 6) [rad] is blocked; empty if it is free."""
        if refusal := self.scene.world.refusal:
            return refusal
        limits = self.limits
        is_inside = are_within(q, limits.q_min, limits.q_max)
        if not is_inside and (reason := self._why_outside(q)):
            return reason
        return str(self.collision.check_nearby(q) or '')

    def _why_outside(self, q: Array) -> str:
        """Return which joint of a path (n, 6) [rad] its start does not allow; empty if none."""
        limits = self.limits
        q_min, q_max = range_from(limits.q_min, limits.q_max, q[0])
        outside = np.argwhere((q < q_min) | (q > q_max))
        if not len(outside):
            return ''
        row, joint = outside[0]
        low, high = np.degrees([limits.q_min[joint], limits.q_max[joint]])
        return (
            f'{JOINT_NAMES[joint]} is at {np.degrees(q[row, joint]):.1f} deg: must lie in '
            f'{low:.0f} to {high:.0f} deg; guide it back in freedrive first'
        )

    def check_goal_range(self, q_goal: Array) -> None:
        """Raise `GateRefusal` if joints (6,) [rad] are out of range."""
        outside = (q_goal < self.limits.q_min) | (q_goal > self.limits.q_max)
        if outside.any():
            joint = int(outside.argmax())
            low, high = np.degrees([self.limits.q_min[joint], self.limits.q_max[joint]])
            raise GateRefusal(
                f'goal of {JOINT_NAMES[joint]} is {np.degrees(q_goal[joint]):.1f} deg: '
                f'must lie in {low:.0f} to {high:.0f} deg{in_degrees(q_goal)}',
                'position',
            )

    def _gate(self, is_reduced: bool = False) -> Gate:
        return Gate(
            self.model,
            self.limits_in(is_reduced),
            self.collision,
            self.scene.tool.p_tool_tcp,
            self.settings.start_tolerance,
            self.dynamics,
        )

    # -- motions -------------------------------------------------------------------------------

    def ptp(self, q_start: Array, q_goal: Array, scaling: Scaling = Scaling()) -> PlannedMotion:
        """
        Return a joint motion from rest to rest; `q_start` and `q_goal` (6,) [rad].

        Raises `PlanningError`: the goal is out of range, or the gate refuses the motion; gives the
        reason.
        """
        return self._admit(self._time_ptp(q_start, q_goal, scaling), q_start)

    def ptp_to_any(
        self, q_start: Array, goals: Sequence[Array], scaling: Scaling = Scaling()
    ) -> PlannedMotion:
        """
        Return a motion as `ptp` to the first of `goals`, (6,) [rad] each, where one is possible.

        Raises `PlanningError`: the start or every goal is in collision, or the gate refuses the
        motion to each; gives the reason, for the motion to the first one that is free.
        """
        # Before the loop: else each candidate would be timed before the gate refuses it.
        self.check_world()
        first: PlanningError | None = None
        for q_goal in self._free_goals(q_start, goals)[:_CANDIDATES]:
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

        `q_start` (6,) [rad]. `goals`: joints (6,) [rad], the preferred one first. `allowed`: time
        in which a search must find its first path [s].

        Raises `PlanningError`: the start or all goals are in collision, the gate refuses the
        motion, or no path around the obstacle was found in time; names the bodies.
        """
        for q_goal in goals:
            self.check_goal_range(q_goal)
        self.check_world()
        begin = time.monotonic()
        free = self._free_goals(q_start, goals)
        times = self.straight_times(q_start, np.array(free))
        motion, k, contact = self._straight(q_start, free, times, scaling)
        is_short = k == 0 or times[k] <= _NO_SEARCH * times.min()
        if motion is not None and (is_short or contact is None):  # nothing to go round
            return motion
        assert contact is not None  # else `_straight` has raised
        at_joint_limits = time_distance(np.array(free) - q_start, self.limits.qd)
        shortest = np.inf if motion is None else float(at_joint_limits[k])
        refusal: PlanningError | None = None
        for paths in paths_round(
            self.collision, self.limits, q_start, free, shortest, allowed
        ):
            try:
                found = self._along(paths, q_start, scaling)
            except PlanningError as error:
                if not (isinstance(error, GateRefusal) and error.check == 'collision'):
                    refusal = refusal or error
                continue
            straight = self._time_ptp(q_start, free[0], scaling).duration
            ratio = found.trajectory.duration / straight
            return replace(found, detour=Detour(contact.body_b, ratio))
        if motion is not None:
            return motion
        raise refusal or PlanningError(
            f'the straight motion is blocked: {contact}; no way round {contact.body_b} was found '
            f'in {time.monotonic() - begin:.1f} s: allow more time (allowed_planning_time), move '
            'the obstacle, or choose another goal'
        )

    def lin(
        self, q_start: Array, T_waypoints: Sequence[Array], scaling: Scaling = Scaling()
    ) -> PlannedMotion:
        """
        Return a straight tool motion from `q_start` through poses T_base_tool, on one branch.

        The arm stops at every waypoint. Raises what `chain` raises.
        """
        moves = [PathSegment(T) for T in T_waypoints]
        return self.chain(q_start, moves, scaling, T_tool_link=np.eye(4))

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

        `q_start` (6,) [rad]. `position_step`: largest distance between two samples of the path
        [m]. `T_tool_link` (4, 4): the frame that follows lines and arcs, in the tool; the TCP
        if not given.

        Raises `InvalidInput`: a segment is shorter than the blends at its ends, or the points
        define no circle; `IncompletePath`: the path cannot be followed to its end; names the first
        bad pose and the cause, which may be a collision; `PlanningError`: the gate refuses the
        motion for another reason.
        """
        T_tool_link = self.scene.tool.T_tool_tcp if T_tool_link is None else T_tool_link
        parts, q = [], q_start
        for group in between_stops(segments):
            one = group[0] if len(group) == 1 else None
            if one and one.q_goal is not None and not one.is_slow_in_part:
                parts.append(self._time_ptp(q, one.q_goal, scaling.at_most(one.speed)))
            else:
                path = path_of(self.model, group, q, T_tool_link, position_step)
                parts.append(time_path(path, *self._bounds(scaling), self.dynamics))
            q = parts[-1].q[-1]
        return self.admit_path(concatenate(parts), q_start)

    def admit_path(self, trajectory: Trajectory, q_start: Array) -> PlannedMotion:
        """
        Return a motion along a Cartesian path, passed by the gate.

        Raises `BlockedPath`: it collides; names the first bad pose and the bodies; `GateRefusal`:
        the gate refuses it for another reason.
        """
        self.check_world()
        gate = self._gate()  # one for both looks: the scene may change between them
        try:
            return PlannedMotion(trajectory, gate.check(trajectory, q_start))
        except GateRefusal as refusal:
            if refusal.check != 'collision':
                raise
            raise gate.blocked_path(trajectory) from None

    def joint_goals(
        self,
        T_base_tool: Array,
        q_near: Array,
        branch: str = '',
        within: tuple[Array, Array] | None = None,
    ) -> list[Array]:
        """Return every joint goal (6,) of a pose (4, 4), that reached soonest first."""
        goals = joint_goals(self.collision, self.limits, T_base_tool, q_near, branch, within)
        return self._soonest_first(q_near, goals)

    def straight_times(self, q_start: Array, q_goal: Array) -> Array:
        """
        Return about how long straight motions take (n,) [s], between joints (6,) or (n, 6) [rad].

        Joint speeds alone would prefer half a turn of the shoulder to one of the wrist, which
        moves the TCP less and is over sooner.
        """
        dq = np.atleast_2d(q_goal - q_start)
        share = (np.arange(_PARTS) + 0.5)[:, None, None] / _PARTS
        q, per_time = (q_start + share * dq).reshape(-1, 6), np.tile(dq, (_PARTS, 1))
        speeds = tcp_and_elbow_speed(self.model, q, per_time, self.scene.tool.p_tool_tcp)
        swept = speeds.reshape(_PARTS, -1, 2).mean(axis=0).max(axis=-1)  # [m]
        return np.asarray(np.maximum(time_distance(dq, self.limits.qd), swept / self.limits.speed))

    def _soonest_first(self, q_start: Array, goals: Sequence[Array]) -> list[Array]:
        order = np.argsort(self.straight_times(q_start, np.array(goals)), kind='stable')
        return [goals[i] for i in order]

    def _free_goals(self, q_start: Array, goals: Sequence[Array]) -> list[Array]:
        """Return the goals without contact, the preferred one first; refuse if there is none."""
        if contact := self.collision.check(q_start):
            raise GateRefusal(
                f'at the start of the motion {contact}: guide the arm away in freedrive, or '
                'remove the body',
                'collision',
            )
        free = free_at_rest(self.collision, goals)
        if not free:
            reason = str(self.collision.check(goals[0]))
            if len(goals) > 1:
                T = forward(self.model, goals[0])
                found = check_pose(self.limits, self.collision, T, float(q_start[5])).reason
                reason = found or f'{reason}; all joint solutions are in collision'
            raise GateRefusal(f'the goal is in collision: {reason}', 'collision')
        if free[0] is goals[0]:
            return free
        return self._soonest_first(q_start, free)

    def _straight(
        self,
        q_start: Array,
        goals: Sequence[Array],
        times: Array,
        scaling: Scaling,
    ) -> tuple[PlannedMotion | None, int, Contact | None]:
        """
        Return the first free straight motion, the index of its goal, and the first contact.

        Raises the first refusal if none of them collides, yet all are refused.
        """
        first: Contact | None = None
        refusal: PlanningError | None = None
        for k in sorted(range(len(goals)), key=lambda i: (i > 0, times[i]))[:_CANDIDATES]:
            if contact := self.collision.check_path(straight_samples(q_start, goals[k])):
                first = first or contact.contact
                continue
            try:
                return self.ptp(q_start, goals[k], scaling), k, first
            except PlanningError as error:
                refusal = refusal or error
        if first is None:
            assert refusal is not None
            raise refusal
        return None, -1, first

    def _along(
        self, paths: Sequence[JointPath], q_start: Array, scaling: Scaling
    ) -> PlannedMotion:
        parts = [time_path(path, *self._bounds(scaling), self.dynamics) for path in paths]
        return self._admit(concatenate(parts), q_start)

    def _time_ptp(self, q_start: Array, q_goal: Array, scaling: Scaling) -> Trajectory:
        self.check_goal_range(q_goal)
        return time_ptp(q_start, q_goal, *self._bounds(scaling), self.dynamics)

    def _admit(self, trajectory: Trajectory, q_start: Array) -> PlannedMotion:
        return PlannedMotion(trajectory, self.check(trajectory, q_start))

    def _bounds(self, scaling: Scaling) -> tuple[Limits, SpeedOf]:
        """
        Return limits, and a function that gives the speeds to keep below their `speed`.

        They are the speeds of TCP and elbow and, if given, of `scaling.p_tool_point`. The latter
        is multiplied so that it equals this limit when the point moves at `scaling.speed`.
        """
        model, p_tool_tcp, point = self.model, self.scene.tool.p_tool_tcp, scaling.p_tool_point

        def own(q: Array, qd: Array) -> Array:
            return tcp_and_elbow_speed(model, q, qd, p_tool_tcp)

        if point is None or not scaling.speed:
            return self.limits_at(scaling), own
        limits = self.limits_at(replace(scaling, speed=0.0))
        factor = limits.speed / scaling.speed

        def with_point(q: Array, qd: Array) -> Array:
            at_point = tcp_and_elbow_speed(model, q, qd, point)[:, :1]
            return np.hstack([own(q, qd), factor * at_point])

        return limits, with_point
