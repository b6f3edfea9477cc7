# SPDX-License-Identifier: Apache-2.0
"""What surrounds the simulated arm, through DDS: a button at an input, and several cubes."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

rclpy = pytest.importorskip('rclpy')

from geometry_msgs.msg import PoseArray, PoseStamped  # noqa: E402
from rclpy.context import Context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402
from ur_msgs.msg import IOStates  # noqa: E402
from ur_msgs.srv import SetIO  # noqa: E402

from ur5_pick_place.nodes.sim.services import Services  # noqa: E402


@pytest.fixture(scope='module')
def client(ros_domain):
    """A client of a simulated cell with two cubes, slowed down as nothing moves."""
    from ur5_pick_place.nodes.sim.driver import SimDriver

    given = ['-p', 'real_time_factor:=0.2', '-p', 'parts:=2', '-p', 'part_x:=0.4']
    rclpy.init(args=['--ros-args', *given])
    driver = SimDriver()
    executor = SingleThreadedExecutor()
    executor.add_node(driver)
    threading.Thread(target=executor.spin, daemon=True).start()
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node('client', context=context)
    spinner = SingleThreadedExecutor(context=context)
    spinner.add_node(node)

    def until(condition):
        deadline = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline, 'timed out'
            spinner.spin_once(timeout_sec=0.05)

    def call(kind, name, **fields):
        client = node.create_client(kind, f'sim_driver/{name}')
        until(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        until(future.done)
        return future.result()

    node.call, node.until = call, until
    yield node
    executor.shutdown()
    driver.destroy_node()
    rclpy.try_shutdown()
    spinner.shutdown()
    node.destroy_node()
    context.try_shutdown()


def test_a_button_switches_an_input_that_io_states_shows(client):
    seen = []
    topic = 'io_and_status_controller/io_states'
    client.create_subscription(IOStates, topic, seen.append, qos_profile_sensor_data)
    for state in (1.0, 0.0):
        assert client.call(SetIO, 'switch_input', pin=3, state=state).success
        client.until(lambda s=state: seen and seen[-1].digital_in_states[3].state == bool(s))


@pytest.mark.parametrize('pin', [-1, 16, 17, 18])
def test_an_input_of_the_gripper_or_none_at_all_is_not_switched(client, pin):
    assert not client.call(SetIO, 'switch_input', pin=pin, state=1.0).success


def test_every_cube_that_was_fed_is_shown(client):
    seen = []
    client.create_subscription(PoseArray, 'sim_driver/part_poses', seen.append, 10)
    client.until(lambda: seen and len(seen[-1].poses) == 1)
    assert seen[-1].poses[0].position.x == pytest.approx(0.4)
    assert not client.call(Trigger, 'feed_part').success, 'the first one lies there still'


@pytest.mark.parametrize(
    ('frame', 'placed'),
    [
        ('', [(0.4, -0.2, np.pi / 2, 0.03)]),
        ('left_base_link', [(0.4, -0.2, np.pi / 2, 0.03)]),
        ('base_link', [(0.4, -0.2, np.pi / 2, 0.03)]),
        ('world', [(0.4, -0.2, np.pi / 2, 0.03)]),
        ('left_base', [(-0.4, 0.2, -np.pi / 2, 0.03)]),
        ('tool0', []),
    ],
)
def test_a_part_is_placed_in_the_frame_that_is_given_or_the_frame_is_refused(frame, placed):
    found, errors = [], []
    world = SimpleNamespace(place_part=lambda *where: found.append(where))
    node = SimpleNamespace(get_logger=lambda: SimpleNamespace(error=errors.append))
    services = object.__new__(Services)
    services._prefix, services._world, services._node = 'left_', world, node
    services._lock = threading.Lock()
    message = PoseStamped()
    message.header.frame_id, p, q = frame, message.pose.position, message.pose.orientation
    p.x, p.y, p.z, q.z, q.w = 0.4, -0.2, 0.03, np.sqrt(0.5), np.sqrt(0.5)
    services._place_part(message)
    np.testing.assert_allclose(found, placed, atol=1e-12)
    if not placed:
        (error,) = errors
        assert "place_part ignored: frame 'tool0': must be left_base_link" in error
