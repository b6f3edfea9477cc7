# SPDX-License-Identifier: Apache-2.0
"""The servos' reference: meets every setpoint, or trails by the stated lag, and never jumps."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline

from ur5_pick_place.sim.physics.servo_lag import LaggedReference

CYCLE, STEPS = 0.008, 8


def smooth_setpoints(n: int) -> np.ndarray:
    """Sample sines of six frequencies [rad] once a cycle, from rest; shape (n, 6)."""
    t = np.arange(1, n + 1)[:, None] * CYCLE
    return 0.3 * (1 - np.cos(t * np.linspace(1.0, 6.0, 6)))


def run(reference: LaggedReference, setpoints: np.ndarray) -> list[np.ndarray]:
    """Feed all setpoints; return q, qd, qdd, each of shape (cycles * STEPS, 6)."""
    cycles = [reference.advance(u) for u in setpoints]
    return [np.concatenate(parts) for parts in zip(*cycles, strict=True)]


def test_without_lag_the_reference_meets_every_setpoint() -> None:
    setpoints = smooth_setpoints(100)
    q, _, _ = run(LaggedReference(0.0, CYCLE, STEPS), setpoints)
    np.testing.assert_allclose(q[STEPS::STEPS], setpoints[:-1], atol=1e-12)


def test_velocity_and_acceleration_are_those_of_the_motion_behind_the_setpoints() -> None:
    """Third-order smoothness between samples: h^2 and h times the largest jerk, 65 rad/s^3."""
    _, qd, qdd = run(LaggedReference(0.0, CYCLE, STEPS), smooth_setpoints(100))
    t = np.arange(100 * STEPS)[:, None] * CYCLE / STEPS
    w = np.linspace(1.0, 6.0, 6)
    settled = slice(3 * STEPS, None)
    np.testing.assert_allclose(qd[settled], (0.3 * w * np.sin(w * t))[settled], atol=0.004)
    np.testing.assert_allclose(qdd[settled], (0.3 * w**2 * np.cos(w * t))[settled], atol=1.5)


def test_the_lag_is_the_low_pass_it_claims_to_be(rng: np.random.Generator) -> None:
    """The exact steps agree with numerical integration of x'' = w^2 (u - x) - 2 w x'."""
    lag, setpoints = 0.03, 0.1 * rng.standard_normal((12, 6)).cumsum(axis=0)
    q, qd, _ = run(LaggedReference(lag, CYCLE, STEPS), setpoints)

    known = np.concatenate([np.zeros((2, 6)), setpoints])
    slopes = (3 * known[2:] - 4 * known[1:-1] + known[:-2]) / (2 * CYCLE)
    t = np.arange(13) * CYCLE
    u = CubicHermiteSpline(t, known[1:], np.concatenate([np.zeros((1, 6)), slopes]))
    w = 2 / lag

    def low_pass(time: float, state: np.ndarray) -> np.ndarray:
        x, v = state[:6], state[6:]
        return np.concatenate([v, w**2 * (u(time) - x) - 2 * w * v])

    at = np.arange(12 * STEPS) * CYCLE / STEPS
    solution = solve_ivp(
        low_pass, (0, t[-1]), np.zeros(12), t_eval=at, rtol=1e-9, atol=1e-11, max_step=0.002
    )
    np.testing.assert_allclose(q, solution.y[:6].T, atol=1e-7)
    np.testing.assert_allclose(qd, solution.y[6:].T, atol=1e-5)


def test_it_starts_where_it_is_told_to_and_forgets_the_past(rng: np.random.Generator) -> None:
    reference = LaggedReference(0.03, CYCLE, STEPS)
    run(reference, rng.standard_normal((5, 6)))
    here = rng.standard_normal(6)
    reference.start_at(here, np.zeros(6))
    q, qd, qdd = run(reference, np.tile(here, (5, 1)))
    np.testing.assert_allclose(q, np.tile(here, (5 * STEPS, 1)), atol=1e-12)
    np.testing.assert_allclose(qd, 0.0, atol=1e-10)
    np.testing.assert_allclose(qdd, 0.0, atol=1e-8)


@pytest.mark.parametrize('lag', [0.0, 0.03])
def test_it_takes_over_a_moving_arm_without_a_jolt(lag: float) -> None:
    """The first reference is the arm's own position and velocity."""
    reference = LaggedReference(lag, CYCLE, STEPS)
    here, speed = np.linspace(-1.0, 1.0, 6), np.linspace(0.1, 0.6, 6)
    reference.start_at(here, speed)
    q, qd, _ = run(reference, np.tile(here, (100, 1)))
    np.testing.assert_allclose(q[0], here, atol=1e-12)
    np.testing.assert_allclose(qd[0], speed, atol=1e-12)
    np.testing.assert_allclose(q[-1], here, atol=1e-9)
