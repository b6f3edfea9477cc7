# SPDX-License-Identifier: Apache-2.0
"""A client of the planner for tests, and the goals and objects that it sends."""

from functools import partial

import numpy as np
from action_msgs.msg import GoalStatus
from driver_client import LATCHED, DriverClient
from geometry_msgs.msg import Pose
from moveit_msgs.action import ExecuteTrajectory, MoveGroup
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    MotionPlanRequest,
    MoveItErrorCodes,
    OrientationConstraint,
    PositionConstraint,
)
from moveit_msgs.srv import GetMotionPlan
from moveit_requests import box_message
from moveit_requests import joint_goal as joints
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.kinematics import HOME, load_model
from ur5_pick_place.kinematics.transforms import tool_down as pose_down
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose

CODE = MoveItErrorCodes
T_BASE_LINK_BASE = np.diag([-1.0, -1.0, 1.0, 1.0])
MODEL = load_model('ur5')
tool_down = partial(pose_down, yaw=0.0)  # of tool0 in base_link
_LATEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


def motion_request(goal: Constraints, start: JointState, scaling: float) -> MotionPlanRequest:
    """Return what pymoveit2 sends: the whole joint state, a workspace, attempts and a time."""
    request = MotionPlanRequest(
        goal_constraints=[goal],
        group_name='ur_manipulator',
        num_planning_attempts=5,
        allowed_planning_time=0.5,
        max_velocity_scaling_factor=scaling,
        max_acceleration_scaling_factor=scaling,
        cartesian_speed_limited_link='tool0',
    )
    workspace = request.workspace_parameters
    workspace.header.frame_id = 'base_link'
    for corner, value in ((workspace.min_corner, -1.0), (workspace.max_corner, 1.0)):
        corner.x = corner.y = corner.z = value
    request.start_state.joint_state = start
    return request


class MoveGroupClient:
    """Asks `move_action` through a `DriverClient`, and keeps what it is told meanwhile."""

    def __init__(self, client) -> None:
        self._client = client
        self.states: list[str] = []
        self._action = ActionClient(
            client.node,
            MoveGroup,
            'move_action',
            goal_service_qos_profile=QoSProfile(depth=1),
            feedback_sub_qos_profile=_LATEST,
            status_sub_qos_profile=_LATEST,
        )

    def start(self, goal: Constraints, scaling: float = 0.0, **options):
        """Send a goal from where the arm is; returns its handle."""
        self._client.until(self._action.server_is_ready, 'move_action')
        wanted = MoveGroup.Goal()
        wanted.request = motion_request(goal, self._client.joints[-1], scaling)
        for name, value in options.items():
            setattr(wanted.planning_options, name, value)
        self.states.clear()
        sent = self._action.send_goal_async(wanted, lambda m: self.states.append(m.feedback.state))
        return self._client.wait(sent, 'the answer to a goal of move_action')

    def end(self, handle) -> tuple[int, MoveGroup.Result]:
        reply = self._client.wait(handle.get_result_async(), 'the end of a goal', 60.0)
        return reply.status, reply.result


class PlannerClient(DriverClient):
    """Asks the planner, and watches the arm meanwhile."""

    def __init__(self, namespace: str = '') -> None:
        super().__init__(namespace)
        self.states: list[str] = []
        for name in ('stop', 'rearm'):  # early, so that replies find their way
            self._clients[f'trajectory_planner/{name}'] = self.node.create_client(
                Trigger, f'trajectory_planner/{name}'
            )
        self.hear(
            String,
            'trajectory_planner/motion_state',
            lambda m: self.states.append(m.data),
            LATCHED,
        )
        self.execute = ActionClient(self.node, ExecuteTrajectory, 'execute_trajectory')
        self.move_group = MoveGroupClient(self)
        create = self.node.create_publisher  # early too: the planner may see it later than it us
        self.event = create(String, 'trajectory_execution_event', 10)
        self.boxes = create(CollisionObject, 'collision_object', 10)

    def wait_until_ready(self) -> None:
        """Wait for driver and planner, and rearm."""
        self.wait_for_driver()
        self.until(lambda: self.states, 'the planner', 60.0)
        self.until(lambda: self.trigger('rearm').success, 'the planner to be ready', 60.0)
        self.state('ready')

    def go_home(self) -> None:
        """Have the planner ready and the arm at home, whatever was before."""
        if self.states[-1] != 'ready':
            self.trigger('rearm')
            self.state('ready')
        if np.abs(self.look() - HOME).max() > 1e-3:
            self.go(HOME)

    def plan(self, constraints, planner_id='PTP', scaling=1.0, **fields):
        request = GetMotionPlan.Request()
        wish = request.motion_plan_request
        wish.planner_id, wish.group_name = planner_id, 'ur_manipulator'
        wish.goal_constraints = [constraints]
        wish.max_velocity_scaling_factor = wish.max_acceleration_scaling_factor = scaling
        for name, value in fields.items():
            setattr(wish, name, value)
        return self.call(GetMotionPlan, 'plan_kinematic_path', request).motion_plan_response

    def start(self, trajectory, controllers=()):
        self.until(self.execute.server_is_ready, 'execute_trajectory')
        goal = ExecuteTrajectory.Goal(trajectory=trajectory, controller_names=controllers)
        return self.wait(self.execute.send_goal_async(goal), 'the answer to a motion')

    def end(self, handle):
        reply = self.wait(handle.get_result_async(), 'the end of a motion', 60.0)
        return reply.status, reply.result.error_code

    def go(self, q):
        planned = self.plan(joints(q))
        assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
        status, code = self.end(self.start(planned.trajectory))
        assert (status, code.val) == (GoalStatus.STATUS_SUCCEEDED, CODE.SUCCESS), code.message
        self.look()  # the result may overtake the last joints

    def set_off(self):
        """Start a long turn of the shoulder; returns its handle once the arm moves."""
        trajectory = self.plan(joints(HOME + [2.0, 0, 0, 0, 0, 0]), scaling=0.4).trajectory
        handle = self.start(trajectory)
        result = handle.get_result_async()
        self.until(lambda: result.done() or self.qd[0] > 0.3, 'the arm to move')
        assert not result.done(), result.result().result.error_code.message
        return handle

    def trigger(self, name):
        return self.call(Trigger, f'trajectory_planner/{name}')

    def state(self, text, wall=10.0):
        self.until(lambda: self.states[-1].startswith(text), f'state {text!r}', wall)


def pose_goal(T, link='tool0', frame='base_link'):
    """A goal as pymoveit2 sends it: a sphere of 1 mm and an orientation to 1e-3 rad."""
    pose = matrix_to_pose(T)
    position = PositionConstraint(link_name=link, weight=1.0)
    orientation = OrientationConstraint(link_name=link, orientation=pose.orientation, weight=1.0)
    position.header.frame_id = orientation.header.frame_id = frame
    sphere = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[1e-3])
    position.constraint_region.primitives = [sphere]
    position.constraint_region.primitive_poses = [Pose(position=pose.position)]
    for axis in 'xyz':
        setattr(orientation, f'absolute_{axis}_axis_tolerance', 1e-3)
    return Constraints(position_constraints=[position], orientation_constraints=[orientation])


def moved_by(client, action, seconds=0.5):
    """Largest joint motion [rad] that followed an action."""
    before = client.look()
    action()
    client.run(seconds)
    return np.abs(client.look() - before).max()


def box(name, x, y, z, size=0.1, operation=CollisionObject.ADD):
    message = box_message(name, (x, y, z))
    message.operation, message.primitives[0].dimensions = operation, [size] * 3
    return message
