# SPDX-License-Identifier: Apache-2.0
"""`preflight` says of each thing that keeps a cell from moving what to do about it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.task.preflight import NODES, Observed, check_all, report_lines

SHARED = {
    'use_sim_time': False,
    'ur_type': 'ur5',
    'kinematics_params_file': '/home/you/my_ur5.yaml',
    'tf_prefix': '',
    'mounting': 'ceiling',
    'scene_file': '/home/you/scene.yaml',
    'controller': 'scaled_joint_trajectory_controller',
    'payload_mass': 0.9,
    'payload_centre': [0.0, 0.0, 0.05],
    'tool_voltage': 24,
}


def well() -> Observed:
    """Return what a cell shows that is ready."""
    t = 100.0 + 0.008 * np.arange(250)
    T = forward(load_model('ur5'), HOME)
    planner = {**SHARED, 'check_modes': True, 'joint_state_timeout': 0.1}
    return Observed(
        where='ROS_DOMAIN_ID 0, namespace /',
        servers=dict.fromkeys(NODES, 1),
        parameters={
            'ik_service': dict(SHARED),
            'trajectory_planner': planner,
            'pick_place': {**SHARED, 'check_modes': True, 'confirm_pins': True},
        },
        task_state='idle',
        motion_state='ready',
        robot_mode=7,
        safety_mode=1,
        program_running=True,
        scaling=0.1,
        controllers={SHARED['controller']: 'active', 'freedrive_mode_controller': 'inactive'},
        arrivals=list(t + 7.0),
        stamps=list(t),
        ages=[0.002] * len(t),
        T_tf=T,
        T_fk=T.copy(),
        T_tcp=np.eye(4),
        gripper='pins are there; the part-present input is off',
        tool_voltage=0,
        objects=[],
    )


def wrong(seen: Observed) -> list[str]:
    return [str(check) for check in check_all(seen) if not check.is_ok]


def with_parameter(seen: Observed, node: str, name: str, value: object) -> Observed:
    parameters = {key: dict(values) for key, values in seen.parameters.items()}
    parameters[node][name] = value
    return replace(seen, parameters=parameters)


def moved(T: np.ndarray, metres: float) -> np.ndarray:
    off = T.copy()
    off[0, 3] += metres
    return off


def test_a_cell_that_is_ready_has_nothing_to_be_done():
    assert not wrong(well())
    assert len(check_all(well())) == 17


@pytest.mark.parametrize(
    ('change', 'expected'),
    [
        ({'servers': {'pick_place': 1, 'trajectory_planner': 1}}, 'ik_service not found'),
        ({'servers': dict.fromkeys(NODES, 2)}, 'pick_place 2 times; stop all but one'),
        ({'robot_mode': 5}, 'brakes not released; .*release the brakes'),
        ({'safety_mode': 3}, 'protective stop; .*unlock on the pendant'),
        ({'program_running': False}, 'External Control program not running; press Play'),
        ({'robot_mode': None}, 'robot mode and safety mode not received'),
        ({'controllers': None}, 'does not answer; start the driver; .* verify_robot_model it ref'),
        (
            {'driver_refusal': "The connected robot is of type 'UR5'"},
            "type: the driver refuses the robot: .* of type 'UR5'; give ur_type of this robot",
        ),
        (
            {'controllers': {'freedrive_mode_controller': 'active'}},
            'scaled_joint_trajectory_controller is not loaded; active: freedrive_mode_controller',
        ),
        (
            {'driver_servers': {'controller_manager/switch_controller': 2}},
            '2 nodes offer controller_manager/switch_controller.*namespace of its own',
        ),
        (
            {'controllers': {SHARED['controller']: 'inactive'}},
            'is inactive; active: none; ros2 control switch_controllers --activate scaled_joint',
        ),
        (
            {'why_no_stream': 'x refuses y = false (locked): set it to false in its file'},
            r'is active; x refuses y = false \(locked\); set it to false in its file',
        ),
        ({'scaling': 0.0}, 'speed slider: 0 %; raise the slider'),
        ({'scaling': None}, 'speed scaling not received'),
        ({'arrivals': [], 'stamps': []}, 'joint_states: 0 messages; start the driver'),
        ({'bad_joints': 'joint state names a joint twice'}, 'a joint twice; check what else'),
        ({'ages': [3600.0] * 250}, '3600.00 s old on arrival; synchronise'),
        ({'T_tf': None}, 'TF does not know tool0'),
        ({'T_tcp': None}, 'TCP: unknown; set scene_file'),
        ({'tool_voltage': 12}, '12 V, tool_voltage is 24 V; correct .*destroy'),
        ({'gripper': ''}, 'gripper: not received; restart pick_place'),
        ({'gripper': 'a', 'gripper_advice': 'do b'}, 'gripper: a; do b'),
        ({'objects': None}, 'scene: not received'),
        ({'refused': "object 'x' has no shapes"}, "'x' has no shapes; remove or replace"),
        ({'unheard': {'/a_pose': 'camera publishes with x'}}, 'a_pose: camera .*publish them rel'),
        ({'motion_state': 'stopped: protective stop'}, 'stopped: protective stop; .*rearm'),
        ({'task_state': 'running: transfer'}, 'task running: transfer; wait'),
        ({'task_state': None}, 'states: not received'),
    ],
)
def test_each_fault_is_named_with_its_cure(change, expected):
    (text,) = wrong(replace(well(), **change))
    assert re.search(expected, text), text


@pytest.mark.parametrize('program_running', [False, None])
def test_no_controller_is_to_be_activated_while_the_program_is_stopped(program_running):
    controllers = {SHARED['controller']: 'inactive'}
    seen = replace(well(), program_running=program_running, controllers=controllers)
    robot, controller = wrong(seen)
    assert 'program not running' in robot
    assert 'press Play' in controller and 'switch_controllers' not in controller
    mock = with_parameter(seen, 'trajectory_planner', 'check_modes', False)
    *_, controller = wrong(mock)
    cure = 'switch_controllers --activate' if program_running is None else 'press Play'
    assert cure in controller


def test_joints_that_come_late_seldom_or_backwards_are_named():
    seen = well()
    t = np.array(seen.stamps)
    late = np.where(np.arange(len(t)) < 100, t, t + 0.2)
    (text,) = wrong(replace(seen, arrivals=list(late)))
    assert 'largest gap 208 ms, allowed 100 ms' in text
    (text,) = wrong(replace(seen, arrivals=list(t[::4]), stamps=list(t[::4])))
    assert '31 Hz' in text and 'at least 100 Hz' in text
    (text,) = wrong(replace(seen, stamps=list(t[::-1])))
    assert 'backwards' in text


@pytest.mark.parametrize(
    ('ur_type', 'model', 'is_it'),
    [
        ('ur5', 'UR5', True),
        ('ur5e', 'UR5', True),
        ('ur7e', 'UR5', True),
        ('ur12e', 'UR12', True),
        ('ur8long', 'UR8 LONG', True),
        ('ur3', 'UR30', False),
        ('ur10e', 'UR5', False),
        ('ur15', '', True),  # PolyScope X does not tell
    ],
)
def test_the_arm_is_compared_with_what_the_robot_calls_itself(ur_type, model, is_it):
    seen = replace(well(), robot_model=model)
    for node in NODES:
        seen = with_parameter(seen, node, 'ur_type', ur_type)
    found = [line for line in wrong(seen) if line.startswith('type: ')]
    assert found == [] if is_it else f'calls itself {model}; give ur_type' in found[0]


@pytest.mark.parametrize(
    ('ur_type', 'model', 'said'),
    [
        ('ur5e', 'UR5', 'itself UR5, as may ur5, ur7e: compare its label'),
        ('ur12e', 'UR10', 'itself UR10, as may ur10, ur10e: compare its label'),
        ('ur20', 'UR20', 'itself UR20'),
    ],
)
def test_types_that_the_answer_does_not_tell_apart_are_named(ur_type, model, said):
    seen = with_parameter(well(), 'trajectory_planner', 'ur_type', ur_type)
    (found,) = [c for c in check_all(replace(seen, robot_model=model)) if c.name == 'type']
    assert found.is_ok and found.found.endswith(said), found


def test_another_calibration_of_the_driver_is_seen_in_tf():
    seen = well()
    (text,) = wrong(replace(seen, T_tf=moved(seen.T_fk, 0.004)))
    assert 'differ by 4.00 mm' in text and 'kinematics_params_file' in text
    assert not wrong(replace(seen, T_tf=moved(seen.T_fk, 0.0005)))


@pytest.mark.parametrize(
    ('node', 'name', 'value', 'expected'),
    [
        ('pick_place', 'kinematics_params_file', '', "'' in pick_place; give all nodes the same"),
        ('pick_place', 'payload_mass', 1.2, '1.2 in pick_place'),
        ('pick_place', 'mounting', 'wall', "'wall' in pick_place"),
    ],
)
def test_settings_that_differ_are_named(node, name, value, expected):
    (text,) = wrong(with_parameter(well(), node, name, value))
    assert expected in text


@pytest.mark.parametrize('name', ['scene_file', 'payload_mass', 'tool_voltage'])
def test_what_was_not_given_is_named(name):
    seen = well()
    for node in NODES:
        seen = with_parameter(seen, node, name, '' if name == 'scene_file' else None)
    assert any(f'{name} not given; set them' in text for text in wrong(seen))


def test_mock_hardware_is_not_asked_for_modes_and_supply():
    seen = replace(well(), robot_mode=None, safety_mode=None, program_running=None)
    seen = with_parameter(seen, 'trajectory_planner', 'check_modes', False)
    seen = replace(with_parameter(seen, 'pick_place', 'confirm_pins', False), tool_voltage=None)
    assert not wrong(seen)
    assert 'robot is powered off' in '; '.join(wrong(replace(seen, robot_mode=3)))


def test_nobody_at_all_is_one_problem_and_not_one_for_each_check():
    text = '\n'.join(map(str, check_all(Observed(where='ROS_DOMAIN_ID 7'))))
    assert 'no node discovered on ROS_DOMAIN_ID 7' in text
    assert len(check_all(Observed())) == 2


def test_the_report_has_a_line_each_and_the_cure_below():
    seen = replace(well(), scaling=0.0)
    lines = list(report_lines(check_all(seen), {True: '', False: ''}))
    assert len(lines) == 18
    assert lines[9].startswith('FAIL  speed slider')
    assert lines[10].strip().startswith('-> raise the slider')


def test_what_another_node_publishes_forges_no_line_of_the_report():
    forged = 'x\n\x1b[32mok\x1b[0m  robot         running'
    seen = replace(well(), task_state=f'stopped: {forged}', controllers={forged: 'active'})
    lines = list(report_lines(check_all(seen), {True: '', False: ''}))
    assert len(lines) == 19 and all(line.isprintable() for line in lines)
    assert rf'stopped: {forged.encode("unicode_escape").decode()}' in '\n'.join(lines)
