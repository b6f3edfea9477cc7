# SPDX-License-Identifier: Apache-2.0
"""Trajectories are read as the controller reads them, and malformed ones are refused."""

import numpy as np
import pytest
from scipy.interpolate import BPoly

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory


def random_trajectory(rng, n=6):
    t = np.concatenate([[0.0], np.cumsum(rng.uniform(0.05, 0.4, n - 1))])
    return Trajectory(t, *rng.normal(size=(3, n, 6)))


def test_between_points_lies_the_quintic_that_meets_both_ends(rng):
    trajectory = random_trajectory(rng)
    ends = np.stack([trajectory.q, trajectory.qd, trajectory.qdd], axis=1)  # (n, 3, 6)
    oracle = BPoly.from_derivatives(trajectory.t, ends)
    t = rng.uniform(0.0, trajectory.duration, 200)
    for order, values in enumerate(trajectory.sample(t)):
        expected = oracle(t, nu=order)
        np.testing.assert_allclose(values, expected, atol=1e-9 * np.abs(expected).max())


def test_every_point_is_met_exactly(rng):
    trajectory = random_trajectory(rng)
    q, qd, qdd, _ = trajectory.sample(trajectory.t)
    for actual, given in ((q, trajectory.q), (qd, trajectory.qd), (qdd, trajectory.qdd)):
        np.testing.assert_allclose(actual, given, atol=1e-8)


def test_outside_its_time_a_trajectory_stays_at_its_ends(rng):
    trajectory = random_trajectory(rng)
    q = trajectory.sample(np.array([-1.0, trajectory.duration + 1.0]))[0]
    np.testing.assert_allclose(q, trajectory.q[[0, -1]], atol=1e-12)


def test_dense_times_hold_every_point_and_keep_the_step(rng):
    trajectory = random_trajectory(rng)
    t = trajectory.dense_times(0.01)
    assert np.diff(t).max() <= 0.01 + 1e-12
    assert np.abs(t[:, None] - trajectory.t).min(axis=0).max() < 1e-12


def test_no_jerk_in_a_segment_is_larger_than_its_peak(rng):
    trajectory = random_trajectory(rng, 200)
    points = np.stack([trajectory.q, trajectory.qd, trajectory.qdd], axis=1)
    times, peaks = trajectory.jerk_peaks()
    for k in range(199):
        t = trajectory.t[k : k + 2]
        jerk = BPoly.from_derivatives(t, points[k : k + 2]).derivative(3)
        sampled = np.abs(jerk(np.linspace(*t, 1001))).max(axis=0)
        assert (sampled <= peaks[k] * (1.0 + 1e-9)).all()
        np.testing.assert_allclose(sampled, peaks[k], rtol=1e-4)
        at_peak = [abs(jerk(times[k, j])[j]) for j in range(6)]
        np.testing.assert_allclose(at_peak, peaks[k], rtol=1e-9)


def test_a_single_point_is_a_trajectory_at_rest():
    still = hold_trajectory(np.arange(6.0))
    q, qd, _, _ = still.sample([0.0, 3.0])
    np.testing.assert_array_equal(still.dense_times(0.01), [0.0])
    np.testing.assert_array_equal(q, [np.arange(6.0)] * 2)
    assert not qd.any() and not np.any(still.jerk_peaks())


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'t': [0.0, 0.0]}, 'point 0 at 0.0 s, point 1 at 0.0 s'),
        ({'t': [0.1, 0.2]}, 'must start at 0'),
        ({'q': np.zeros((2, 5))}, r'shape \(2, 5\)'),
        ({'qd': np.full((2, 6), np.inf)}, r'qd\[0, 0\] = inf'),
        ({'q': np.full((2, 6), np.nan)}, r'q\[0, 0\] = nan'),
        ({'t': []}, 'must be'),
    ],
)
def test_malformed_trajectories_are_refused(change, message):
    good = {
        't': [0.0, 1.0],
        'q': np.zeros((2, 6)),
        'qd': np.zeros((2, 6)),
        'qdd': np.zeros((2, 6)),
    }
    with pytest.raises(InvalidInput, match=message):
        Trajectory(**{**good, **change})


def test_the_time_of_joints_is_found_up_to_the_time_that_is_reported(rng):
    """Exactly reported, or as the time of the next point, as controllers of Humble do."""
    q = np.cumsum(rng.uniform(0.05, 0.2, (8, 6)), axis=0)
    t = np.cumsum(np.r_[0.0, rng.uniform(0.02, 0.5, 7)])
    qd = np.gradient(q, t, axis=0)
    trajectory = Trajectory(t, q, qd, np.zeros((8, 6)))
    for at in rng.uniform(0.0, trajectory.duration, 100):
        there, following = trajectory.sample(at)[0], t[np.searchsorted(t, at)]
        assert trajectory.time_near(at, there) == pytest.approx(at, abs=1e-12)
        found = trajectory.sample(trajectory.time_near(following, there))[0]
        np.testing.assert_allclose(found, there, atol=2e-4)


def test_a_time_before_the_start_or_after_the_end_is_what_is_reported(rng):
    trajectory = random_trajectory(rng)
    for t in (-0.45, 0.0, trajectory.duration + 0.3):
        there = trajectory.sample(t)[0]
        assert trajectory.time_near(t, there) == t


def test_the_time_at_rest_is_any():
    assert hold_trajectory(np.zeros(6)).time_near(0.2, np.zeros(6)) == 0.2
