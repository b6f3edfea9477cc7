# SPDX-License-Identifier: Apache-2.0
"""The task's connection to robot and planner, as far as it needs no DDS."""

from types import SimpleNamespace

from ur5_pick_place.nodes.task_port import TaskPort
from ur5_pick_place.outcome import DONE
from ur5_pick_place.task.job import SetOutput


def test_a_reply_is_acted_on_at_once_not_at_the_next_joint_states():
    port, told, waiting = TaskPort.__new__(TaskPort), [], []
    port._io = SimpleNamespace(send=lambda _command, on_reply: waiting.append(on_reply))
    port._on_tick = lambda: told.append('tick')
    port.send(SetOutput(16, True), told.append)
    assert told == []
    waiting[0](DONE)
    assert told == [DONE, 'tick']
