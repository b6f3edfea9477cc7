# SPDX-License-Identifier: Apache-2.0
"""The task's connection to robot and planner, as far as it needs no DDS."""

from types import SimpleNamespace

import pytest

from ur5_pick_place.nodes.pick_place.task_port import TaskPort
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.task.job import SetOutput

LATER = []
FAILED = Outcome.failed('refused')


def at_once(_command, on_reply):
    on_reply(DONE)


def later(_command, on_reply):
    LATER.append(lambda: on_reply(DONE))


def later_in_vain(_command, on_reply):
    LATER.append(lambda: on_reply(FAILED))


@pytest.mark.parametrize(
    ('send', 'then'),
    [
        (later, [DONE, 'poll', 'tick']),  # with joints and pins that are not older
        (later_in_vain, [FAILED]),  # the planner's reason may be on its way
        (at_once, [DONE]),  # within a tick
    ],
)
def test_a_reply_is_acted_on_at_once_not_at_the_next_joint_states(send, then):
    port, told = TaskPort.__new__(TaskPort), []
    port._io = SimpleNamespace(send=send)
    port.joint_listener = SimpleNamespace(poll=lambda: told.append('poll'))
    port._on_tick = lambda: told.append('tick')
    LATER.clear()
    port.send(SetOutput(16, True), told.append)
    for reply in LATER:
        assert told == []
        reply()
    assert told == then
