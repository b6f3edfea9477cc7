# SPDX-License-Identifier: Apache-2.0
"""Move joint 1 by 0.2 rad and back as any MoveIt client does: by goals of `move_action`."""

import sys

import rclpy
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint
from rclpy.action import ActionClient
from rclpy.wait_for_message import wait_for_message
from sensor_msgs.msg import JointState

rclpy.init()
node = rclpy.create_node('moveit_client')
present = JointState()
while 'shoulder_pan_joint' not in present.name:  # a gripper may publish its joint too
    came, present = wait_for_message(JointState, node, 'joint_states', time_to_wait=10.0)
    if not came:
        sys.exit('no joint_states within 10 s: start the cell')
joints = [
    JointConstraint(joint_name=name, position=position, weight=1.0)
    for name, position in zip(present.name, present.position, strict=True)
]
client = ActionClient(node, MoveGroup, 'move_action')
client.wait_for_server()
for change in (0.2, -0.2):  # [rad]
    joints[present.name.index('shoulder_pan_joint')].position += change
    goal = MoveGroup.Goal()  # planning_options.plan_only = True would plan alone
    goal.request.goal_constraints = [Constraints(joint_constraints=joints)]
    goal.request.max_velocity_scaling_factor = 0.3  # 0 = the planner's default
    sent = client.send_goal_async(goal)
    rclpy.spin_until_future_complete(node, sent)
    ended = sent.result().get_result_async()
    rclpy.spin_until_future_complete(node, ended)
    code = ended.result().result.error_code
    if code.val != code.SUCCESS:
        sys.exit(f'error {code.val}: {code.message}')
    print('it is there')
