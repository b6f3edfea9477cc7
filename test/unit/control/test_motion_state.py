# SPDX-License-Identifier: Apache-2.0
"""The motion state and its text on the topic."""

import pytest

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state, stopped_text

TEXTS = {
    'ready': (MotionState.READY, ''),
    'moving': (MotionState.MOVING, ''),
    'stopped: protective stop': (MotionState.STOPPED, 'protective stop'),
    'stopped: foreign motion: goal': (MotionState.STOPPED, 'foreign motion: goal'),
    'stopped: ': (MotionState.STOPPED, ''),
}


@pytest.mark.parametrize(('text', 'meaning'), TEXTS.items())
def test_a_text_and_its_state_are_the_same(text, meaning):
    assert parse_motion_state(text) == meaning
    state, reason = meaning
    assert (stopped_text(reason) if state is MotionState.STOPPED else state.value) == text


@pytest.mark.parametrize('text', ['', 'idle', 'stopped', 'ready: soon', 'READY', 'busy: plan'])
def test_another_text_means_no_state(text):
    assert parse_motion_state(text) == (None, '')
