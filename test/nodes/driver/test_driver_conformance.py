# SPDX-License-Identifier: Apache-2.0
"""
To a client the simulated cell is the UR driver: its interface, through real rclpy and DDS.

How the driver behaves behind it is in `test/unit/sim`.
"""

import numpy as np
import pytest
from control_msgs.msg import JointTrajectoryControllerState
from control_msgs.srv import QueryTrajectoryState
from controller_manager_msgs.srv import ListControllers
from driver_client import IO, JOINT_NAMES, SCALED, goal, rest
from lone_driver import FREEDRIVE, REACHED, THERE, UNSCALED, VELOCITY, states
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from ur_dashboard_msgs import srv as dashboard_srv
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_msgs.msg import Analog
from ur_msgs.srv import SetAnalogOutput, SetPayload

from ur5_pick_place.kinematics import HOME

pytestmark = pytest.mark.nodes
OFF_PATH = ('aborted', -4, 'Aborted due to path tolerance violation')


def _seconds(duration):
    return duration.sec + duration.nanosec * 1e-9


# -- topics -------------------------------------------------------------------------------------


def test_joint_states_are_alphabetical_at_125_hz_by_the_clock(cell):
    clocks = cell.collect(Clock, '/clock', 10)
    cell.run(0.5)  # during discovery this client, not the driver, loses up to 30 of them
    start = len(cell.joints)
    cell.run(1.0)
    messages = cell.joints[start:]
    assert all(m.name == sorted(JOINT_NAMES) for m in messages)
    assert all(m.header.frame_id == 'base_link' for m in messages)
    stamps = np.array([m.header.stamp.sec + m.header.stamp.nanosec * 1e-9 for m in messages])
    assert np.median(np.diff(stamps)) == pytest.approx(0.008, abs=1e-9)
    assert len(messages) >= 100  # a busy machine may lose some
    assert cell.q == pytest.approx(HOME, abs=1e-3)
    assert _seconds(clocks[-1].clock) == pytest.approx(cell.time, abs=0.1)
    steps = np.diff([_seconds(message.clock) for message in clocks])
    assert np.median(steps) == pytest.approx(0.008, abs=1e-6)


@pytest.mark.parametrize(
    'topic',
    [
        'joint_states',
        f'{IO}/io_states',
        f'{IO}/tool_data',
        f'{IO}/robot_mode',
        f'{IO}/safety_mode',
        f'{IO}/robot_program_running',
        f'{SCALED}/controller_state',
        'speed_scaling_state_broadcaster/speed_scaling',
    ],
)
def test_publishers_are_reliable_and_latched_as_the_drivers_are(cell, topic):
    (info,) = cell.node.get_publishers_info_by_topic(f'/{topic}')
    assert info.qos_profile.reliability == ReliabilityPolicy.RELIABLE
    assert info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL


@pytest.mark.parametrize('topic', [f'{SCALED}/joint_trajectory', f'{VELOCITY}/commands'])
def test_command_subscriptions_are_best_effort_as_the_drivers_are(cell, topic):
    (info,) = cell.node.get_subscriptions_info_by_topic(f'/{topic}')
    assert info.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
    assert info.qos_profile.durability == DurabilityPolicy.VOLATILE


def test_a_late_joiner_hears_the_modes_once(cell):
    robot = cell.collect(RobotMode, f'{IO}/robot_mode')
    safety = cell.collect(SafetyMode, f'{IO}/safety_mode')
    program = cell.collect(Bool, f'{IO}/robot_program_running')
    cell.until(lambda: robot and safety and program, 'the modes')
    cell.run(0.5)
    assert [m.mode for m in robot] == [RobotMode.RUNNING]
    assert [m.mode for m in safety] == [SafetyMode.NORMAL]
    assert [m.data for m in program] == [True]


def test_io_states_show_18_inputs_and_18_outputs(cell):
    message = cell.io[-1][1]
    for digital in (message.digital_in_states, message.digital_out_states):
        assert [d.pin for d in digital] == list(range(18))
    assert [len(message.analog_in_states), len(message.analog_out_states)] == [2, 2]
    assert not message.flag_states


def test_controller_state_and_query_tell_the_reference(cell):
    states = cell.collect(JointTrajectoryControllerState, f'{SCALED}/controller_state', 10)
    inactive = cell.collect(JointTrajectoryControllerState, f'{UNSCALED}/controller_state', 10)
    handle = cell.send(goal(rest(THERE, 4.0)))
    start = cell.time
    cell.run(0.5)
    query = QueryTrajectoryState.Request()
    query.time.sec, query.time.nanosec = divmod(round((start + 3.0) * 1e9), 10**9)
    answer = cell.call(QueryTrajectoryState, f'{SCALED}/query_state', query)
    assert answer.success and list(answer.name) == list(JOINT_NAMES)
    assert 0.5 < (answer.position[0] - HOME[0]) / (THERE[0] - HOME[0]) < 1.0
    assert cell.result(handle) == REACHED
    cell.run(0.1)
    assert not cell.call(QueryTrajectoryState, f'{SCALED}/query_state', query).success
    assert not cell.call(QueryTrajectoryState, f'{UNSCALED}/query_state', query).success
    state = states[len(states) // 2]
    assert list(state.joint_names) == list(JOINT_NAMES) and state.speed_scaling_factor == 1.0
    error = np.array(state.reference.positions) - np.array(state.feedback.positions)
    assert state.error.positions == pytest.approx(error)
    assert not inactive


# -- goals --------------------------------------------------------------------------------------


def test_a_goal_is_reached_in_its_time_and_feeds_back_at_20_hz(cell):
    heard, order = [], [5, 3, 1, 0, 2, 4]
    handle = cell.send(
        goal(
            rest((HOME + (THERE - HOME) / 2)[order], 0.5),
            rest(THERE[order], 1.0),
            names=[JOINT_NAMES[i] for i in order],
            goal=0.001,
            goal_time=1.0,
        ),
        feedback=lambda m: heard.append(m.feedback),
    )
    assert cell.result(handle) == REACHED
    assert 14 <= len(heard) <= 24
    assert _seconds(heard[-1].actual.time_from_start) == pytest.approx(1.05, abs=0.2)
    cell.run(0.1)
    assert cell.q == pytest.approx(THERE, abs=1.1e-3)
    assert all(list(m.joint_names) == list(JOINT_NAMES) for m in heard)
    index = [m.index for m in heard]
    assert index == sorted(index) and {0, 1} <= set(index)
    middle = heard[len(heard) // 2]
    error = np.array(middle.desired.positions) - np.array(middle.actual.positions)
    assert middle.error.positions == pytest.approx(error)


def test_a_micrometre_path_tolerance_aborts_and_the_arm_holds(cell):
    assert not cell.send(goal()).accepted
    assert not cell.send(goal(rest(THERE, 1.0)), UNSCALED).accepted, 'it is inactive'
    assert cell.result(cell.send(goal(rest(THERE, 1.0), path=1e-6))) == OFF_PATH
    cell.run(0.3)
    held = cell.q
    cell.run(0.5)
    assert cell.q == pytest.approx(held, abs=1e-4)


def test_a_cancelled_goal_ends_with_code_zero_and_the_arm_stands(cell):
    handle = cell.send(goal(rest(THERE, 1.5)))
    cell.run(0.7)
    before = cell.time
    assert cell.wait(handle.cancel_goal_async(), 'cancel').return_code == 0
    assert cell.result(handle) == ('canceled', 0, '')
    assert cell.time - before < 0.3
    cell.run(0.3)
    assert abs(cell.qd).max() < 1e-3
    assert 0.1 < (cell.q[0] - HOME[0]) / (THERE[0] - HOME[0]) < 0.9
    assert cell.wait(handle.cancel_goal_async(), 'cancel').return_code == 3


# -- pins, supply, payload ----------------------------------------------------------------------


def test_each_other_service_of_pins_passes_on_its_request_and_its_answer(cell):
    name = f'{IO}/set_analog_output'
    good = Analog(pin=1, domain=Analog.CURRENT, state=0.25)
    assert cell.call(SetAnalogOutput, name, data=good).success
    assert not cell.call(SetAnalogOutput, name, data=Analog(pin=2, state=0.25)).success
    cell.until(lambda: cell.io[-1][1].analog_out_states[1].state == 0.25, 'analog output 1')
    assert cell.io[-1][1].analog_out_states[1].domain == Analog.CURRENT
    assert cell.set_io(3, 1, 0.0) and not cell.set_io(1, 18, 1)
    assert cell.call(SetPayload, f'{IO}/set_payload', mass=0.08).success
    assert not cell.call(SetPayload, f'{IO}/set_payload', mass=-1.0).success
    assert not cell.call(Trigger, f'{IO}/zero_ftsensor').success, 'a CB3 has no such sensor'


def test_the_dashboard_tells_what_a_cb3_tells(cell):
    def ask(kind, name, **fields):
        return cell.call(kind, f'dashboard_client/{name}', **fields)

    assert ask(dashboard_srv.GetRobotMode, 'get_robot_mode').robot_mode.mode == 7
    assert ask(dashboard_srv.GetSafetyMode, 'get_safety_mode').safety_mode.mode == 1
    assert ask(dashboard_srv.GetProgramState, 'program_state').state.state == 'PLAYING'
    assert ask(dashboard_srv.IsProgramRunning, 'program_running').program_running
    assert ask(dashboard_srv.GetPolyScopeVersion, 'get_polyscope_version').version.major == 3
    assert ask(dashboard_srv.GetRobotModel, 'get_robot_model').robot_model == 'UR5'
    assert ask(dashboard_srv.RawRequest, 'raw_request', query='running').answer.endswith('true')
    assert not ask(dashboard_srv.IsInRemoteControl, 'is_in_remote_control').success
    assert not ask(dashboard_srv.Load, 'load_program', filename='other.urp').success
    assert ask(dashboard_srv.Load, 'load_program', filename='external_control.urp').success
    assert ask(dashboard_srv.Popup, 'popup', message='hello').success


# -- controllers --------------------------------------------------------------------------------


def test_controllers_are_listed_with_one_motion_controller_active(cell):
    found = states(cell)
    active = {name for name, state in found.items() if state == 'active'}
    assert active == {
        'joint_state_broadcaster',
        IO,
        'speed_scaling_state_broadcaster',
        SCALED,
    }
    assert {UNSCALED, VELOCITY, FREEDRIVE} <= set(found)
    assert not cell.switch(on=[VELOCITY]).ok, 'a second one'
    assert cell.switch(on=[FREEDRIVE], off=[SCALED]).ok
    listed = cell.call(ListControllers, 'controller_manager/list_controllers').controller
    (claimed,) = [c.claimed_interfaces for c in listed if c.claimed_interfaces]
    assert claimed == [f'freedrive_mode/{name}' for name in ('async_success', 'enable', 'abort')]
    assert cell.switch(on=[SCALED], off=[FREEDRIVE]).ok


# -- frames and truth ---------------------------------------------------------------------------


def test_tf_is_the_drivers_tree(cell):
    moving = cell.collect(TFMessage, '/tf', 100)
    static = cell.collect(TFMessage, '/tf_static')
    cell.run(0.5)
    edges = {
        (t.header.frame_id, t.child_frame_id)
        for message in (moving[-1], static[-1])
        for t in message.transforms
    }
    assert {
        ('world', 'base_link'),
        ('base_link', 'base_link_inertia'),
        ('base_link', 'base'),
        ('base_link_inertia', 'shoulder_link'),
        ('wrist_2_link', 'wrist_3_link'),
        ('wrist_3_link', 'flange'),
        ('wrist_3_link', 'ft_frame'),
        ('flange', 'tool0'),
    } <= edges
    assert len(edges) == 12
