# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for what the Python registry lacks are what a ROS 2 installation would have."""

import itertools
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

pytest.importorskip('rclpy')

import rclpy
import tf2_ros
from ament_index_python.packages import get_package_share_directory
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.srv import SwitchController
from geometry_msgs.msg import TransformStamped
from moveit_msgs.msg import MoveItErrorCodes
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.time import Time
from ur_dashboard_msgs.msg import ProgramState, RobotMode
from ur_msgs.srv import SetIO

REPO = Path(__file__).resolve().parents[2]
VENV = REPO / '.venv'

if not Path(tf2_ros.__file__).is_relative_to(REPO / 'underlay'):
    pytest.skip('a ROS 2 installation brings the real ones', allow_module_level=True)

# Hashes of the type descriptions (fields, their types and order, and all they contain), computed
# from the definitions of the releases themselves: moveit_msgs 2.6.0, control_msgs 6.8.0, ...
HASHES = json.loads((REPO / 'test/data/interface_hashes.json').read_text())


# ---- interfaces


def hash_of(name):
    package, kind, stem = name.split('/')
    description = Path(get_package_share_directory(package), kind, f'{stem}.json').read_text()
    hashes = {h['type_name']: h['hash_string'] for h in json.loads(description)['type_hashes']}
    return hashes[name]


def test_every_type_has_the_hash_of_its_release():
    assert {name: hash_of(name) for name in HASHES} == HASHES


def test_every_definition_is_among_the_hashes():
    files = [f for kind in ('msg', 'srv', 'action') for f in REPO.glob(f'underlay/*/{kind}/*')]
    assert {f'{f.parts[-3]}/{f.parts[-2]}/{f.stem}' for f in files} == set(HASHES)


@pytest.mark.parametrize(
    ('owner', 'name', 'value'),
    [
        (FollowJointTrajectory.Result, 'GOAL_TOLERANCE_VIOLATED', -5),
        (FollowJointTrajectory.Result, 'PATH_TOLERANCE_VIOLATED', -4),
        (MoveItErrorCodes, 'SUCCESS', 1),
        (MoveItErrorCodes, 'FAILURE', 99999),
        (MoveItErrorCodes, 'NO_IK_SOLUTION', -31),
        (MoveItErrorCodes, 'INVALID_LINK_NAME', -18),
        (ProgramState, 'PLAYING', 'PLAYING'),
        (RobotMode, 'NO_CONTROLLER', -1),
        (RobotMode, 'RUNNING', 7),
        (SetIO.Request, 'FUN_SET_TOOL_VOLTAGE', 4),
        (SetIO.Request, 'PIN_TOOL_DOUT0', 16),
        (SetIO.Request, 'STATE_TOOL_VOLTAGE_24V', 24),
        (SwitchController.Request, 'STRICT', 2),
        (SwitchController.Request, 'FORCE_AUTO', 4),
    ],
)
def test_a_constant_which_no_hash_covers_has_its_value(owner, name, value):
    assert getattr(owner, name) == value


# ---- the environment


def in_a_bare_shell(code: str) -> str:
    done = subprocess.run(
        [VENV / 'bin/python', '-c', code], env={}, cwd='/', capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


needs_venv = pytest.mark.skipif(Path(sys.prefix) != VENV, reason='not run from .venv')


@needs_venv
def test_everything_imports_with_nothing_sourced():
    in_a_bare_shell(
        'import rclpy, moveit_msgs.srv, control_msgs.action, ur_msgs.srv, tf2_ros, ur5_pick_place'
    )


@needs_venv
def test_a_process_discovers_fast_and_on_this_machine_only():
    names = ('FASTDDS_DEFAULT_PROFILES_FILE', 'ROS_AUTOMATIC_DISCOVERY_RANGE')
    values = in_a_bare_shell(f'import os; print(*(os.environ[n] for n in {names}))').split()
    assert values == [str(REPO / 'underlay/fastdds.xml'), 'LOCALHOST']


@needs_venv
def test_what_the_user_has_set_stays():
    command = [VENV / 'bin/python', '-c', 'import os; print(os.environ["ROS_DOMAIN_ID"], '
               'os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"])']
    env = {**os.environ, 'ROS_DOMAIN_ID': '42', 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'SUBNET'}
    assert subprocess.check_output(command, env=env, text=True).split() == ['42', 'SUBNET']


@needs_venv
def test_ament_finds_the_package_and_launch_its_programs():
    share = in_a_bare_shell(
        'from ament_index_python import get_package_share_directory as g; '
        "print(g('ur5_pick_place'))"
    )
    assert Path(share, 'config/pick_place.yaml').exists()
    for program in ('sim_driver', 'trajectory_planner', 'pick_place', 'ik_service'):
        assert os.access(VENV / 'lib/ur5_pick_place' / program, os.X_OK)
        assert os.access(VENV / 'bin' / program, os.X_OK)


# ---- tf2_ros: the buffer


def stamped(parent, child, t, p=(0.0, 0.0, 0.0), rotation=None):
    """Return T_parent_child at t [s]."""
    message = TransformStamped()
    message.header.stamp = Time(seconds=t).to_msg()
    message.header.frame_id, message.child_frame_id = parent, child
    out = message.transform
    out.translation.x, out.translation.y, out.translation.z = map(float, p)
    q = (rotation or Rotation.identity()).as_quat()
    out.rotation.x, out.rotation.y, out.rotation.z, out.rotation.w = map(float, q)
    return message


def matrix(message):
    p, q = message.transform.translation, message.transform.rotation
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
    T[:3, 3] = p.x, p.y, p.z
    return T


def seconds(message):
    return Time.from_msg(message.header.stamp).nanoseconds * 1e-9


@pytest.fixture
def buffer():
    return tf2_ros.Buffer()


def random_chain(rng, buffer, names, t=1.0):
    """Hang each name below the one before it at random; return the matrices T_before_name."""
    matrices = []
    for parent, child in itertools.pairwise(names):
        message = stamped(parent, child, t, rng.normal(size=3), Rotation.random(rng=rng))
        buffer.set_transform(message, 'test')
        matrices.append(matrix(message))
    return matrices


def test_a_chain_is_the_product_of_its_links(buffer, rng):
    T_a_b, T_b_c, T_c_d = random_chain(rng, buffer, 'abcd')
    found = buffer.lookup_transform('a', 'd', Time())
    np.testing.assert_allclose(matrix(found), T_a_b @ T_b_c @ T_c_d, atol=1e-12)
    assert (found.header.frame_id, found.child_frame_id) == ('a', 'd')


def test_two_branches_meet_in_their_common_ancestor(buffer, rng):
    T_root_left, T_left_l = random_chain(rng, buffer, ['root', 'left', 'l'])
    T_root_right, T_right_r = random_chain(rng, buffer, ['root', 'right', 'r'])
    expected = np.linalg.inv(T_root_left @ T_left_l) @ T_root_right @ T_right_r
    found = buffer.lookup_transform('l', 'r', Time())
    np.testing.assert_allclose(matrix(found), expected, atol=1e-12)


def test_the_way_back_is_the_inverse(buffer, rng):
    random_chain(rng, buffer, 'abc')
    there = matrix(buffer.lookup_transform('a', 'c', Time()))
    back = matrix(buffer.lookup_transform('c', 'a', Time()))
    np.testing.assert_allclose(there @ back, np.eye(4), atol=1e-12)


@pytest.mark.parametrize('ratio', [0.0, 0.2, 0.5, 0.9, 1.0])
def test_between_two_stamps_it_goes_straight_and_turns_evenly(buffer, rng, ratio):
    turns = Rotation.random(2, rng=rng)
    places = rng.normal(size=(2, 3))
    for t, p, turn in zip((1.0, 2.0), places, turns, strict=True):
        buffer.set_transform(stamped('a', 'b', t, p, turn), 'test')
    found = matrix(buffer.lookup_transform('a', 'b', Time(seconds=1.0 + ratio)))
    np.testing.assert_allclose(found[:3, 3], (1 - ratio) * places[0] + ratio * places[1])
    expected = Slerp([0.0, 1.0], turns)([ratio])[0].as_matrix()
    np.testing.assert_allclose(found[:3, :3], expected, atol=1e-12)


def test_a_quaternion_of_the_other_sign_is_the_same_turn(buffer):
    first = stamped('a', 'b', 1.0, rotation=Rotation.from_euler('z', 10, degrees=True))
    second = stamped('a', 'b', 2.0, rotation=Rotation.from_euler('z', 30, degrees=True))
    q = second.transform.rotation
    q.x, q.y, q.z, q.w = -q.x, -q.y, -q.z, -q.w
    for message in (first, second):
        buffer.set_transform(message, 'test')
    found = matrix(buffer.lookup_transform('a', 'b', Time(seconds=1.5)))
    assert math.degrees(math.atan2(found[1, 0], found[0, 0])) == pytest.approx(20.0)


def test_time_zero_means_the_newest_that_all_links_have_reached(buffer):
    for t in (1.0, 2.0, 3.0):
        buffer.set_transform(stamped('a', 'b', t, (t, 0, 0)), 'test')
    for t in (1.0, 2.0):
        buffer.set_transform(stamped('b', 'c', t), 'test')
    buffer.set_transform_static(stamped('c', 'd', 0.0), 'test')
    found = buffer.lookup_transform('a', 'd', Time())
    assert (seconds(found), found.transform.translation.x) == (2.0, 2.0)


def test_links_above_the_common_ancestor_do_not_matter(buffer):
    buffer.set_transform(stamped('world', 'base', 1.0), 'test')
    for t in (5.0, 6.0):
        buffer.set_transform(stamped('base', 'tool', t), 'test')
    assert seconds(buffer.lookup_transform('base', 'tool', Time())) == 6.0
    assert buffer.can_transform('base', 'tool', Time(seconds=5.5))
    assert not buffer.can_transform('world', 'tool', Time(seconds=5.5))


def test_a_static_link_holds_at_every_time(buffer):
    buffer.set_transform_static(stamped('a', 'b', 7.0, (1, 2, 3)), 'test')
    for t in (0.0, 1.0, 1e6):
        assert buffer.lookup_transform('a', 'b', Time(seconds=t)).transform.translation.z == 3.0


def test_a_frame_in_itself_is_where_it_is(buffer):
    buffer.set_transform(stamped('a', 'b', 4.0, (1, 0, 0)), 'test')
    found = buffer.lookup_transform('b', 'b', Time())
    np.testing.assert_array_equal(matrix(found), np.eye(4))
    assert seconds(found) == 4.0


@pytest.mark.parametrize('t', [0.5, 3.5])
def test_outside_the_known_time_nothing_is_guessed(buffer, t):
    for stamp in (1.0, 2.0, 3.0):
        buffer.set_transform(stamped('a', 'b', stamp), 'test')
    with pytest.raises(tf2_ros.ExtrapolationException, match=r'from 1\.0+ to 3\.0+ s'):
        buffer.lookup_transform('a', 'b', Time(seconds=t))


def test_late_arrivals_find_their_place_and_the_cache_forgets(rng):
    buffer = tf2_ros.Buffer(cache_time=Duration(seconds=2))
    stamps = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    for t in rng.permutation(stamps[2:]):
        buffer.set_transform(stamped('a', 'b', t, (t, 0, 0)), 'test')
    buffer.set_transform(stamped('a', 'b', 1.0, (99, 0, 0)), 'test')  # too old
    for t in (1.75, 1.0):
        assert not buffer.can_transform('a', 'b', Time(seconds=t))
    for t in (2.25, 3.1):
        found = buffer.lookup_transform('a', 'b', Time(seconds=t))
        assert found.transform.translation.x == pytest.approx(t)
    buffer.set_transform(stamped('a', 'b', 4.6), 'test')
    assert not buffer.can_transform('a', 'b', Time(seconds=2.25))


def test_a_second_transform_of_one_stamp_replaces_the_first(buffer):
    for x in (1, 2):
        buffer.set_transform(stamped('a', 'b', 1.0, (x, 0, 0)), 'test')
    found = buffer.lookup_transform('a', 'b', Time(seconds=1.0))
    assert found.transform.translation.x == 2.0


@pytest.mark.parametrize(
    ('target', 'source', 'error', 'message'),
    [
        ('a', 'nowhere', tf2_ros.LookupException, "'nowhere' does not exist; known frames: a, b"),
        ('a', 'y', tf2_ros.ConnectivityException, 'two unconnected trees'),
        ('/a', 'b', tf2_ros.InvalidArgumentException, "'/a': must be a name without"),
        ('a', '', tf2_ros.InvalidArgumentException, "'': must be a name without"),
    ],
)
def test_each_failure_has_its_exception(buffer, target, source, error, message):
    buffer.set_transform(stamped('a', 'b', 1.0), 'test')
    buffer.set_transform(stamped('x', 'y', 1.0), 'test')
    with pytest.raises(error, match=message):
        buffer.lookup_transform(target, source, Time())
    assert issubclass(error, tf2_ros.TransformException)
    assert not buffer.can_transform(target, source, Time())


def test_a_loop_is_refused(buffer):
    buffer.set_transform(stamped('a', 'b', 1.0), 'test')
    buffer.set_transform(stamped('b', 'a', 1.0), 'test')
    buffer.set_transform(stamped('x', 'y', 1.0), 'test')
    with pytest.raises(tf2_ros.LookupException, match='a loop'):
        buffer.lookup_transform('x', 'a', Time())


def faulty(change):
    message = stamped('a', 'b', 1.0)
    change(message)
    return message


@pytest.mark.parametrize(
    'change',
    [
        lambda m: setattr(m.transform.translation, 'x', math.nan),
        lambda m: setattr(m.transform.rotation, 'w', 1.1),
        lambda m: setattr(m.transform.rotation, 'w', 0.0),
        lambda m: setattr(m, 'child_frame_id', 'a'),
        lambda m: setattr(m, 'child_frame_id', ''),
        lambda m: setattr(m.header, 'frame_id', ''),
    ],
)
def test_a_malformed_transform_is_not_taken_in(buffer, change):
    buffer.set_transform(faulty(change), 'test')
    assert not buffer.can_transform('a', 'b', Time())


def test_a_lookup_waits_until_its_time_is_known(buffer):
    rclpy.init()
    try:
        buffer.set_transform(stamped('a', 'b', 1.0), 'test')
        later = threading.Timer(0.1, lambda: buffer.set_transform(stamped('a', 'b', 3.0), 'test'))
        later.start()
        assert buffer.can_transform('a', 'b', Time(seconds=2.0), Duration(seconds=20.0))
        assert not buffer.can_transform('a', 'b', Time(seconds=9.0), Duration(seconds=0.05))
    finally:
        rclpy.shutdown()


def test_clearing_keeps_what_is_static(buffer):
    buffer.set_transform(stamped('a', 'b', 1.0), 'test')
    buffer.set_transform_static(stamped('b', 'c', 0.0), 'test')
    buffer.clear()
    assert not buffer.can_transform('a', 'b', Time())
    assert buffer.can_transform('b', 'c', Time())


# ---- tf2_ros: over DDS


@pytest.fixture
def node(ros_domain):
    rclpy.init(domain_id=ros_domain)
    node = rclpy.create_node('underlay_test')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    yield node
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()


def spin_until(node, condition, timeout_sec=20.0):
    clock = rclpy.clock.Clock(clock_type=rclpy.clock.ClockType.STEADY_TIME)
    end = clock.now() + Duration(seconds=timeout_sec)
    while not condition():
        assert clock.now() < end, 'nothing arrived'
        node.executor.spin_once(timeout_sec=0.05)


def test_what_is_sent_is_found(node):
    moving, fixed = tf2_ros.TransformBroadcaster(node), tf2_ros.StaticTransformBroadcaster(node)
    fixed.sendTransform(stamped('world', 'base', 0.0, (0, 0, 1)))
    fixed.sendTransform([stamped('tool', 'tcp', 0.0, (0, 0, 2)), stamped('x', 'y', 0.0)])
    buffer = tf2_ros.Buffer()
    listener = tf2_ros.TransformListener(buffer, node)  # later than what it hears of the static

    def arrived():
        moving.sendTransform(stamped('base', 'tool', 1.0, (0, 0, 4)))
        return buffer.can_transform('world', 'tcp', Time()) and buffer.can_transform(
            'x', 'y', Time()
        )

    spin_until(node, arrived)
    found = buffer.lookup_transform('world', 'tcp', Time())
    assert found.transform.translation.z == 7.0
    listener.unregister()
    assert not node.get_subscriptions_info_by_topic('/tf_static')


def test_a_static_transform_sent_again_is_replaced(node):
    fixed = tf2_ros.StaticTransformBroadcaster(node)
    for x in (1, 2):
        fixed.sendTransform(stamped('a', 'b', 0.0, (x, 0, 0)))
    buffer = tf2_ros.Buffer()
    listener = tf2_ros.TransformListener(buffer, node)
    spin_until(node, lambda: buffer.can_transform('a', 'b', Time()))
    assert buffer.lookup_transform('a', 'b', Time()).transform.translation.x == 2.0
    listener.unregister()


def test_a_listener_with_its_own_thread_needs_nobody_to_spin(ros_domain):
    rclpy.init(domain_id=ros_domain)
    node = rclpy.create_node('underlay_test_thread')
    buffer = tf2_ros.Buffer()
    listener = tf2_ros.TransformListener(buffer, node, spin_thread=True)
    tf2_ros.StaticTransformBroadcaster(node).sendTransform(stamped('a', 'b', 0.0))
    assert buffer.can_transform('a', 'b', Time(), Duration(seconds=20.0))
    listener.unregister()
    node.destroy_node()
    rclpy.shutdown()
