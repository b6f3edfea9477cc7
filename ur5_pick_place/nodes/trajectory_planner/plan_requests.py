# SPDX-License-Identifier: Apache-2.0
"""Interpret MoveIt planning requests for this arm."""

import copy
import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from moveit_msgs.msg import Constraints, MotionPlanRequest, RobotState
from moveit_msgs.srv import GetCartesianPath

from ur5_pick_place.control.loops.laws import Gradient, ResolvedRate
from ur5_pick_place.control.loops.rollout import plan_roll_out
from ur5_pick_place.errors import (
    IncompletePath,
    InvalidInput,
    InvalidRobotState,
    KinematicsError,
    PlanningCanceled,
    PlanningError,
    TimedOut,
    Ur5PickPlaceError,
    one_line,
)
from ur5_pick_place.kinematics import BRANCHES, classify, forward, link_pose
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages.conversions import joints_of_request, pose_to_matrix, to_seconds
from ur5_pick_place.nodes.ros.distro import speed_limited_link
from ur5_pick_place.nodes.tf.frames import ArmPose
from ur5_pick_place.nodes.trajectory_planner.goal_constraints import (
    GoalConstraints,
    PlanningGoal,
    refuse_path_constraints,
)
from ur5_pick_place.nodes.trajectory_planner.settings import PlannerSettings
from ur5_pick_place.planning.cancellation import cancelable
from ur5_pick_place.planning.goal_region import joints_within
from ur5_pick_place.planning.joint_goals import first_free, goals_among, goals_at
from ur5_pick_place.planning.limits import Scaling, in_degrees
from ur5_pick_place.planning.paths.curves import UndefinedArc
from ur5_pick_place.planning.paths.moves import JumpThresholds, PathSegment, find_followable_path
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion
from ur5_pick_place.planning.ways_round import SEARCH_TIME

AUTO, PTP, LIN, CIRC = 'AUTO', 'PTP', 'LIN', 'CIRC'
# The closed-loop methods by their planner_id.
_METHODS = {'RESOLVED_RATE': ResolvedRate.name, 'JACOBIAN_TRANSPOSE': Gradient.name}
PLANNER_IDS = (AUTO, PTP, LIN, CIRC, *_METHODS)
_LARGEST_JOINT = 2 * np.pi + 0.1  # [rad]
_MAX_GOALS = 16  # alternatives of one request; each may take a second to plan
_MAX_WAYPOINTS = 1000
_MAX_LINES = 8  # that are tried to goals within tolerances
_MAX_SEARCH_TIME = 60.0  # [s]
_MAX_CARTESIAN_TIME = 20.0  # [s] to plan a Cartesian path; other planning requests wait for it
_MIN_STEP, _MAX_STEP = 5e-4, 0.01  # [m]; coarser steps than this could miss a singularity
_LOOP_END = 0.05  # [rad] a closed loop may end outside a goal's joint bounds: its end is Cartesian


class _Request(NamedTuple):
    """What all goals of a request have in common."""

    planner: MotionPlanner  # in the scene as it was when the request came
    planner_id: str
    q_start: Array  # (6,) [rad]
    arm: ArmPose
    scaling: Scaling
    path_constraints: Constraints
    search_time: float  # [s], for each goal


class PlanRequests:
    """
    Turns requests into calls of a `MotionPlanner`.

    `recent_joints`: returns the measured joints (6,) [rad], or None without recent joint_states.
    """

    def __init__(
        self,
        cell: Cell,
        planner: MotionPlanner,
        settings: PlannerSettings,
        recent_joints: Callable[[], Array | None],
    ) -> None:
        self._planner, self._frames, self._names = planner, cell.frames, list(cell.joint_names)
        self._settings, self._recent_joints = settings, recent_joints
        self._log = cell.node.get_logger()
        self._goals = GoalConstraints(cell)

    def _warn(self, text: str) -> None:
        self._log.warning(one_line(text))

    def motion_plan(
        self, request: MotionPlanRequest, is_wanted: Callable[[], bool]
    ) -> tuple[PlannedMotion, str]:
        """
        Return the motion that GetMotionPlan requests; raises this package's errors.

        `is_wanted`: returns whether the motion is still requested; planning ends with an error if
        not.

        Returns the fastest motion to any of the goals, which are alternatives; and its obstacle if
        the motion leads around one, the goal reached, and why others are not, maybe nothing.
        """
        self._settings.groups.check_group(request.group_name)
        if n := len(request.trajectory_constraints.constraints):
            raise InvalidInput(f'trajectory_constraints holds {n}: not supported, leave it empty')
        if n := len(request.reference_trajectories):
            raise InvalidInput(f'reference_trajectories holds {n}: not supported, leave it empty')
        goals = request.goal_constraints
        if not 1 <= len(goals) <= _MAX_GOALS:
            raise InvalidInput(
                f'goal_constraints is {"too long" if goals else "empty"}, with {len(goals)} '
                f'alternatives: give 1 to {_MAX_GOALS}, each with joints, or with position and '
                'orientation'
            )
        q_start = self.start_joints(request.start_state)
        planner_id = self._planner_id(request.planner_id)
        if planner_id != CIRC:
            is_joint_motion = planner_id in (AUTO, PTP)
            own_branch = '' if is_joint_motion else self._branch(q_start)
            refuse_path_constraints(request.path_constraints, own_branch)
        wanted = _Request(
            copy.copy(self._planner),
            planner_id,
            q_start,
            functools.partial(link_pose, self._planner.model, q_start),
            self._scaling(request),
            request.path_constraints,
            self._search_time(request) / len(goals),
        )
        with cancelable(lambda: not is_wanted()):
            return _fastest([functools.partial(self._to_goal, wanted, goal) for goal in goals])

    def cartesian_path(
        self, request: GetCartesianPath.Request, is_wanted: Callable[[], bool]
    ) -> tuple[PlannedMotion, IncompletePath | None]:
        """
        Return the motion that GetCartesianPath requests, and why it ends early, or None.

        Raises this package's errors, also for a path that would end early, unless
        `allow_partial_cartesian` is set. `is_wanted` as for `motion_plan`.
        """
        until = time.monotonic() + _MAX_CARTESIAN_TIME

        def is_canceled() -> bool:
            if time.monotonic() > until:
                raise TimedOut(
                    f'{len(request.waypoints)} waypoints took longer than '
                    f'{_MAX_CARTESIAN_TIME:g} s to plan, the limit of a Cartesian path: give '
                    'fewer, or a larger max_step'
                )
            return not is_wanted()

        with cancelable(is_canceled):
            return self._cartesian_path(request)

    def _cartesian_path(
        self, request: GetCartesianPath.Request
    ) -> tuple[PlannedMotion, IncompletePath | None]:
        self._settings.groups.check_group(request.group_name)
        if not 1 <= len(request.waypoints) <= _MAX_WAYPOINTS:
            raise InvalidInput(
                f'{len(request.waypoints)} waypoints: must be 1 to {_MAX_WAYPOINTS}'
            )
        q_start, planner = self.start_joints(request.start_state), copy.copy(self._planner)
        refuse_path_constraints(request.path_constraints, self._branch(q_start))
        arm = functools.partial(link_pose, planner.model, q_start)
        stamp = to_seconds(request.header.stamp)
        T_base_frame = self._frames.T_base_frame(request.header.frame_id, arm, stamp=stamp)
        T_tool_link = self._frames.T_tool_link(request.link_name)
        T_link_tool = self._frames.T_link_tool(request.link_name)
        waypoints = [T_base_frame @ pose_to_matrix(p) @ T_link_tool for p in request.waypoints]
        scaling = self._scaling(request)
        jumps = JumpThresholds(
            request.jump_threshold,
            request.revolute_jump_threshold,
            request.prismatic_jump_threshold,
        )
        step = self._step(request.max_step)
        reach = find_followable_path(
            planner.model, planner.collision, q_start, waypoints, step, T_tool_link, jumps
        )
        takes_part = self._settings.cartesian.allow_partial_cartesian
        if reach.end and not (takes_part and reach.end.fraction > 0.0):
            raise reach.end
        moves = [PathSegment(T) for T in reach.T_waypoints]
        return planner.chain(q_start, moves, scaling, step, T_tool_link), reach.end

    def _step(self, max_step: float) -> float:
        """Return the largest distance between samples of a Cartesian path [m]."""
        if not 0.0 <= max_step < np.inf:
            raise InvalidInput(f'max_step = {max_step} m: must be 0 (default) or positive')
        if 0.0 < max_step < _MIN_STEP:
            self._warn(f'max_step = {max_step} m: using {_MIN_STEP} m, the smallest')
        return float(np.clip(max_step or 0.002, _MIN_STEP, _MAX_STEP))

    def start_joints(self, state: RobotState) -> Array:
        """Return the joints (6,) [rad] of a start state; the arm's own if it is empty."""
        attached = self._planner.scene.attached_ids
        q = joints_of_request(state, self._names, self._recent_joints, attached)
        if q is None:
            raise InvalidRobotState(
                'no start state given, and joint_states are silent: check that the driver is '
                'running, or give the joints to start from'
            )
        joint = int(np.abs(q).argmax())
        if abs(q[joint]) > _LARGEST_JOINT:
            raise InvalidRobotState(
                f'start state: {self._names[joint]} = {q[joint]:g} rad is outside '
                f'+/-{_LARGEST_JOINT:g} rad: guide it back in freedrive first{in_degrees(q)}'
            )
        return q

    def _branch(self, q: Array) -> str:
        return BRANCHES[int(classify(self._planner.model, q))]

    def _scaling(self, request: MotionPlanRequest | GetCartesianPath.Request) -> Scaling:
        """Return a request's scaling; Humble's GetCartesianPath has no fields for it."""
        link = speed_limited_link(request)
        return Scaling(
            self._factor(request, 'max_velocity_scaling_factor'),
            self._factor(request, 'max_acceleration_scaling_factor'),
            getattr(request, 'max_cartesian_speed', 0.0),
            self._frames.T_tool_link(link)[:3, 3] if link else None,
        )

    def _factor(self, request: MotionPlanRequest | GetCartesianPath.Request, name: str) -> float:
        value = float(getattr(request, name, 0.0))
        if 0.0 <= value <= 1.0:
            return value
        self._warn(f'{name} = {value}: using 1; must be 0 (the default) to 1 (full speed)')
        return 1.0

    def _search_time(self, request: MotionPlanRequest) -> float:
        """Return the time allowed for a search [s]; 1 s if the request gives no valid one."""
        allowed = float(request.allowed_planning_time)
        if 0.0 < allowed < np.inf:
            return min(allowed, _MAX_SEARCH_TIME)
        if allowed != 0.0:
            self._warn(
                f'allowed_planning_time = {allowed}: using {SEARCH_TIME:g} s; must be 0 (the '
                f'default) to {_MAX_SEARCH_TIME:g} s'
            )
        return SEARCH_TIME

    def _planner_id(self, planner_id: str) -> str:
        wanted = planner_id.upper() or AUTO
        if wanted in PLANNER_IDS:
            return wanted
        self._warn(
            f'planner_id {planner_id[:60]!r} is not one of {", ".join(PLANNER_IDS)}: using {AUTO}'
        )
        return AUTO

    def _to_goal(self, wanted: _Request, constraints: Constraints) -> tuple[PlannedMotion, str]:
        """
        Return a motion to the nominal goal, else to another within its tolerances, and a note.

        The note says why it is another; it is empty otherwise. Raises this package's errors.
        """
        goal = self._goals.read(constraints, wanted.q_start, wanted.arm)
        if goal.is_wide:  # else a search would find no other way
            wanted = wanted._replace(search_time=0.5 * wanted.search_time)
        try:
            if goal.q is not None:
                self._goals.check_branch(goal.q, goal.branch)
            return self._to_nominal(wanted, goal), ''
        except UndefinedArc:
            raise
        except (PlanningError, KinematicsError, InvalidInput) as error:
            refusal, was_searched = error, type(error) is PlanningError
        others = [] if was_searched and not goal.is_wide else self._others(wanted, goal)
        if not others:
            raise refusal
        try:
            planned = self._to_any(wanted, goal, others)
        except (PlanningError, KinematicsError) as error:
            if str(error) != str(refusal):
                refusal.args = (f'{refusal}; and elsewhere within the tolerances: {error}',)
            raise refusal from None
        return planned, f'another goal within the tolerances, as for the nominal one: {refusal}'

    def _to_nominal(self, wanted: _Request, goal: PlanningGoal) -> PlannedMotion:
        planner, q_start, scaling = wanted.planner, wanted.q_start, wanted.scaling
        if wanted.planner_id not in (AUTO, PTP):
            if goal.region is not None:
                return self._cartesian(wanted, goal, goal.region.nominal)
            assert goal.q is not None
            return self._cartesian(wanted, goal, forward(planner.model, goal.q))
        if goal.region is None:
            assert goal.q is not None
            if wanted.planner_id == PTP:
                return planner.ptp(q_start, goal.q, scaling)
            return planner.auto(q_start, [goal.q], scaling, wanted.search_time)
        within = goal.q_low, goal.q_high
        goals = planner.joint_goals(goal.region.nominal, q_start, goal.branch, within)
        return self._to_any(wanted, goal, goals)

    def _others(self, wanted: _Request, goal: PlanningGoal) -> list[Array]:
        """Return joints (6,) [rad] within the tolerances of a goal, free of collision."""
        planner, q_start, branch = wanted.planner, wanted.q_start, goal.branch
        if wanted.planner_id not in (AUTO, PTP):
            branch = self._branch(q_start)
        model, qd, low, high = planner.model, planner.limits.qd, goal.q_low, goal.q_high
        if goal.region is None:
            goals = goals_among(model, qd, joints_within(low, high), q_start, branch)
        else:
            samples = goal.region.samples()
            goals = goals_at(model, qd, samples, q_start, branch, (low, high))
        return first_free(planner.collision, goals)

    def _to_any(
        self, wanted: _Request, goal: PlanningGoal, others: Sequence[Array]
    ) -> PlannedMotion:
        """Return a motion to any of several joints (6,) [rad]; raises the first refusal."""
        planner, q_start = wanted.planner, wanted.q_start
        if wanted.planner_id == AUTO:
            return planner.auto(q_start, others, wanted.scaling, wanted.search_time)
        if wanted.planner_id == PTP:
            return planner.ptp_to_any(q_start, others, wanted.scaling)
        first: PlanningError | None = None
        for q in others[:: -(-len(others) // _MAX_LINES)]:
            try:
                return self._cartesian(wanted, goal, forward(planner.model, q))
            except PlanningError as error:
                first = first or error
        assert first is not None
        raise first

    def _cartesian(self, wanted: _Request, goal: PlanningGoal, T_goal: Array) -> PlannedMotion:
        """
        Return a line of the goal's link, or an arc of the point that the goal is for.

        With a closed-loop method, return the roll-out of that method, in which the TCP moves along
        a line. `T_goal` (4, 4) is where it ends.
        """
        planner, q_start = wanted.planner, wanted.q_start
        branch = self._branch(q_start)
        if goal.branch and goal.branch != branch:
            raise InvalidInput(
                f'a line or arc stays on its branch: the start is on {branch}, the goal requires '
                f'{goal.branch}; change the branch with PTP first'
            )
        if method := _METHODS.get(wanted.planner_id):
            loops = self._settings.loops
            planned = plan_roll_out(planner, method, q_start, T_goal, wanted.scaling, loops)
        else:
            move, T_tool_link = PathSegment(T_goal), self._frames.T_tool_link(goal.link)
            if wanted.planner_id == CIRC:
                arc = wanted.path_constraints
                point = self._goals.arc_point(arc, wanted.arm)
                move = PathSegment(T_goal, arc_point=point, kind=arc.name)
                T_tool_link = self._goals.T_tool_guided(arc, goal)
            planned = planner.chain(q_start, [move], wanted.scaling, T_tool_link=T_tool_link)
        goal.check_end(planned.trajectory.q[-1], self._names, _LOOP_END if method else 0.0)
        return planned


def _fastest(
    plans: Sequence[Callable[[], tuple[PlannedMotion, str]]],
) -> tuple[PlannedMotion, str]:
    """
    Return the fastest of several alternative motions, each with a note, and which it is.

    If none can be planned, raises the first error, with the reasons of the others.
    """
    found: dict[int, tuple[PlannedMotion, str]] = {}
    errors: dict[int, Ur5PickPlaceError] = {}
    for i, plan in enumerate(plans):
        try:
            found[i] = plan()
        except PlanningCanceled:
            raise
        except Ur5PickPlaceError as error:
            errors[i] = error
    reasons = '; '.join(f'goal {i + 1} of {len(plans)}: {e}' for i, e in errors.items())
    if not found:
        if len(plans) > 1:
            errors[0].args = (reasons,)
        raise errors[0]
    best = min(found, key=lambda i: found[i][0].trajectory.duration)
    planned, note = found[best]
    detour = str(planned.detour or '')
    chosen = f'goal {best + 1} of {len(plans)} is the fastest' if len(plans) > 1 else ''
    return planned, '; '.join(filter(None, (detour, chosen, note, reasons)))
