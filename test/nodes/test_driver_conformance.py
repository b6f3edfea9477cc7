# SPDX-License-Identifier: Apache-2.0
"""
To a client the simulated cell is the UR driver: its interface, through real rclpy and DDS.

How goals begin and end is in `test_driver_goals.py`.

"""

import math
import signal

import numpy as np
import pace
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: make setup')

from control_msgs.msg import JointTrajectoryControllerState
from control_msgs.srv import QueryTrajectoryState
from controller_manager_msgs.srv import ListControllers, SwitchController
from driver_client import IO, JOINT_NAMES, SCALED, SHUTDOWN, DriverProcess, goal, rest
from geometry_msgs.msg import PoseStamped
from independent_arm import URDF_POSES
from lone_driver import FREEDRIVE, REACHED, THERE, UNSCALED, VELOCITY, states
from lone_driver import cell as cell
from lone_driver import driver as driver
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from ur_dashboard_msgs import srv as dashboard_srv
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_msgs.msg import Analog, ToolDataMsg
from ur_msgs.srv import SetAnalogOutput, SetPayload

from ur5_pick_place.kinematics import HOME, forward, load_model

pytestmark = pytest.mark.nodes


def _seconds(duration):
    return duration.sec + duration.nanosec * 1e-9


# -- topics -------------------------------------------------------------------------------------


def test_joint_states_are_alphabetical_at_125_hz(cell):
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


def test_the_clock_shows_the_time_of_the_joints(cell):
    clocks = cell.collect(Clock, '/clock', 10)
    cell.run(0.5)
    times = np.array([_seconds(c.clock) for c in clocks])
    assert times[-1] == pytest.approx(cell.time, abs=0.1)
    assert np.median(np.diff(times)) == pytest.approx(0.008, abs=1e-6)
    stamps = {round(_seconds(m.header.stamp), 6) for m in cell.joints}
    # A busy machine may lose a message of either topic, but not most.
    assert np.mean([round(t, 6) in stamps for t in times]) > 0.7


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


def test_io_states_come_at_125_hz(cell):
    rates = []
    for _ in range(5):  # a busy machine loses messages now and then, but makes none up
        start, count = cell.time, len(cell.io)
        cell.run(0.5)
        rates.append((len(cell.io) - count) / (cell.time - start))
    assert max(rates) == pytest.approx(125, rel=0.05)


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


# -- pins, supply, payload ----------------------------------------------------------------------


@pytest.mark.parametrize('pin', [0, 7, 15, 17])
def test_an_output_is_confirmed_by_io_states_not_by_the_answer(cell, pin):
    for state in (True, False):
        assert cell.set_io(1, pin, state)
        cell.until(lambda s=state: cell.output(pin) is s, f'pin {pin}')


def test_a_pin_changes_after_the_answer(cell):
    before = cell.time
    assert cell.set_io(1, 3, 1.0)
    cell.until(lambda: cell.output(3), 'pin 3')
    changed = next(t for t, m in cell.io if t >= before and m.digital_out_states[3].state)
    assert 0.05 <= changed - before <= 0.2
    assert cell.set_io(1, 3, 0.0)


@pytest.mark.parametrize(
    ('fun', 'pin', 'state'),
    [(1, -1, 1), (1, 18, 1), (2, 0, 1), (3, 0, 1.5), (3, 3, 0.5), (4, 0, 5), (9, 0, 1)],
)
def test_what_set_io_cannot_do_is_refused(cell, fun, pin, state):
    assert not cell.set_io(fun, pin, state)


def test_tool_voltage_shows_in_tool_data_and_its_loss_drops_the_tool_outputs(cell):
    tool = cell.collect(ToolDataMsg, f'{IO}/tool_data', 10)
    assert cell.set_io(4, 0, 24)
    cell.until(lambda: tool and tool[-1].tool_output_voltage == 24, '24 V')
    assert cell.set_io(1, 16, 1)
    cell.until(lambda: cell.output(16), 'tool output 0')
    assert cell.set_io(4, 0, 0)
    cell.until(lambda: tool[-1].tool_output_voltage == 0, '0 V')
    cell.until(lambda: not cell.output(16), 'tool output 0 to drop')


def test_the_gripper_closes_on_tool_output_0_and_reports_no_part_where_there_is_none(cell):
    fingers = cell.collect(JointState, 'sim_driver/finger_states', 10)
    assert cell.set_io(4, 0, 24) and cell.set_io(1, 16, 1)
    cell.until(lambda: fingers and min(fingers[-1].position) > 0.03, 'the fingers to close')
    assert not cell.io[-1][1].digital_in_states[16].state
    assert cell.set_io(1, 16, 0)
    cell.until(lambda: max(fingers[-1].position) < 0.001, 'the fingers to open')
    assert cell.set_io(4, 0, 0)


def test_analog_outputs_show_domain_and_fraction(cell):
    name = f'{IO}/set_analog_output'
    good = Analog(pin=1, domain=Analog.CURRENT, state=0.25)
    assert cell.call(SetAnalogOutput, name, data=good).success
    assert not cell.call(SetAnalogOutput, name, data=Analog(pin=2, state=0.25)).success
    cell.until(lambda: cell.io[-1][1].analog_out_states[1].state == 0.25, 'analog output 1')
    assert cell.io[-1][1].analog_out_states[1].domain == Analog.CURRENT
    assert cell.set_io(3, 1, 0.0)


def test_a_payload_is_taken_and_a_sensor_that_is_not_there_refused(cell):
    request = SetPayload.Request(mass=0.08)
    request.center_of_gravity.z = 0.145
    assert cell.call(SetPayload, f'{IO}/set_payload', request).success
    assert not cell.call(SetPayload, f'{IO}/set_payload', mass=-1.0).success
    answer = cell.call(Trigger, f'{IO}/zero_ftsensor')
    assert not answer.success and answer.message == ''


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


def test_a_second_motion_controller_is_refused(cell):
    answer = cell.switch(on=[VELOCITY])
    assert not answer.ok and VELOCITY in answer.message
    assert not cell.switch(on=['nonsense']).ok
    assert not cell.switch(on=[SCALED]).ok
    assert cell.switch(on=[SCALED], strictness=SwitchController.Request.BEST_EFFORT).ok
    assert states(cell)[SCALED] == 'active' and states(cell)[VELOCITY] == 'inactive'


def test_a_velocity_is_held_until_the_controller_is_switched_off(cell):
    publisher = cell.node.create_publisher(Float64MultiArray, f'{VELOCITY}/commands', 10)
    cell.until(lambda: publisher.get_subscription_count(), 'the topic')
    publisher.publish(Float64MultiArray(data=[0.5] * 6))  # lost: not active yet
    cell.run(0.3)
    assert cell.switch(on=[VELOCITY], off=[SCALED]).ok
    cell.run(0.3)
    assert abs(cell.qd).max() < 1e-3
    publisher.publish(Float64MultiArray(data=[0.2, 0.0, 0.0, 0.0, 0.0, -0.2]))
    cell.run(0.5)
    publisher.publish(Float64MultiArray(data=[math.nan] * 6))
    publisher.publish(Float64MultiArray(data=[1.0]))
    cell.run(0.3)
    assert cell.qd == pytest.approx([0.2, 0, 0, 0, 0, -0.2], abs=0.01)
    assert cell.switch(on=[SCALED], off=[VELOCITY]).ok
    cell.run(0.3)
    assert abs(cell.qd).max() < 1e-3


def claims(cell):
    found = cell.call(ListControllers, 'controller_manager/list_controllers').controller
    return {c.name: list(c.claimed_interfaces) for c in found if c.claimed_interfaces}


def test_freedrive_lasts_while_it_is_asked_for(cell):
    publisher = cell.node.create_publisher(Bool, f'{FREEDRIVE}/enable_freedrive_mode', 10)
    cell.until(lambda: publisher.get_subscription_count(), 'the topic')
    assert cell.switch(on=[FREEDRIVE], off=[SCALED]).ok
    assert claims(cell) == {
        FREEDRIVE: [f'freedrive_mode/{name}' for name in ('async_success', 'enable', 'abort')]
    }
    publisher.publish(Bool(data=True))
    cell.run(0.5)
    assert cell.q == pytest.approx(HOME, abs=0.01)  # gravity is compensated
    assert not cell.send(goal(rest(THERE, 1.0))).accepted
    publisher.publish(Bool(data=False))
    assert cell.switch(on=[SCALED], off=[FREEDRIVE]).ok
    assert cell.result(cell.send(goal(rest(HOME, 1.0)))) == REACHED


# -- frames and truth ---------------------------------------------------------------------------


@pytest.mark.parametrize(('q', 'position', 'quat_xyzw'), URDF_POSES[1:])
def test_tf_puts_tool0_where_the_robot_description_does(cell, q, position, quat_xyzw):
    """The first of them, all zero, lies in the table; test_arm_frames has it."""
    tf2_ros = pytest.importorskip('tf2_ros')
    from rclpy.time import Time

    buffer = tf2_ros.Buffer()
    listener = tf2_ros.TransformListener(buffer, cell.node)
    cell.move(np.array(q, dtype=float), duration=1.5)
    cell.run(0.2)
    found = buffer.lookup_transform('base_link', 'tool0', Time()).transform
    listener.unregister()
    p, r = found.translation, found.rotation
    assert (p.x, p.y, p.z) == pytest.approx(position, abs=2e-3)
    assert abs(np.dot((r.x, r.y, r.z, r.w), quat_xyzw)) == pytest.approx(1.0, abs=1e-5)


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


def test_the_part_is_where_it_is_put(cell):
    poses = cell.collect(PoseStamped, 'sim_driver/part_pose', 10)
    publisher = cell.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
    cell.until(lambda: publisher.get_subscription_count() and poses, 'the topics')
    spot = PoseStamped()
    spot.pose.position.x, spot.pose.position.y, spot.pose.position.z = 0.4, 0.25, 0.0225
    spot.pose.orientation.z = math.sin(0.3)
    spot.pose.orientation.w = math.cos(0.3)
    publisher.publish(spot)
    cell.run(0.5)
    pose = poses[-1].pose
    assert poses[-1].header.frame_id == 'base_link'
    assert (pose.position.x, pose.position.y) == pytest.approx((0.4, 0.25), abs=1e-3)
    assert 2 * math.atan2(pose.orientation.z, pose.orientation.w) == pytest.approx(0.6, abs=0.01)


def test_a_part_is_gripped_and_reported_on_the_tool_input(cell):
    """Put the cube between the fingers in the air and close: the switch on input 16 tells."""
    publisher = cell.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
    cell.until(lambda: publisher.get_subscription_count(), 'the topic')
    T = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(load_model('ur5'), cell.q)
    tcp = T[:3, 3] + 0.145 * T[:3, 2]
    spot = PoseStamped()
    spot.pose.position.x, spot.pose.position.y, spot.pose.position.z = (float(v) for v in tcp)
    assert cell.set_io(4, 0, 24) and cell.set_io(1, 16, 1)
    cell.until(lambda: cell.output(16), 'the command to close')
    start = cell.time
    while not cell.io[-1][1].digital_in_states[16].state:
        assert cell.time - start < 2.0, 'the part is not reported'
        if cell.time - start < 0.3:  # hold it there until the fingers are closed
            publisher.publish(spot)
        cell.run(0.016)
    assert cell.set_io(1, 16, 0)
    cell.until(lambda: not cell.io[-1][1].digital_in_states[16].state, 'the part to be let go')
    assert cell.set_io(4, 0, 0)


# -- the process --------------------------------------------------------------------------------


@pytest.mark.drill
@pytest.mark.parametrize('how', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_second_cell_in_its_namespace_cleanly(cell, how):
    process = DriverProcess(
        '-r', '__ns:=/cell2', '-r', '/clock:=clock', '-r', '/tf:=tf', '-r', '/tf_static:=tf_static'
    )
    heard = cell.collect(JointState, '/cell2/joint_states')
    try:
        cell.until(lambda: heard, 'the second cell')
        cell.run(0.5)
        names = {
            name
            for name, _ in cell.node.get_topic_names_and_types()
            + cell.node.get_service_names_and_types()
        }
        assert {'/cell2/clock', '/cell2/tf', f'/cell2/{IO}/set_io'} <= names
        clocks = cell.node.get_publishers_info_by_topic('/clock')
        assert [info.node_namespace for info in clocks] == ['/']
    finally:
        code, taken, errors = process.stop(how)
    assert code == 0 and taken < pace.wall(SHUTDOWN), errors
    assert 'Traceback' not in errors


@pytest.mark.parametrize(
    ('parameter', 'words'),
    [
        ('real_time_factor:=50.0', 'real_time_factor'),
        ('controller:=nonsense', 'controller'),
        ('real_time_facto:=1.0', 'did you mean real_time_factor'),
        ('part_x:=9.0', 'part_x'),
    ],
)
def test_a_bad_parameter_is_refused_with_its_name(ros_domain, parameter, words):
    process = DriverProcess('-p', parameter)
    code, errors = process.wait(15.0)
    assert code == 2
    assert words in errors and 'Traceback' not in errors
