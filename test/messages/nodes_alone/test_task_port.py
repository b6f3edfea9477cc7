# SPDX-License-Identifier: Apache-2.0
"""The task's connection to robot and planner, and what Humble's messages lack."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from ur5_pick_place.control.motion_state import MotionState
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.nodes.driver import controller_goals
from ur5_pick_place.nodes.driver.controller_goals import check_method
from ur5_pick_place.nodes.pick_place import task_port
from ur5_pick_place.nodes.pick_place.task_port import LOST, PendingMotion
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.task.job import SetOutput

PARTS = ('RobotIo', 'JointListener', 'ActionClient', 'CarriedPart', 'watch_peer')


@pytest.mark.parametrize(
    ('outcome', 'is_late', 'then'),
    [
        (DONE, True, ['reply', 'poll', 'tick']),  # with joints and pins that are not older
        (Outcome.failed('refused'), True, ['reply']),  # the planner's reason may be on its way
        (DONE, False, ['reply']),  # within a tick
    ],
)
def test_a_reply_is_acted_on_at_once_not_at_the_next_joint_states(
    monkeypatch, outcome, is_late, then
):
    for part in PARTS:
        monkeypatch.setattr(task_port, part, MagicMock())
    told, late = [], []
    task_port.JointListener.return_value.poll = lambda: told.append('poll')
    task_port.RobotIo.return_value.send = lambda _, reply: (
        late.append(reply) if is_late else reply(outcome)
    )
    port = task_port.TaskPort(
        MagicMock(), HealthSettings(), MagicMock(), lambda: told.append('tick'), print, bool
    )
    port.send(SetOutput(16, True), lambda _outcome: told.append('reply'))
    for reply in late:
        assert told == []
        reply(outcome)
    assert told == then


@pytest.mark.parametrize(('val', 'outcome'), [(1, DONE), (-7, Outcome.failed('code -7'))])
def test_the_end_of_a_motion_is_told_without_a_message(val, outcome):
    assert task_port.outcome_of(SimpleNamespace(val=val, SUCCESS=1)) == outcome


def test_closed_loops_are_refused_at_the_start_without_controller_names(monkeypatch):
    action = SimpleNamespace(Goal=SimpleNamespace)
    monkeypatch.setattr(controller_goals, 'ExecuteTrajectory', action)
    check_method('joint_trajectory_controller', 'ik')
    with pytest.raises(InvalidInput, match="method = 'gradient': needs the messages of ROS 2 J"):
        check_method('joint_trajectory_controller', 'gradient')


class TestPendingMotion:
    """A planner that is done but whose answer never comes."""

    def pending(self):
        replies = []
        return PendingMotion(HOME, replies.append, 0.0), replies

    def test_an_answer_counts_once(self):
        pending, replies = self.pending()
        pending.reply(DONE)
        pending.reply(Outcome.failed('late'))
        pending.on_joints(HOME, 100.0)
        assert replies == [DONE]

    @pytest.mark.parametrize(('q', 'reply'), [(HOME, DONE), (HOME + 0.02, LOST)])
    def test_a_lost_one_is_told_from_where_the_arm_is_once_the_planner_is_ready(self, q, reply):
        pending, replies = self.pending()
        for t, state in ((0.1, MotionState.MOVING), (5.0, MotionState.READY)):
            pending.on_planner_state(state, t)
        pending.on_joints(q, 6.9)
        assert replies == []
        pending.on_joints(q, 7.1)
        assert replies == [reply]

    def test_a_planner_that_is_still_moving_is_waited_for(self):
        pending, replies = self.pending()
        pending.on_planner_state(MotionState.MOVING, 0.1)
        pending.on_joints(HOME, 1000.0)
        assert replies == []

    def test_a_motion_that_never_begins_is_given_up(self):
        pending, replies = self.pending()
        pending.on_planner_state(MotionState.READY, 0.1)
        pending.on_joints(HOME, 29.0)
        pending.on_joints(HOME, 31.0)
        assert replies == [LOST]
