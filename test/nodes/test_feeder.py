# SPDX-License-Identifier: Apache-2.0
"""The feeder of the simulated cell, seen by a client over real DDS."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='needs ROS 2: make setup')

from driver_client import running_driver
from geometry_msgs.msg import PoseStamped
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.nodes, pytest.mark.drill]
FEEDER, ASIDE = (0.4, 0.1), (0.5, -0.2)


@pytest.fixture
def driver(ros_domain):
    place = ('-p', f'part_x:={FEEDER[0]}', '-p', f'part_y:={FEEDER[1]}')
    with running_driver(*place, '-p', 'parts:=2') as client:
        yield client


def test_the_feeder_brings_the_next_part_once_its_place_is_free(driver):
    poses = driver.collect(PoseStamped, 'sim_driver/part_pose', 10)
    refusal = driver.call(Trigger, 'sim_driver/feed_part')
    assert not refusal.success and 'part 1 is 0 mm from the feeder' in refusal.message

    publisher = driver.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
    driver.until(publisher.get_subscription_count, 'place_part to be heard')
    aside = PoseStamped()
    aside.pose.position.x, aside.pose.position.y, aside.pose.position.z = (*ASIDE, 0.0225)
    aside.pose.orientation.w = 1.0
    publisher.publish(aside)
    driver.until(lambda: poses and lies_at(poses[-1], ASIDE), 'the first part aside')

    fed = driver.call(Trigger, 'sim_driver/feed_part')
    assert fed.success and fed.message == 'part 2 of 2'
    driver.until(lambda: lies_at(poses[-1], FEEDER), 'the second part at the feeder')


def lies_at(message, place):
    p = message.pose.position
    return np.linalg.norm([p.x - place[0], p.y - place[1], p.z - 0.0225]) < 1e-3
