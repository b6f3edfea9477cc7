# SPDX-License-Identifier: Apache-2.0
"""A motion is resumed on the pass of its path on which it was stopped."""

from dataclasses import replace

import numpy as np
import pytest
from motion_planners import FAST, MODEL, make_planner, tool_down

from ur5_pick_place.control.stop_trajectory import brake, resume_on_path
from ur5_pick_place.kinematics import forward, inverse
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.planner import PlannedMotion
from ur5_pick_place.task.motions import PlannedStage, StageTracker

CYCLE = 0.008  # [s]
SAG = 1e-4  # [rad]


@pytest.fixture(scope='module')
def down_up_aside():
    """A blended motion down, up the same way and aside, and the limits."""
    planner = make_planner(replace(FAST, max_speed=1.0))
    q = inverse(MODEL, tool_down(0.45, -0.2, 0.15, 0.0))[0][0]
    up, down, aside = (forward(MODEL, q) for _ in range(3))
    down[2, 3] -= 0.1
    aside[0, 3] -= 0.15
    corners = [PathSegment(down, blend=0.01), PathSegment(up, blend=0.01), PathSegment(aside)]
    return planner.chain(q, corners), planner.limits


def lowest(motion, times):
    return forward(MODEL, motion.sample(times)[0])[:, 2, 3]


def travel(motion, times):
    """How far the joints have turned at each time [rad]."""
    steps = np.linalg.norm(np.diff(motion.sample(times)[0], axis=0), axis=1)
    return np.append(0.0, np.cumsum(steps))


def test_no_part_of_a_path_that_retraces_itself_is_left_out_or_repeated(down_up_aside, rng):
    planned, limits = down_up_aside
    motion = planned.trajectory
    times = np.linspace(0.0, motion.duration, 3000)
    turn = float(times[lowest(motion, times).argmin()])
    for t in np.linspace(0.02, 0.9 * motion.duration, 40):
        stop = brake(motion, t, limits)
        tracker = StageTracker(PlannedStage((), PlannedMotion(motion, planned.report)))
        for now in np.arange(0.0, t, CYCLE):
            tracker.within(motion.sample(now)[0])
        for now in np.arange(0.0, stop.duration, CYCLE):
            tracker.within(stop.sample(now)[0] + SAG * rng.normal(size=6))
        q = stop.q[-1] + SAG * rng.normal(size=6)
        after = np.linspace(t, motion.duration, 4000)
        braked = travel(stop, np.linspace(0.0, stop.duration, 4000))[-1]
        at = float(np.interp(braked, travel(motion, after), after))
        rest = resume_on_path(motion, q, limits, tracker.within(q))
        heights = lowest(rest, np.linspace(0.0, rest.duration, 1000))
        height = lowest(motion, np.array([turn]))[0]
        if at < turn:
            assert heights.min() < height + 1e-3, f'at {at:.3f} s, lowest at {turn:.3f} s'
        elif at > turn + 0.1:
            assert heights.min() > height + 1e-3, f'at {at:.3f} s, lowest at {turn:.3f} s'
        np.testing.assert_allclose(rest.q[0], q, atol=5e-3)
        np.testing.assert_allclose(rest.q[-1], motion.q[-1], atol=1e-12)


def test_without_a_time_the_earliest_of_equal_passes_counts(down_up_aside):
    planned, limits = down_up_aside
    motion = planned.trajectory
    times = np.linspace(0.0, motion.duration, 3000)
    height = lowest(motion, times)
    turn = int(height.argmin())
    after = turn + int((height[turn:] > height[turn] + 0.04).argmax())
    q = motion.sample(times[after])[0]
    rest = resume_on_path(motion, q, limits)
    assert lowest(rest, np.linspace(0.0, rest.duration, 1000)).min() < height[turn] + 1e-3
    late = resume_on_path(motion, q, limits, (times[after] - 0.05, times[after] + 1.0))
    assert lowest(late, np.linspace(0.0, late.duration, 1000)).min() > height[turn] + 0.03


def test_a_fast_motion_is_resumed_from_where_the_arm_stands(rng):
    """What begins beside the arm is a step: 7 mrad of it were 15 rad/s²."""
    planner = make_planner(FAST)
    planned = planner.ptp(np.zeros(6) - 0.5, np.array([-0.5, -0.6, -0.3, -0.5, -0.4, 1.5]))
    motion = planned.trajectory
    for t in rng.uniform(0.1, 0.9, 40) * motion.duration:
        stop = brake(motion, t, planner.limits)
        tracker = StageTracker(PlannedStage((), PlannedMotion(motion, planned.report)))
        for now in np.arange(0.0, t, CYCLE):
            tracker.within(motion.sample(now)[0])
        for now in np.arange(0.0, stop.duration, CYCLE):
            tracker.within(stop.sample(now)[0])
        q = stop.q[-1]
        rest = resume_on_path(motion, q, planner.limits, tracker.within(q))
        np.testing.assert_allclose(rest.q[0], q, atol=1e-4)
