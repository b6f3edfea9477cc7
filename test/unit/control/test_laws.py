# SPDX-License-Identifier: Apache-2.0
"""One step of each control law, and changes of velocity, beside other derivations."""

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

from ur5_pick_place.control.loops.laws import DAMPED_BELOW, Gradient, ResolvedRate
from ur5_pick_place.control.loops.reference import Change, State, shortest_change
from ur5_pick_place.kinematics import forward, jacobian, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import body_error, inverse_transform, log_se3
from ur5_pick_place.planning.limits import MotionSettings, motion_limits

UR5 = load_model('ur5')
LENGTH = 0.3


def test_resolved_rate_solves_the_jacobian_where_it_is_not_damped(rng):
    weight = np.array([1.0, 1.0, 1.0, LENGTH, LENGTH, LENGTH])
    for q in rng.uniform(-np.pi, np.pi, (50, 6)):
        T_goal = forward(UR5, q + rng.normal(0.0, 0.2, 6))
        J = jacobian(UR5, q)
        if np.linalg.svd(weight[:, None] * J)[1][-1] > DAMPED_BELOW:
            twist = log_se3(inverse_transform(T_goal) @ forward(UR5, q))
            expected = -2.0 * np.linalg.solve(J, twist)
            qd = ResolvedRate(UR5, 2.0, LENGTH).rate(q, T_goal)
            np.testing.assert_allclose(qd, expected, rtol=1e-7, atol=1e-9)


def test_a_step_down_the_gradient_is_that_of_finite_differences(rng):
    law = Gradient(UR5, 1.0, LENGTH)
    W = np.diag([1.0, 1.0, 1.0, LENGTH**2, LENGTH**2, LENGTH**2])
    for _ in range(20):
        q = rng.uniform(-2.0, 2.0, 6)
        T_goal = forward(UR5, q + rng.normal(0.0, 0.02, 6))

        def value(q, T_goal=T_goal):
            e = body_error(forward(UR5, q), T_goal)
            return e @ W @ e / 2.0

        h = 1e-6 * np.eye(6)
        gradient = np.array([(value(q + d) - value(q - d)) / 2e-6 for d in h])
        step = law.step(q, T_goal)
        cosine = -step @ gradient / np.linalg.norm(step) / np.linalg.norm(gradient)
        assert cosine == pytest.approx(1.0, abs=1e-5)
        assert value(q + step) <= value(q) - np.linalg.norm(step) * np.linalg.norm(gradient) / 4.5


@pytest.mark.parametrize('at', [0, 3, 10, 13])
def test_a_change_of_velocity_is_the_cubic_that_meets_both_ends(at, rng):
    q, qd, qdd, velocity = rng.normal(size=(4, 6))
    end = 10 * CYCLE
    cubic = CubicHermiteSpline([0.0, end], [qd, velocity], [qdd, np.zeros(6)])
    t = min(at * CYCLE, end)
    travelled = cubic.antiderivative()(t) + (at * CYCLE - t) * velocity
    expected = np.array([q + travelled, cubic(t), cubic(t, 1)])
    state = Change(State(q, qd, qdd), velocity, 10).at(at).motion
    np.testing.assert_allclose(state, expected, rtol=1e-12, atol=1e-11)


def test_a_change_takes_the_fewest_cycles_that_keep_the_limits(rng):
    limits = motion_limits(UR5, MotionSettings(max_acceleration=10.0, max_jerk=100.0))

    def keeps_limits(start, velocity, cycles):
        end = cycles * CYCLE
        cubic = CubicHermiteSpline(
            [0.0, end], [start.qd, velocity], [start.qdd, np.zeros(6)]
        )
        t = np.linspace(0.0, end, 2001)
        return (
            np.abs(cubic(t, 1)).max() <= 10.0 * 1.001 + 1e-6
            and np.abs(cubic(t[[0, -1]], 2)).max() <= 100.0 * 1.001 + 1e-6
        )

    for _ in range(60):
        qd, velocity = rng.uniform(-1.0, 1.0, (2, 6))
        start = State(np.zeros(6), qd, rng.uniform(-1.0, 1.0, 6))
        cycles = shortest_change(start, velocity, limits).cycles
        assert keeps_limits(start, velocity, cycles)
        assert cycles == 1 or not keeps_limits(start, velocity, cycles - 1)
