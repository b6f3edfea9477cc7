# SPDX-License-Identifier: Apache-2.0
"""Messages with the fields of Humble alone keep the nodes working, or are refused at the start."""

from types import SimpleNamespace

import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.driver import controller_goals
from ur5_pick_place.nodes.driver.controller_goals import check_method
from ur5_pick_place.nodes.pick_place.task_port import TaskPort
from ur5_pick_place.outcome import DONE, Outcome


class CodeOfHumble:
    SUCCESS, PREEMPTED = 1, -7

    def __init__(self, val):
        self.val = val


@pytest.mark.parametrize(
    ('val', 'outcome'),
    [(CodeOfHumble.SUCCESS, DONE), (CodeOfHumble.PREEMPTED, Outcome.failed('code -7'))],
)
def test_the_end_of_a_motion_is_told_without_a_message(val, outcome):
    port, told = TaskPort.__new__(TaskPort), []
    port._goal = handle = object()
    reply = SimpleNamespace(result=SimpleNamespace(error_code=CodeOfHumble(val)))
    port._on_result(handle, SimpleNamespace(result=lambda: reply), told.append)
    assert told == [outcome] and port._goal is None


def test_closed_loops_are_refused_at_the_start_without_controller_names(monkeypatch):
    action = SimpleNamespace(Goal=SimpleNamespace)
    monkeypatch.setattr(controller_goals, 'ExecuteTrajectory', action)
    check_method('joint_trajectory_controller', 'ik')
    with pytest.raises(InvalidInput, match="method = 'gradient': needs the messages of ROS 2 J"):
        check_method('joint_trajectory_controller', 'gradient')
