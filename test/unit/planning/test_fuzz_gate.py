# SPDX-License-Identifier: Apache-2.0
"""
Trajectories spoilt at random: what the gate admits keeps the limits, all else is refused.

What is admitted is judged by an interpolation of our own. UR5_FUZZ=50000 asks for more.
"""

from typing import Any

import numpy as np
import pytest
from fuzzing import NUMBERS, fuzzed
from hypothesis import given
from hypothesis import strategies as st
from motion_planners import PICK, tool_down
from motion_planners import planner as planner
from numpy.typing import NDArray
from scipy.interpolate import BPoly

from ur5_pick_place.errors import GateRefusal, InvalidInput, Ur5PickPlaceError
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.planning.paths.trajectory import MAX_DURATION, Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

Array = NDArray[np.float64]
CHECKS = ('rest', 'start', 'position', 'velocity', 'acceleration', 'jerk', 'speed', 'collision')
END = tool_down(0.45, -0.1, 0.35, 0.2)
GOAL = PICK + [0.1, -0.05, 0.05, 0.0, 0.1, 0.3]


@pytest.fixture(scope='module')
def motion(planner: MotionPlanner) -> Trajectory:
    """Give a short motion that is all right."""
    return planner.ptp(PICK, GOAL).trajectory


def check_limits(admitted: Trajectory, planner: MotionPlanner) -> None:
    assert np.abs(admitted.q[0] - PICK).max() <= planner.settings.start_tolerance
    limits = planner.limits
    if admitted.t.size == 1:
        q, rates = admitted.q, (np.zeros((1, 6)),) * 2
    else:
        points = np.stack([admitted.q, admitted.qd, admitted.qdd], axis=1)
        quintics = BPoly.from_derivatives(admitted.t, points)
        t = np.linspace(0.0, admitted.duration, 2000)
        q, *rates = (quintics(t, nu=k) for k in range(3))
    assert ((q >= limits.q_min) & (q <= limits.q_max)).all()
    for rate, bound in zip(rates, (limits.qd, limits.qdd), strict=True):
        assert (np.abs(rate) <= 1.01 * bound).all()


def spoil(arrays: list[Array], draw: st.DrawFn) -> None:
    """Change some numbers of times, positions, velocities or accelerations."""
    k = draw(st.integers(0, 3))
    flat = arrays[k].reshape(-1)
    i = draw(st.integers(0, flat.size - 1))
    match draw(st.sampled_from(['set', 'scale', 'all', 'short'])):
        case 'set':
            flat[i] = draw(NUMBERS)
        case 'scale':
            with np.errstate(over='ignore', invalid='ignore'):
                flat *= draw(NUMBERS)
        case 'all':
            flat[:] = draw(NUMBERS)
        case 'short':
            arrays[k] = arrays[k][: draw(st.integers(0, len(arrays[k])))]


@st.composite
def handmade(draw: st.DrawFn) -> list[Array]:
    """Give a few points, each near the arm or anywhere."""
    n = draw(st.integers(1, 4))
    steps = draw(st.lists(st.floats(1e-9, 500.0) | NUMBERS, min_size=n, max_size=n))
    row = st.lists(st.floats(-0.2, 0.2) | NUMBERS, min_size=6, max_size=6)
    q, qd, qdd = (np.array([draw(row) for _ in range(n)]) for _ in range(3))
    if draw(st.booleans()):
        qd[[0, -1]] = 0.0
    q[0] = 0.0
    with np.errstate(over='ignore', invalid='ignore'):
        return [np.cumsum([0.0, *steps[1:]]), PICK + q, qd, qdd]


@fuzzed(0.16)
@given(data=st.data())
def test_what_the_gate_admits_keeps_every_limit(planner, motion, data):
    if data.draw(st.booleans()):
        arrays = data.draw(handmade())
    else:
        arrays = [a.copy() for a in (motion.t, motion.q, motion.qd, motion.qdd)]
        for _ in range(data.draw(st.integers(1, 3))):
            if arrays[0].size and all(a.size for a in arrays):
                spoil(arrays, data.draw)
    try:
        trajectory = Trajectory(*arrays)
        planner.check(trajectory, PICK)
    except GateRefusal as refusal:
        assert refusal.check in CHECKS
    except InvalidInput as refusal:
        assert 'trajectory' in str(refusal) or 'motion takes' in str(refusal)
    else:
        check_limits(trajectory, planner)


def test_a_motion_that_is_all_right_is_admitted(planner, motion):
    planner.check(motion, PICK)
    check_limits(motion, planner)


@pytest.mark.parametrize('k', [2, 3])
def test_points_between_which_the_motion_overflows_are_refused(planner, motion, k):
    arrays: list[Any] = [motion.t, motion.q, motion.qd.copy(), motion.qdd.copy()]
    arrays[k][len(motion.t) // 2] = 1.7e308
    with pytest.raises(GateRefusal):
        planner.check(Trajectory(*arrays), PICK)


def test_a_motion_that_takes_for_ever_is_refused(motion):
    t = motion.t * (1.001 * MAX_DURATION / motion.duration)
    with pytest.raises(InvalidInput, match='must be at most 400 s; raise the speed'):
        Trajectory(t, motion.q, motion.qd, motion.qdd)


@fuzzed(0.03)
@given(
    velocity=st.floats(0.0, 1.0) | NUMBERS,
    acceleration=st.floats(0.0, 1.0) | NUMBERS,
    speed=st.floats(0.0, 0.5) | NUMBERS,
    line=st.booleans(),
)
def test_every_pace_gives_a_motion_or_a_refusal(planner, velocity, acceleration, speed, line):
    try:
        pace = Scaling(velocity, acceleration, speed)
        planned = planner.lin(PICK, [END], pace) if line else planner.ptp(PICK, GOAL, pace)
    except Ur5PickPlaceError as refusal:
        assert any(word in str(refusal) for word in ('scaling', 'speed'))
    else:
        check_limits(planned.trajectory, planner)
