# SPDX-License-Identifier: Apache-2.0
"""Where NumPy is all there is, the IK node still serves, and says what is switched off."""

import subprocess
import sys

# Runs in a process of its own, in which the heavy libraries cannot be imported.
SCRIPT = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('scipy', 'coal', 'pinocchio', 'ruckig', 'mujoco', 'matplotlib'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)


sys.meta_path.insert(0, Missing())

import rclpy
from moveit_msgs.srv import GetPositionIK
from rclpy.executors import SingleThreadedExecutor
from ur5_pick_place.nodes.ik_service.node import IkService

rclpy.init()
executor = SingleThreadedExecutor()
executor.add_node(IkService())
caller = rclpy.create_node('caller')
executor.add_node(caller)
client = caller.create_client(GetPositionIK, 'compute_ik')
assert client.wait_for_service(timeout_sec=20.0)
request = GetPositionIK.Request()
pose = request.ik_request.pose_stamped.pose
pose.position.x, pose.position.y, pose.position.z = 0.45, 0.1, 0.3
pose.orientation.x, pose.orientation.w = 1.0, 0.0
for avoid_collisions in (False, True):
    request.ik_request.avoid_collisions = avoid_collisions
    future = client.call_async(request)
    executor.spin_until_future_complete(future, timeout_sec=10.0)
    reply = future.result()
    print(reply.error_code.val, len(reply.solution.joint_state.position), reply.error_code.message)
executor.shutdown()
rclpy.try_shutdown()
"""


def test_the_ik_service_answers_with_numpy_alone(ros_domain: int) -> None:
    done = subprocess.run(
        [sys.executable, '-c', SCRIPT], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert 'avoid_collisions is switched off: No module named ' in done.stderr
    plain, avoiding = done.stdout.splitlines()
    assert plain.startswith('1 6 left-up-up')
    assert avoiding.startswith('-22 0 collisions cannot be checked, coal is not installed')
