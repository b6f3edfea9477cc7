# SPDX-License-Identifier: Apache-2.0
"""Waypoints are joined as the driver joins them; SciPy's interpolators are the other opinion."""

import numpy as np
import pytest
from scipy.interpolate import BPoly

from ur5_pick_place.sim.controllers.spline import Knot, Spline

TIMES = (0.5, 1.25, 2.0)


def spline_through(rng, derivatives, entry_time=0.0):
    """Make a random spline, and for every joint the rows of what each end of a segment knows."""
    rows = rng.uniform(-2, 2, (4, 3, 6))  # entry and three waypoints; q, qd, qdd; joints
    rows[0, 2] = 0.0  # the acceleration at entry is not measured
    knots = [Knot(*(row[k] if k <= derivatives else None for k in range(3))) for row in rows[1:]]
    return Spline(TIMES, knots, entry_time, Knot(rows[0, 0], rows[0, 1])), rows


@pytest.mark.parametrize('derivatives', [0, 1, 2])
def test_the_degree_follows_what_both_ends_carry(rng, derivatives):
    spline, rows = spline_through(rng, derivatives)
    known = rows[:, : derivatives + 1]
    for joint in range(6):
        poly = BPoly.from_derivatives((0.0, *TIMES), known[:, :, joint])
        for t in np.linspace(0.0, 1.999, 41):
            s = spline.sample(t)
            assert s.q[joint] == pytest.approx(poly(t), abs=1e-9)
            assert s.qd[joint] == pytest.approx(poly.derivative(1)(t), abs=1e-8)
            if derivatives:
                assert s.qdd[joint] == pytest.approx(poly.derivative(2)(t), abs=1e-7)


def test_one_end_without_velocities_makes_a_straight_line(rng):
    a, b = rng.uniform(-1, 1, (2, 6))
    moving = Knot(a, np.ones(6), np.ones(6))
    spline = Spline((0.0, 2.0), (moving, Knot(b)), 0.0, Knot(a, np.zeros(6)))
    assert spline.sample(0.5).q == pytest.approx(a + (b - a) / 4)
    assert spline.sample(0.5).qd == pytest.approx((b - a) / 2)


def test_accelerations_without_velocities_ask_for_zero_as_the_driver_does(rng):
    q = rng.uniform(-1, 1, 6)
    spline = Spline((1.0,), (Knot(q, None, np.zeros(6)),), 0.0, Knot(q, np.zeros(6)))
    assert not spline.sample(0.5).q.any()
    assert spline.sample(1.0).q == pytest.approx(q)


def test_the_last_waypoint_is_held_and_the_index_tells_which_comes_next(rng):
    spline, rows = spline_through(rng, 2)
    assert [spline.sample(t).index for t in (0.0, 0.49, 0.5, 1.3, 2.0, 9.0)] == [0, 0, 1, 2, 3, 3]
    assert spline.sample(9.0).q == pytest.approx(rows[3, 0])


def test_a_start_in_the_future_is_approached_from_now(rng):
    spline, rows = spline_through(rng, 0, entry_time=-0.5)
    assert spline.sample(-0.5).q == pytest.approx(rows[0, 0])
    assert spline.sample(0.0).q == pytest.approx((rows[0, 0] + rows[1, 0]) / 2)


def test_a_start_in_the_past_joins_midway(rng):
    spline, rows = spline_through(rng, 0, entry_time=0.875)
    assert spline.sample(0.875).q == pytest.approx((rows[1, 0] + rows[2, 0]) / 2)
