# SPDX-License-Identifier: Apache-2.0
"""What is switched to stop an arm that moves without a goal, by what is seen of it."""

import time
from types import SimpleNamespace

import pytest
from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from fake_graph import FakeManager, Graph
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.task import Future

from ur5_pick_place.control.escalation import StopProgress
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.driver import controller_goals
from ur5_pick_place.nodes.driver.controller_goals import ControllerGoals
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.ros.qos import LATCHED

OURS, OTHER = 'scaled_joint_trajectory_controller', 'forward_velocity_controller'
SWITCHING = 1.5  # [s] after a switch in which nothing more is switched


class Stops(FakeManager):
    """A controller manager, and the goals that use it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, OURS, OTHER)
        self.graph, controllers = graph, ControllerManager(graph.node)
        self.controllers = ControllerGoals(
            SimpleNamespace(
                node=graph.node,
                robot=SimpleNamespace(controller=OURS),
                joint_names=tuple(JOINT_NAMES),
            ),
            controllers,
        )
        graph.until(lambda: controllers.is_there)

    def show_a_goal(self, action: str) -> None:
        """Let an action be known to execute a goal, whose id begins with 7."""
        status = self.node.create_publisher(GoalStatusArray, f'{action}/status', LATCHED)
        under_way = GoalStatus(status=GoalStatus.STATUS_EXECUTING)
        under_way.goal_info.goal_id.uuid[0] = 7
        status.publish(GoalStatusArray(status_list=[under_way]))
        self.graph.until(lambda: self.controllers.goals)

    def stop_other_motion(self, seen: StopProgress, times: int = 1, seconds: float = 0.3) -> None:
        """Deactivate others once per `seconds`, and let the messages pass."""
        for _ in range(times):
            self.controllers.stop_other_motion(lambda: seen)
            self.graph.spin(seconds)


@pytest.fixture
def manager(graph: Graph) -> Stops:
    return Stops(graph)


def test_an_arm_that_moves_on_has_its_controller_restarted_and_then_left_off(manager):
    manager.stop_other_motion(StopProgress.MOVING_ON, times=2)
    assert manager.switched == [([], [OURS]), ([OURS], [])], 'one restart, then time to see it'
    manager.stop_other_motion(StopProgress.BRAKING, seconds=SWITCHING)
    manager.stop_other_motion(StopProgress.MOVING_ON)
    assert manager.switched[2:] == [([], [OURS])]
    assert not manager.active


@pytest.mark.parametrize('seen', [StopProgress.BRAKING, StopProgress.OVER])
def test_an_arm_that_brakes_or_is_wanted_again_keeps_its_controller(manager, seen):
    manager.stop_other_motion(seen, times=5)
    assert not manager.switched and manager.active == {OURS}


def test_an_arm_that_nobody_sees_has_its_controller_restarted_once_and_never_left_off(manager):
    manager.stop_other_motion(StopProgress.UNSEEN, times=12)
    assert manager.switched == [([], [OURS]), ([OURS], [])]
    assert manager.active == {OURS}


@pytest.mark.drill
def test_an_arm_that_nobody_sees_is_stopped_at_the_next_stop_too(manager, monkeypatch):
    monkeypatch.setattr(controller_goals, '_SAME_STOP', 1.0)
    restart = [([], [OURS]), ([OURS], [])]
    manager.stop_other_motion(StopProgress.UNSEEN, times=2)
    manager.stop_other_motion(StopProgress.BRAKING, seconds=SWITCHING)
    manager.stop_other_motion(StopProgress.UNSEEN)
    assert manager.switched == 2 * restart


def test_another_controller_is_switched_off_unless_the_stop_is_over(manager):
    manager.active = {OTHER}
    manager.stop_other_motion(StopProgress.OVER)
    assert manager.active == {OTHER}
    manager.stop_other_motion(StopProgress.BRAKING)
    assert manager.switched == [([OURS], [OTHER])]


@pytest.mark.parametrize('prefix', ['', 'left_'])
@pytest.mark.parametrize(
    ('name', 'claimed'),
    [
        ('freedrive_mode_controller', 'freedrive_mode/enable'),
        ('force_mode_controller', 'force_mode/task_frame_x'),
        ('passthrough_trajectory_controller', 'trajectory_passthrough/abort'),
        ('motion_primitive_forward_controller', 'motion_primitive/motion_type'),
        ('tool_contact_controller', 'tool_contact/tool_contact_set_state'),
    ],
)
def test_a_controller_that_claims_a_mode_of_the_arm_is_switched_off(
    manager, name, claimed, prefix
):
    manager.active, manager.claims = {name}, {name: [prefix + claimed]}
    manager.stop_other_motion(StopProgress.BRAKING)
    assert manager.switched == [([OURS], [name])]


def test_a_controller_of_something_else_is_left_alone(manager):
    manager.active = {OURS, 'gripper'}
    manager.claims = {'gripper': ['finger_joint/position']}
    manager.stop_other_motion(StopProgress.BRAKING)
    assert not manager.switched


PRIMITIVES = 'motion_primitive_forward_controller/motion_sequence/_action'


def test_goals_of_motion_primitives_are_seen_and_canceled(manager):
    canceled: list[bool] = []

    def cancel(request, response):
        canceled.append(not any(request.goal_info.goal_id.uuid))  # all goals
        return response

    manager.node.create_service(CancelGoal, f'{PRIMITIVES}/cancel_goal', cancel)
    manager.show_a_goal(PRIMITIVES)
    assert manager.controllers.goals == {bytes([7] + 15 * [0])}
    manager.controllers.cancel()
    manager.graph.until(lambda: canceled)
    assert canceled == [True]


@pytest.mark.drill
def test_a_manager_that_hangs_is_asked_seldom_and_its_late_answer_counts_once(manager):
    manager.late = Future()
    manager.stop_other_motion(StopProgress.MOVING_ON, times=8)
    assert manager.asked == 2, 'again after two seconds'
    manager.late.set_result(None)
    manager.stop_other_motion(StopProgress.BRAKING)
    assert manager.switched == [([], [OURS]), ([OURS], [])]


def test_a_controller_that_hangs_is_named_and_its_cancels_are_forgotten(manager):
    late, action = Future(), f'{OURS}/follow_joint_trajectory/_action'

    async def cancel(request, response):
        await late
        return response

    manager.node.create_service(
        CancelGoal, f'{action}/cancel_goal', cancel, callback_group=ReentrantCallbackGroup()
    )
    manager.show_a_goal(action)
    sent = 0
    while not (refusal := manager.controllers.why_not_canceled) or sent < 100:
        manager.controllers.cancel()
        sent += 1
        manager.graph.executor.spin_once(timeout_sec=0.02)
        time.sleep(0.02)
    assert OURS in refusal and 'restart the driver' in refusal
    late.set_result(None)

    def is_answered() -> bool:
        manager.controllers.cancel()
        return not manager.controllers.why_not_canceled

    manager.graph.until(is_answered)
    assert manager.controllers.goals, 'it has the goal still'
