# SPDX-License-Identifier: Apache-2.0
"""Move joint 1 by 0.2 rad as any MoveIt client does: by a goal of `move_action`."""

import rclpy
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import Constraints, JointConstraint
from rclpy.action import ActionClient
from rclpy.wait_for_message import wait_for_message
from sensor_msgs.msg import JointState

rclpy.init()
node = rclpy.create_node('moveit_client')
_, present = wait_for_message(JointState, node, 'joint_states', time_to_wait=10.0)
joints = [
    JointConstraint(joint_name=name, position=position, weight=1.0)
    for name, position in zip(present.name, present.position, strict=True)
]
joints[present.name.index('shoulder_pan_joint')].position += 0.2  # [rad]
goal = MoveGroup.Goal()  # planning_options.plan_only = True would plan alone
goal.request.goal_constraints = [Constraints(joint_constraints=joints)]
goal.request.max_velocity_scaling_factor = 0.3  # 0 = the planner's default
client = ActionClient(node, MoveGroup, 'move_action')
client.wait_for_server()
sent = client.send_goal_async(goal)
rclpy.spin_until_future_complete(node, sent)
ended = sent.result().get_result_async()
rclpy.spin_until_future_complete(node, ended)
code = ended.result().result.error_code
print('it is there' if code.val == code.SUCCESS else f'error {code.val}: {code.message}')
