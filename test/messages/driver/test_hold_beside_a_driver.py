# SPDX-License-Identifier: Apache-2.0
"""Beside another driver no hold command is sent: its joints may be of the other arm."""

import time
from types import SimpleNamespace

import numpy as np
import rclpy
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.driver.trajectory_controller import TrajectoryController
from ur5_pick_place.nodes.ros.executor import SerialNode

CONTROLLER = 'scaled_joint_trajectory_controller'


def test_a_hold_is_sent_to_one_driver_and_not_beside_another(ros_domain: int) -> None:
    rclpy.init()
    node, held = SerialNode('planner'), []
    driver = SimpleNamespace(problem='', has_another=True)
    controller = TrajectoryController(
        SimpleNamespace(
            node=node,
            joint_names=tuple(JOINT_NAMES),
            robot=SimpleNamespace(controller=CONTROLLER),
            model=SimpleNamespace(cycle=CYCLE),
        ),
        ControllerManager(node),
        TrackingSettings(),
        driver,
    )
    node.create_subscription(JointTrajectory, f'{CONTROLLER}/joint_trajectory', held.append, 1)

    def hold(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not held:
            controller.hold(HOME)
            rclpy.spin_once(node, timeout_sec=0.05)

    try:
        hold(1.0)
        assert not held
        driver.has_another = False
        hold(10.0)
        np.testing.assert_allclose(held[0].points[0].positions, HOME)
    finally:
        node.destroy_node()
        rclpy.shutdown()
