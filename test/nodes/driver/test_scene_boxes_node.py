# SPDX-License-Identifier: Apache-2.0
"""The boxes of the user's scene file are solid in the simulated cell, over real DDS."""

import pytest
import yaml
from driver_client import running_driver
from geometry_msgs.msg import PoseStamped

from ur5_pick_place.config_files import read_yaml, share_directory
from ur5_pick_place.sim.physics.cell import PART_SIZE

pytestmark = pytest.mark.nodes

HEIGHT = 0.1  # [m]


def test_a_cube_stands_on_a_box_of_the_scene_file(ros_domain, tmp_path):
    file, (x, y) = tmp_path / 'scene.yaml', (0.45, 0.1)
    scene = read_yaml(share_directory() / 'config/scene_sim.yaml', 'scene file')
    box = {'name': 'step', 'position': [x, y, HEIGHT / 2], 'size': [0.2, 0.2, HEIGHT]}
    file.write_text(yaml.safe_dump({**scene, 'boxes': [box]}))
    with running_driver('-p', f'scene_file:={file}') as driver:
        publisher = driver.node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
        poses = driver.collect(PoseStamped, 'sim_driver/part_pose', 10)
        driver.until(publisher.get_subscription_count, 'place_part to be received')
        pose = PoseStamped()
        pose.header.frame_id = 'base_link'
        pose.pose.position.x, pose.pose.position.y = x, y
        pose.pose.position.z = HEIGHT + PART_SIZE / 2 + 0.01
        pose.pose.orientation.w = 1.0
        publisher.publish(pose)
        driver.run(1.0)
        at = poses[-1].pose.position
        assert (at.x, at.y) == pytest.approx((x, y), abs=2e-3)
        assert at.z == pytest.approx(HEIGHT + PART_SIZE / 2, abs=2e-3)
