# SPDX-License-Identifier: Apache-2.0
"""What surrounds the simulated arm, through DDS: a button at an input, and several cubes."""

import numpy as np
import pytest
import yaml
from driver_client import running_driver
from geometry_msgs.msg import PoseArray, PoseStamped
from std_srvs.srv import Trigger
from ur_msgs.srv import SetIO

from ur5_pick_place.config_files import read_yaml, share_directory

FED = (0.4, -0.2)
STEP = {'name': 'step', 'position': [0.45, 0.0, 0.05], 'size': [0.1, 0.1, 0.1]}


@pytest.fixture(scope='module')
def client(ros_domain, tmp_path_factory):
    """A client of a cell with a prefix, two cubes and a box; slow as nothing moves."""
    file = tmp_path_factory.mktemp('cell') / 'scene.yaml'
    scene = read_yaml(share_directory() / 'config/scene_sim.yaml', 'scene file')
    file.write_text(yaml.safe_dump({**scene, 'boxes': [STEP]}))
    settings = {
        'real_time_factor': 0.2,
        'parts': 2,
        'part_x': FED[0],
        'part_y': FED[1],
        'tf_prefix': 'left_',
        'scene_file': file,
    }
    words = [word for name, value in settings.items() for word in ('-p', f'{name}:={value}')]
    with running_driver(*words) as client:
        client.cubes = client.collect(PoseArray, 'sim_driver/part_poses', 10)
        client.place = client.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
        client.until(lambda: client.cubes and client.place.get_subscription_count())
        yield client


def test_a_button_switches_an_input_that_io_states_shows(client):
    for state in (1.0, 0.0):
        assert client.call(SetIO, 'sim_driver/switch_input', pin=3, state=state).success
        client.until(
            lambda s=state: client.io[-1][1].digital_in_states[3].state == bool(s), 'the input'
        )


@pytest.mark.parametrize('pin', [-1, 16, 17, 18])
def test_an_input_of_the_gripper_or_none_at_all_is_not_switched(client, pin):
    assert not client.call(SetIO, 'sim_driver/switch_input', pin=pin, state=1.0).success


def lies_at(client, x, y, yaw=None):
    pose = client.cubes[-1].poses[0]
    found = 2.0 * np.arctan2(pose.orientation.z, pose.orientation.w)
    is_turned = yaw is None or abs(np.sin((found - yaw) / 2)) < 0.01
    return is_turned and np.hypot(pose.position.x - x, pose.position.y - y) < 1e-3


@pytest.mark.parametrize(
    ('frame', 'x', 'y', 'yaw'),
    [
        ('', 0.4, 0.2, np.pi / 2),
        ('left_base_link', 0.45, 0.2, np.pi / 2),
        ('base_link', 0.4, 0.25, np.pi / 2),
        ('world', 0.45, 0.25, np.pi / 2),
        ('left_base', -0.4, -0.25, -np.pi / 2),
    ],
)
def test_a_part_is_placed_in_the_frame_that_is_given(client, frame, x, y, yaw):
    place(client, frame, x, y)
    sign = -1.0 if frame == 'left_base' else 1.0  # which is turned by half a turn
    client.until(lambda: lies_at(client, sign * x, sign * y, yaw), 'the part')


def place(client, frame, x, y, z=0.0225):
    message = PoseStamped()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y, message.pose.position.z = x, y, z
    message.pose.orientation.z = message.pose.orientation.w = np.sqrt(0.5)
    client.place.publish(message)


def test_a_cube_stands_on_a_box_of_the_scene_file(client):
    place(client, '', *STEP['position'][:2], 0.13)
    client.until(lambda: lies_at(client, *STEP['position'][:2]), 'the part')
    client.run(0.3)
    assert client.cubes[-1].poses[0].position.z == pytest.approx(0.1225, abs=2e-3)


def test_another_frame_is_refused_and_a_part_is_fed_where_none_lies(client):
    place(client, '', *FED)
    client.until(lambda: len(client.cubes[-1].poses) == 1 and lies_at(client, *FED), 'the part')
    assert not client.call(Trigger, 'sim_driver/feed_part').success, 'one lies there still'
    place(client, 'tool0', 0.5, 0.1)
    client.run(0.2)
    assert lies_at(client, *FED)
    place(client, '', 0.5, 0.1)
    client.until(lambda: lies_at(client, 0.5, 0.1), 'the part aside')
    assert client.call(Trigger, 'sim_driver/feed_part').success
    client.until(lambda: len(client.cubes[-1].poses) == 2, 'both')
