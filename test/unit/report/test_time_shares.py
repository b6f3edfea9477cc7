# SPDX-License-Identifier: Apache-2.0
"""Where the time of a cycle goes, on a recording made by hand."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from ur5_pick_place.kinematics import HOME, load_model
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.report.motion import RecordedJoints, Samples
from ur5_pick_place.report.time_shares import FLOOR, SHARES, shares_lines, time_shares

MODEL = load_model('ur5')
V, A, J = 1.0, 2.0, 20.0
LIMITS = replace(
    motion_limits(MODEL, MotionSettings(max_velocity=V, max_acceleration=A, max_jerk=J)),
    speed=10.0,  # binds nowhere
)
STEP = 0.008  # [s]
SWING = 0.9  # [rad] of the base: from home to grip, then twice that back, then home
FREE = 4 * SWING / V + 3 * (V / A + A / J)  # three double S that reach V
PAN = ([0.1, 2.1, 2.6, 5.6, 6.0, 8.0], [0.0, SWING, SWING, -SWING, -SWING, 0.0])
FINGERS = ([2.2, 2.5, 5.8, 6.1], [0.0, 0.02, 0.02, 0.0])  # 0.1 s of the opening on the way
END = 8.25
EVENTS = [
    {'time': 0.0, 'event': 'started', 'job': 'run'},
    {'time': 0.1, 'event': 'stage', 'stage': 'above start', 'remark': ''},
    {'time': 2.15, 'event': 'stage', 'stage': 'greifen', 'remark': ''},  # a cycle of the user's
    {'time': 2.55, 'event': 'grasp_verified'},
    {'time': 5.65, 'event': 'stage', 'stage': 'ablegen', 'remark': ''},
    {'time': 5.95, 'event': 'placed', 'place': 'target'},
    {'time': END, 'event': 'done', 'job': 'run'},
]


T = np.arange(-0.5, END + 0.5, STEP)


def recording(events=EVENTS, t=T, t_fingers=T + 0.003) -> Samples:
    q = HOME + np.outer(np.interp(t, *PAN), np.eye(6)[0])
    fingers = np.tile(np.interp(t_fingers, *FINGERS)[:, None], 2)
    joints = RecordedJoints(t, q, 0.0 * q, q)
    return Samples(joints, (t, np.zeros((t.size, 0, 4, 4))), (t_fingers, fingers), events)


def shares_of(samples: Samples) -> Mapping[str, float]:
    return time_shares(samples, MODEL, np.eye(4), LIMITS)


def test_each_second_of_a_cycle_is_counted_once_and_where_it_belongs():
    found = shares_of(recording())
    known = {
        FLOOR: FREE + 0.5,
        'time_free_motions_s': FREE,
        'time_fingers_s': 0.3 + 0.2,
        'time_approach_s': 7.0 - FREE,
        'time_waiting_s': 0.2 + 0.2,
        'time_other_s': 0.1 + 0.25,
    }
    assert found == pytest.approx(known, abs=3 * STEP)  # six edges are sampled
    assert found['time_free_motions_s'] == pytest.approx(FREE, abs=2e-3)
    assert sum(found[name] for name in SHARES) == pytest.approx(END, abs=3e-3)


def test_lost_samples_cost_little_and_the_sum_still_holds():
    rng = np.random.default_rng(1)
    kept = [T[rng.random(T.size) > 0.3] for _ in range(2)]
    found = shares_of(recording(EVENTS, kept[0], kept[1] + 0.003))
    assert found == pytest.approx(shares_of(recording()), abs=0.08)
    assert sum(found[name] for name in SHARES) == pytest.approx(END, abs=3e-3)


@pytest.mark.parametrize(
    'events',
    [EVENTS[:-1], EVENTS[1:], EVENTS[:3] + EVENTS[4:], [*EVENTS[:-1], EVENTS[3], EVENTS[-1]]],
    ids=['stopped', 'no begin', 'no grip', 'two grips'],
)
def test_what_is_not_one_whole_cycle_has_no_shares(events):
    assert shares_of(recording(events)) == {}


def test_without_samples_or_motion_there_are_no_shares():
    assert shares_of(recording(EVENTS, T[:0])) == {}
    still = np.tile(HOME, (T.size, 1))
    joints = RecordedJoints(T, still, 0.0 * still, still)
    assert shares_of(replace(recording(), joints=joints)) == {}


def test_the_text_is_a_sum():
    run = shares_of(recording())
    _, *parts = shares_lines(run)
    assert [line.split()[0] for line in parts] == ['=', '+', '+', '+', '+']
    shown = [float(line.split()[1]) for line in parts]
    assert shown == [pytest.approx(run[name], abs=5.1e-3) for name in SHARES]
    assert shares_lines({}) == []
