# SPDX-License-Identifier: Apache-2.0
"""A closed loop run on an ideal arm: the plan of what it will do, for the gate and for people."""

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.control.line_follower import Steering, make_law
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.progress import Progress, stall_reason
from ur5_pick_place.control.reference import (
    CYCLE,
    State,
    gentle_limits,
    shortest_change,
    trajectory_of,
)
from ur5_pick_place.errors import IncompletePath
from ur5_pick_place.kinematics import BRANCHES, Model, classify
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.trajectory import Trajectory

Array = NDArray[np.float64]

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
    limits, progress = gentle_limits(limits), Progress(settings.loop_patience)
    law = make_law(method, model, settings)
    steering = Steering(law, model, limits, p_tool_tcp, q_start, T_goal, settings)
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
