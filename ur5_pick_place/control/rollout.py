# SPDX-License-Identifier: Apache-2.0
"""Closed loops planned on an ideal arm: their gated roll-outs, and the loop that runs one."""

import numpy as np

from ur5_pick_place.control.closed_loop import ClosedLoop
from ur5_pick_place.control.line_follower import LineFollower, make_law
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.progress import ProgressMonitor, stall_reason
from ur5_pick_place.control.reference import (
    State,
    gentle_limits,
    limits_used,
    shortest_change,
    trajectory_of,
)
from ur5_pick_place.errors import GateRefusal, IncompletePath
from ur5_pick_place.kinematics import BRANCHES, Model, classify, forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion, Scaling
from ur5_pick_place.planning.trajectory import Trajectory

_LONGEST = 120.0  # [s]; a roll-out takes a hundredth of the time that the motion does


def roll_out(
    method: str,
    model: Model,
    limits: Limits,
    p_tool_tcp: Array,
    q_start: Array,
    T_goal: Array,
    settings: LoopSettings,
) -> Trajectory:
    """
    Return what a closed loop does on an arm that is where its reference is.

    Parameters
    ----------
    method : str
        One of `steering.METHODS`.
    model : Model
    limits : Limits
        The motion keeps a little distance from them, for its stopping ramp.
    p_tool_tcp : ndarray, shape (3,)
        The TCP in tool0 [m].
    q_start : ndarray, shape (6,)
        [rad]
    T_goal : ndarray, shape (4, 4)
        T_base_tool.
    settings : LoopSettings

    Raises
    ------
    IncompletePath
        The law does not lead to the goal; names how far it gets and what is in the way.

    """
    limits, progress = gentle_limits(limits), ProgressMonitor(settings.loop_patience)
    law = make_law(method, model, settings)
    steering = LineFollower(law, model, limits, p_tool_tcp, q_start, T_goal, settings)
    if obstacle := steering.obstacle(q_start):
        raise IncompletePath(f'{method} refused: {obstacle}', 0.0)
    states = [State(q_start, np.zeros(6), np.zeros(6))]
    until, wish = 0.0, np.zeros(6)
    while not (states[-1].is_still and steering.is_there(states[-1].q)):
        time = CYCLE * len(states)
        reason = ''
        if time > _LONGEST:
            reason = (
                f'this is as far as it gets within {_LONGEST:.0f} s, the longest that a closed '
                'loop may take; ask for more speed, go in parts or use another method'
            )
        elif steering.is_astray or progress.is_stalled(time, steering.remaining):
            reason = stall_reason(model, states[-1].q)
        if reason:
            raise steering.incomplete(reason)
        if time >= until:
            wish, until = steering.wish(states[-1].q), time + settings.loop_hold
        states.append(shortest_change(states[-1], wish, limits).at(1))
    rollout = trajectory_of(states, range(len(states)))
    _check_branch(method, model, rollout.q)
    return rollout


def _check_branch(method: str, model: Model, q: Array) -> None:
    """Refuse a path (n, 6) that crosses a singularity, be it ever so slowly."""
    branches = classify(model, q)
    others = np.flatnonzero(branches != branches[0])
    if others.size:
        first = int(others[0])
        raise IncompletePath(
            f'{method} would pass from branch {BRANCHES[branches[0]]} to '
            f'{BRANCHES[branches[first]]}: {stall_reason(model, q[first])}',
            first / len(q),
        )



_LOOK_EVERY = 0.1  # of the lead; with longer steps the goal that runs ahead does not keep up
_ALONG = 0.5  # cosine at least between the way taken and the way wished, in joint space


def plan_roll_out(
    planner: MotionPlanner,
    method: str,
    q_start: Array,
    T_goal: Array,
    scaling: Scaling,
    settings: LoopSettings,
) -> PlannedMotion:
    """
    Plan a closed loop from joints (6,) [rad] to T_base_tool (4, 4): its roll-out, gated.

    Raises
    ------
    IncompletePath
        The law does not lead to the goal; names how far it gets and what is in the way.
    PlanningError
        The gate refuses what the loop would do.

    """
    rollout = roll_out(
        method,
        planner.model,
        planner.limits_at(scaling),
        planner.scene.tool.p_tool_tcp,
        q_start,
        T_goal,
        settings,
    )
    return PlannedMotion(rollout, planner.check(rollout, q_start))


def loop_of(
    planner: MotionPlanner, method: str, rollout: Trajectory, settings: LoopSettings
) -> ClosedLoop:
    """
    Return the closed loop whose roll-out this is, as fast as it and no faster.

    Raises
    ------
    InvalidInput
        The method is unknown.
    GateRefusal
        The gate refuses the roll-out, or it is another motion than the method would make.

    """
    report = planner.check(rollout, rollout.q[0])
    limits = limits_used(report, planner.limits)
    path = rollout.sample(np.arange(0.0, rollout.duration + CYCLE, CYCLE))[0]
    _check_own(planner, method, path, limits, settings)
    return ClosedLoop(
        method,
        planner.model,
        limits,
        planner.scene.tool.p_tool_tcp,
        path,
        settings,
        planner.obstacle,
    )


def _check_own(
    planner: MotionPlanner, method: str, path: Array, limits: Limits, settings: LoopSettings
) -> None:
    """
    Refuse a path (n, 6) that the method would not take, asked for its way every few millimetres.

    To roll it out once more would keep the interpreter for seconds, and the arm's joints unheard.

    """
    model, law = planner.model, make_law(method, planner.model, settings)
    T = forward(model, path)
    steering = LineFollower(
        law, model, limits, planner.scene.tool.p_tool_tcp, path[0], T[-1], settings
    )
    i = 0
    while i < len(path) - 1 and not steering.is_there(path[i]):
        j = i + 1
        while j < len(path) - 1 and steering.apart(T[i], T[j]) < steering.lead * _LOOK_EVERY:
            j += 1
        way, wish = path[j] - path[i], steering.wish(path[i])
        along = way @ wish >= _ALONG * np.linalg.norm(way) * np.linalg.norm(wish)
        if steering.is_astray or not along:
            raise GateRefusal(
                f'this is no roll-out of {method}: at {i * CYCLE:.2f} s it would go another way; '
                'plan it with the planner_id of the method',
                'method',
            )
        i = j
