# SPDX-License-Identifier: Apache-2.0
"""
The task node with planner and simulated cell, in a namespace, through real rclpy clients.

What the requests answer, how a cycle is paused, stopped and resumed, and that a second cell in
another namespace is not touched.
"""

import math
import re

import numpy as np
import pytest
from cells import CONFIG, running_cell
from control_msgs.action import GripperCommand
from driver_client import IO, LATCHED, by_name
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import CollisionObject, PlanningScene
from moveit_msgs.srv import ApplyPlanningScene
from planner_client import box
from rclpy.action import ActionClient
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger
from task_client import START, TARGET, TaskClient
from ur_msgs.msg import IOStates
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.client.preflight import collect
from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.kinematics import BRANCHES, HOME
from ur5_pick_place.nodes.cell.node_list import node_list

pytestmark = pytest.mark.nodes


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    folder, needless = tmp_path_factory.mktemp('cell'), ['ik_service']
    other = [
        spec
        for spec in node_list(
            'sim', CONFIG, namespace='cell3', parameters={'sim_driver': {'real_time_factor': 0.1}}
        )
        if spec.executable == 'sim_driver'
    ]
    with (
        NodeProcesses(other, ros_domain, tmp_path_factory.mktemp('other')),
        running_cell(TaskClient, ros_domain, folder, 'cell2', without=needless) as client,
    ):
        client.until(lambda: client.supply, 'tool_data')
        client.folder = folder
        yield client


@pytest.fixture
def taught(cell):
    """Arm at home, gripper open, cube at start, everything taught."""
    if cell.states[-1].startswith(('running', 'paused', 'busy')):
        cell.ask('stop')
        cell.run(1.0)
    cell.until(lambda: cell.ask('rearm').success, 'the cell to be rearmed')
    if 'home' in {e.get('place') for e in cell.events} and np.abs(cell.q - HOME).max() > 1e-3:
        cell.job('go_home')
    cell.job('open_gripper')
    cell.put_part(START)
    cell.teach_places()
    yield cell
    cell.processes.check()


def test_every_service_and_topic_that_our_pages_name_is_there(cell):
    pages = (CONFIG.parent / 'docs').glob('**/*.md')
    text = '\n'.join(page.read_text(encoding='utf-8') for page in pages)
    found = re.findall(r'ros2 service call +/(\S+) +(\S+)', text)
    # Of nodes that this cell has not: docs/generate.py reads their names from them.
    called = {call for call in found if not call[0].startswith(('compute_ik', 'recorder/'))}
    heard = set(re.findall(r'ros2 topic echo --once /([\w/]+)', text))
    assert called

    def services():
        found = cell.node.get_service_names_and_types()
        return {(name.removeprefix('/cell2/'), *kinds) for name, kinds in found}

    cell.until(lambda: called <= services(), f'{called - services()}')
    cell.until(lambda: all(map(cell.node.count_publishers, heard)), f'{heard}')


def test_a_cycle_places_the_cube_and_says_what_it_does(taught):
    since = len(taught.events)
    taught.do('plan')
    taught.until(lambda: taught.states[-1] == 'planned', 'state planned')
    drawn = taught.collect(MarkerArray, 'pick_place/markers', LATCHED)
    shown = {'scene', 'cycle', 'places', 'swept_tool', 'plan_ghosts'}
    taught.until(lambda: drawn and shown <= {m.ns for m in drawn[-1].markers}, 'the plan, drawn')
    taught.do('run')
    taught.event('stage', since=since, stage='transfer')
    assert shown <= {m.ns for m in drawn[-1].markers}, 'the scene has changed, the plan has not'
    taught.event('done', since=since, job='run')
    taught.run(0.3)
    left = {m.ns for m in drawn[-1].markers}
    assert left & shown == shown - {'plan_ghosts'}
    assert taught.states[-1] == 'planned', 'it may run again'
    assert np.linalg.norm(taught.part_at()[:2] - TARGET[:2]) < 2e-3
    assert np.abs(taught.q - HOME).max() < 2e-3
    stages = [e['stage'] for e in taught.events[since:] if e['event'] == 'stage']
    assert stages[0] == 'check empty' and stages[-1] == 'home' and 'verify grip' in stages
    assert any(s == 'running: transfer' for s in taught.states)


@pytest.mark.drill
def test_poses_that_cannot_arrive_are_an_event_and_a_line_of_preflight(cell):
    since, topic = len(cell.events), 'pick_place/start_pose'
    publisher = cell.node.create_publisher(PoseStamped, topic, qos_profile_sensor_data)
    told = cell.event('refused', since=since, request='start_pose')
    assert f'publishes /cell2/{topic} with best effort publisher' in told['reason']
    assert cell.node.get_name() in told['reason'] and 'publish them reliable' in told['reason']
    seen = collect('cell2', lambda: False)
    cell.node.destroy_publisher(publisher)
    assert list(seen.unheard) == [f'/cell2/{topic}']
    assert seen.gripper.startswith('pins are there') and not seen.gripper_advice
    assert 'best effort' in seen.unheard[f'/cell2/{topic}']


def change(cell, thing):
    scene = PlanningScene(is_diff=True)
    scene.world.collision_objects = [thing]
    assert cell.call(ApplyPlanningScene, 'apply_planning_scene', scene=scene).success


def test_a_stop_ends_the_planning(taught):
    since = len(taught.events)
    plan = taught.call_later(Trigger, 'pick_place/plan')
    begun = taught.event('planning', since=since, stage='above start')
    assert 0.0 <= begun['share'] < 1.0 and begun['branch'] in BRANCHES
    taught.until(lambda: taught.states[-1] == 'planning', 'the state')
    taught.do('stop')
    reply = taught.wait(plan, 'the end of planning', 1.0)
    assert not reply.success and 'a stop was requested while this was planned' in reply.message
    assert taught.states[-1] == 'stopped: stop requested'
    taught.do('rearm')
    taught.do('plan')


def test_freedrive_lets_go_of_the_arm_and_takes_hold_again(taught):
    def switch(is_on):
        return taught.call(SetBool, 'pick_place/freedrive', data=is_on)

    assert switch(True).success
    assert 'freedrive_mode_controller' in taught.active_controllers()
    taught.until(lambda: taught.states[-1] == 'freedrive', 'the state')
    refusal = taught.ask('go_home')
    assert not refusal.success and 'freedrive' in refusal.message
    assert switch(False).success
    assert 'scaled_joint_trajectory_controller' in taught.active_controllers()
    taught.job('go_home')


def test_the_standard_gripper_action_opens_and_closes(taught):
    action = ActionClient(taught.node, GripperCommand, 'gripper_action_controller/gripper_command')
    taught.until(action.server_is_ready, 'the gripper action')
    for position, known, is_closed in (
        (0.0, 0.0, True),
        (0.03, 0.0, True),  # the width of both jaws
        (0.034, 0.035, False),
        (math.nan, 0.035, False),
    ):
        goal = GripperCommand.Goal()
        goal.command.position = position
        handle = taught.wait(action.send_goal_async(goal), 'the gripper to accept')
        result = taught.wait(handle.get_result_async(), 'the gripper').result
        assert result.reached_goal == (position in (0.0, 0.034))
        assert result.position == known, 'known, not repeated'
        assert not result.stalled, 'there is nothing between the fingers'
        assert taught.output(16) == is_closed


def test_a_plan_outlives_what_does_not_concern_it_and_no_more(taught):
    change(taught, box('lamp', -1.2, 1.3, 0.05))
    taught.do('plan')
    taught.teach('start', START)
    change(taught, box('lamp', -1.2, 1.301, 0.05))
    change(taught, box('crate', 0.43, 0.0, 0.15))
    taught.until(lambda: "object 'crate'" in taught.ask('run').message, 'the crate to be seen')
    refusal = taught.ask('run')
    assert not refusal.success
    assert re.search('in the way of stage .* since ~/plan: .*; plan again', refusal.message)
    change(taught, box('crate', 0.0, 0.0, 0.0, operation=CollisionObject.REMOVE))
    taught.until(lambda: taught.ask('run').success, 'the crate to be gone')
    taught.do('stop')
    change(taught, box('lamp', 0.0, 0.0, 0.0, operation=CollisionObject.REMOVE))


def test_the_other_cell_was_not_touched(cell):
    joints, io = [], []
    cell.hear(JointState, '/cell3/joint_states', joints.append)
    cell.hear(IOStates, f'/cell3/{IO}/io_states', io.append)
    cell.until(lambda: joints and io, 'the other cell')
    np.testing.assert_allclose(by_name(joints[-1]), HOME, atol=1e-4)
    assert not io[-1].digital_out_states[16].state
