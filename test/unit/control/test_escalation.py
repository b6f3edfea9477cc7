# SPDX-License-Identifier: Apache-2.0
"""When an arm that does not stop is held, and other controllers are deactivated."""

from types import SimpleNamespace

import numpy as np
import pytest

from ur5_pick_place.control.escalation import Escalation, StopProgress
from ur5_pick_place.control.stillness import Stillness

TICK = 0.02  # [s]


class Stop(Escalation):
    """An escalation with a clock of its own, and the times at which each measure was taken."""

    def __init__(self):
        self.now, self.times, self.arm = 0.0, {}, Stillness()
        note = lambda what: self.times.setdefault(what, []).append(self.now)  # noqa: E731
        super().__init__(
            SimpleNamespace(cancel=lambda: note('cancel'), stop_other_motion=self.deactivate),
            lambda: self.arm,
            lambda: note('hold'),
            lambda: self.now,
        )
        self.note = note

    def deactivate(self, stop_progress):
        self.note('deactivate')
        self.progress = stop_progress

    def run(self, seconds, has_goals=False, is_moving=True, has_planner=True):
        """Return when each measure was taken first [s]."""
        self.times, begin = {}, self.now
        for k in range(round(seconds / TICK)):
            self.now = begin + k * TICK
            assert self.advance(has_goals, is_moving, has_planner) is (has_goals or is_moving)
        return {what: pytest.approx(t[0] - begin, abs=0.07) for what, t in self.times.items()}


@pytest.mark.parametrize(
    ('arm', 'measures'),
    [
        ({}, {'cancel': 0.0, 'hold': 0.3, 'deactivate': 0.8}),
        ({'has_goals': True}, {'cancel': 0.0, 'deactivate': 0.8}),
        ({'has_planner': False}, {'cancel': 0.0, 'hold': 0.3, 'deactivate': 0.3}),
        ({'has_goals': True, 'is_moving': False}, {'cancel': 0.0, 'deactivate': 0.8}),
        ({'is_moving': False}, {}),
    ],
    ids=['moved by a topic', 'by a goal', 'without a planner', 'a goal at rest', 'stopped'],
)
def test_the_measures_against_an_arm_that_does_not_stop(arm, measures):
    stop = Stop()
    assert stop.run(2.0, **arm) == measures
    assert len(stop.times.get('cancel', [])) == (100 if measures else 0), 'again and again'


def test_an_arm_that_has_stopped_and_moves_again_is_canceled_alone_at_first():
    stop = Stop()
    stop.run(2.0)
    stop.run(TICK, is_moving=False)
    assert stop.progress() is StopProgress.OVER
    assert stop.run(0.3) == {'cancel': 0.0}


@pytest.mark.parametrize(
    ('speed', 'progress'), [(0.0, StopProgress.BRAKING), (0.5, StopProgress.MOVING_ON)]
)
def test_the_progress_is_that_of_recent_joints(speed, progress):
    stop = Stop()
    stop.run(1.0)
    for k in range(20):
        stop.arm.update(k * TICK, speed * k * TICK * np.ones(6))
    assert stop.progress() is progress
    stop.arm = None
    assert stop.progress() is StopProgress.UNSEEN
