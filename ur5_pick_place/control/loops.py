# SPDX-License-Identifier: Apache-2.0
"""Closed loops for one planner: their gated roll-outs, and the loop that runs one of these."""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.control.closed_loop import ClosedLoop
from ur5_pick_place.control.corridor import Corridor
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.reference import CYCLE, limits_used
from ur5_pick_place.control.rollout import roll_out
from ur5_pick_place.errors import GateRefusal, IncompletePath
from ur5_pick_place.kinematics import forward
from ur5_pick_place.planning.planner import MotionPlanner, Pace, PlannedMotion
from ur5_pick_place.planning.trajectory import Trajectory

Array = NDArray[np.float64]


def plan_roll_out(
    planner: MotionPlanner,
    method: str,
    q_start: Array,
    T_goal: Array,
    pace: Pace,
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
        planner.limits_at(pace),
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
    p_tool_tcp = planner.scene.tool.p_tool_tcp
    path = rollout.sample(np.arange(0.0, rollout.duration + CYCLE, CYCLE))[0]
    T_goal = forward(planner.model, path[-1])
    try:
        own = roll_out(method, planner.model, limits, p_tool_tcp, path[0], T_goal, settings)
    except IncompletePath as error:
        raise GateRefusal(f'not a roll-out: {error}', 'method') from error
    _check_same(method, own.q, path, settings.loop_corridor / 2.0)
    return ClosedLoop(method, planner.model, limits, p_tool_tcp, path, settings, planner.obstacle)


def _check_same(method: str, own: Array, path: Array, tolerance: float) -> None:
    for reference, joints in ((own, path), (path, own)):
        corridor = Corridor(reference)
        away = max(float(corridor.away(q).max()) for q in joints)
        if away > tolerance:
            raise GateRefusal(
                f'this is no roll-out of {method}: they are up to {away:.3f} rad apart (allowed '
                f'{tolerance:.3f} rad); plan it with the planner_id of the method',
                'method',
            )
