# SPDX-License-Identifier: Apache-2.0
"""A gripper behind an action server, with the real nodes: a cycle, then a server that fails."""

import re

import pace
import pytest
from cells import running_cell
from control_msgs.action import GripperCommand
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from task_client import START, TARGET, TaskClient

pytestmark = [pytest.mark.nodes, pytest.mark.drill]

OWN = {
    '/**': {'gripper': 'action', 'gripper_action_type': 'parallel_gripper_command'},
    '/**/pick_place': {'grasp_retries': 0, 'gripper_timeout': 2.0},
}


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    folder = tmp_path_factory.mktemp('cell')
    options = {'own': OWN, 'without': ['ik_service']}
    with running_cell(TaskClient, ros_domain, folder, **options) as client:
        yield client


def inject(cell, fault, on=True):
    answer = cell.call(SetBool, f'sim_driver/faults/{fault}', data=on)
    assert answer.success, answer.message


def recover(cell):
    cell.until(lambda: cell.ask('rearm').success, 'rearming', wall=20.0)


def test_a_cycle_with_parallel_gripper_command_places_the_part(cell):
    cell.put_part(START)
    cell.teach_places()
    cell.do('plan')
    cell.do('run')
    cell.event('grasp_verified')
    cell.event('done', job='run')
    assert cell.part_at()[:2] == pytest.approx([TARGET[0], TARGET[1]], abs=1e-3)


def test_other_clients_command_it_in_its_own_unit(cell):
    action = ActionClient(cell.node, GripperCommand, 'gripper_action_controller/gripper_command')
    cell.until(action.server_is_ready, 'the gripper action')
    knuckle = []
    cell.hear(JointState, 'joint_states', knuckle.append)

    def at():
        found = [m for m in knuckle if 'robotiq_85_left_knuckle_joint' in m.name]
        return found[-1].position[list(found[-1].name).index('robotiq_85_left_knuckle_joint')]

    for position, taken in ((0.8, True), (0.0, True), (0.9, False)):
        goal = GripperCommand.Goal()
        goal.command.position = position
        handle = cell.wait(action.send_goal_async(goal), 'the gripper to accept')
        result = cell.wait(handle.get_result_async(), 'the gripper').result
        cell.run(0.3)
        expected = position if taken else 0.0
        assert result.reached_goal == taken
        assert [at(), result.position] == pytest.approx([expected] * 2, abs=0.02)


@pytest.mark.drill
@pytest.mark.parametrize(
    ('fault', 'said'),
    [
        ('gripper_silent', 'did not answer a goal within 2.0 s'),
        ('gripper_never_ends', 'has not ended the goal'),
        ('gripper_gone', 'is not there: start the gripper|has gone during the goal'),
    ],
)
def test_a_server_that_fails_is_named_in_time_and_the_node_lives_on(cell, fault, said):
    inject(cell, fault)
    cell.run(2.0)  # for the end of a server to be discovered
    since = len(cell.events)
    cell.until(lambda: cell.ask('close_gripper').success, 'the job to begin', wall=pace.wall(5.0))
    reason = cell.event('stopped', since=since, job='close_gripper')['reason']
    assert re.search(said, reason), reason
    inject(cell, fault, on=False)
    recover(cell)
    cell.job('init_gripper')
    cell.job('open_gripper')
