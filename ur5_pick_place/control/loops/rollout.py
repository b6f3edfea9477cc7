# SPDX-License-Identifier: Apache-2.0
"""Closed loops simulated on an ideal arm: gated roll-outs, and the loop that follows one."""

import numpy as np

from ur5_pick_place.control.loops.closed_loop import ClosedLoop
from ur5_pick_place.control.loops.line_follower import LineFollower
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.progress import ProgressMonitor, stall_reason
from ur5_pick_place.control.loops.reference import (
    at_rest,
    gentle_limits,
    is_still,
    limits_used,
    shortest_change,
    trajectory_of,
)
from ur5_pick_place.errors import GateRefusal, IncompletePath
from ur5_pick_place.kinematics import BRANCHES, Model, classify, forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.gate import GateReport
from ur5_pick_place.planning.limits import Limits, Scaling
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion

_LONGEST = 120.0  # [s]; computing a roll-out takes about 1 % of the duration of the motion
_CHECK_EVERY = 0.1  # of the lookahead; with longer steps the law's goal does not keep up
_LONGEST_STEP = 0.005  # [m] between checks, where the lookahead is as long as the line
_SETTLES = 0.01  # [m] from the goal; there a roll-out may turn back after a slight overshoot
_LEAST_COSINE = 0.5  # between the step of the path and the desired velocity, in joint space


def roll_out(
    planner: MotionPlanner,
    method: str,
    limits: Limits,
    q_start: Array,
    T_goal: Array,
    settings: LoopSettings,
) -> Trajectory:
    """
    Return the motion of a closed loop on an ideal arm, which follows its reference exactly.

    `limits`: the motion keeps a margin to them, which its stopping ramp needs. The others are as
    for `LineFollower`.

    Raises `IncompletePath`: the law does not reach the goal; names how far it gets and the cause.
    """
    limits, progress = gentle_limits(limits), ProgressMonitor(settings.loop_patience)
    follower = LineFollower(planner, method, limits, q_start, T_goal, settings)
    if reason := follower.why_unreachable(q_start):
        raise IncompletePath(f'{method} refused: {reason}', 0.0)
    states = [at_rest(q_start)]
    until, desired_velocity = 0.0, np.zeros(6)
    while not (is_still(states[-1]) and follower.is_at_goal(states[-1][0])):
        checkpoint()
        time = CYCLE * len(states)
        reason = ''
        if time > _LONGEST:
            reason = (
                f'this is as far as it gets within {_LONGEST:.0f} s, the limit for a closed loop; '
                'use a higher speed, split the motion or use another method'
            )
        elif follower.is_off_line or progress.is_stalled(time, follower.remaining):
            reason = stall_reason(planner.model, states[-1][0])
        if reason:
            raise follower.incomplete(reason)
        if time >= until:
            desired_velocity = follower.desired_velocity(states[-1][0])
            until = time + settings.loop_hold
        states.append(shortest_change(states[-1], desired_velocity, limits).at(1))
    rollout = trajectory_of(states, range(len(states)))
    _check_branch(method, planner.model, rollout.q)
    return rollout


def _check_branch(method: str, model: Model, q: Array) -> None:
    """Refuse a path (n, 6) that crosses a singularity, at any speed."""
    branches = classify(model, q)
    others = np.flatnonzero(branches != branches[0])
    if others.size:
        first = int(others[0])
        raise IncompletePath(
            f'{method} would pass from branch {BRANCHES[branches[0]]} to '
            f'{BRANCHES[branches[first]]}: {stall_reason(model, q[first])}',
            first / len(q),
        )


def plan_roll_out(
    planner: MotionPlanner,
    method: str,
    q_start: Array,
    T_goal: Array,
    scaling: Scaling,
    settings: LoopSettings,
) -> PlannedMotion:
    """
    Return the gated roll-out of a closed loop from joints (6,) [rad] to T_base_tool (4, 4).

    Raises `IncompletePath`: the law does not reach the goal, or collides; names how far it gets
    and the cause. `PlanningError`: the gate refuses the roll-out for another reason.
    """
    limits = planner.limits_at(scaling)
    rollout = roll_out(planner, method, limits, q_start, T_goal, settings)
    return planner.admit_path(rollout, q_start)


def loop_of(
    planner: MotionPlanner,
    method: str,
    rollout: Trajectory,
    settings: LoopSettings,
    report: GateReport,
) -> ClosedLoop:
    """
    Return the closed loop of a roll-out, no faster than the gate has measured on it.

    Raises `InvalidInput`: the method is unknown. `GateRefusal`: the method would move differently.
    """
    limits = limits_used(report, planner.limits)
    path = rollout.sample(np.arange(0.0, rollout.duration + CYCLE, CYCLE))[0]
    _check_own(planner, method, path, limits, settings)
    return ClosedLoop(planner, method, limits, path, settings)


def _check_own(
    planner: MotionPlanner, method: str, path: Array, limits: Limits, settings: LoopSettings
) -> None:
    """
    Refuse a path (n, 6) that deviates from the method's own, compared every few millimetres.

    A second roll-out would hold the interpreter for seconds, in which no joint_states are read.
    """
    T_tool = forward(planner.model, path)
    T_tcp = T_tool @ planner.scene.tool.T_tool_tcp
    follower = LineFollower(planner, method, limits, path[0], T_tool[-1], settings)
    i = 0
    while i < len(path) - 1 and not follower.is_at_goal(path[i]):
        j = i + 1
        step = min(_CHECK_EVERY * follower.lookahead, _LONGEST_STEP)
        while j < len(path) - 1 and follower.distance(T_tcp[i], T_tcp[j]) < step:
            j += 1
        dq, qd = path[j] - path[i], follower.desired_velocity(path[i])
        is_along = dq @ qd >= _LEAST_COSINE * np.linalg.norm(dq) * np.linalg.norm(qd)
        settles = follower.distance(T_tcp[i], T_tcp[-1]) < _SETTLES
        if follower.is_off_line or not (is_along or settles):
            raise GateRefusal(
                f'this is no roll-out of {method}: at {i * CYCLE:.2f} s the method '
                'moves in another direction; plan it with the planner_id of the method',
                'method',
            )
        i = j
