# SPDX-License-Identifier: Apache-2.0
"""What a user of the client gives, checked, and the messages made of it."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from geometry_msgs.msg import Pose, PoseStamped, TwistStamped
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    CollisionObject,
    Constraints,
    JointConstraint,
    MoveItErrorCodes,
    OrientationConstraint,
    PlanningScene,
    PositionConstraint,
)
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from numpy.typing import ArrayLike
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.client.results import Solutions
from ur5_pick_place.errors import (
    ExecutionError,
    InCollision,
    InvalidInput,
    JointLimitViolation,
    NoSolution,
    PlanningError,
    TimedOut,
    Ur5PickPlaceError,
    quoted,
)
from ur5_pick_place.kinematics import BRANCHES
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array, check_transform
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.ros.distro import read
from ur5_pick_place.terminal import check_metres

_T_DOWN_UPRIGHT = np.diag([1.0, -1.0, -1.0, 1.0])  # a tool that points down, seen from below
_CODE = MoveItErrorCodes
_ERRORS: dict[int, type[Ur5PickPlaceError]] = {
    _CODE.NO_IK_SOLUTION: NoSolution,
    _CODE.GOAL_CONSTRAINTS_VIOLATED: JointLimitViolation,
    _CODE.GOAL_IN_COLLISION: InCollision,
    _CODE.TIMED_OUT: TimedOut,
    _CODE.CONTROL_FAILED: ExecutionError,
    _CODE.PREEMPTED: ExecutionError,
    _CODE.FRAME_TRANSFORM_FAILURE: InvalidInput,
    _CODE.INVALID_GOAL_CONSTRAINTS: InvalidInput,
    _CODE.INVALID_ROBOT_STATE: InvalidInput,
}
WITHOUT_SOLUTION = (NoSolution, JointLimitViolation, InCollision)
"""The errors of a pose that has no solution on any branch."""


def numbers(name: str, values: Any, count: int, unit: str) -> Array:
    """Return a user's numbers as an array (count,); `InvalidInput` unless all are finite."""
    with suppress(ValueError, OverflowError):  # ragged, or an int too large for a float
        entries = np.asarray(values, dtype=object)
        if entries.shape == (count,) and all(_is_number(_item(v)) for v in entries):
            found = np.array([float(_item(v)) for v in entries])
            if np.isfinite(found).all():
                return found
    raise InvalidInput(f'{name} = {quoted(values)}: must be {count} finite numbers [{unit}]')


def _item(value: Any) -> Any:
    """Return the number in an array or a tensor of no dimensions; anything else as it is."""
    return value.item() if getattr(value, 'shape', None) == () else value


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    return is_number and not isinstance(value, bool)


def number(name: str, value: Any, low: float, high: float, unit: str = '') -> float:
    """Return a user's number; `InvalidInput` if it is not one, or outside `low` to `high`."""
    value, unit = _item(value), unit and f' {unit}'
    bounds = f'{low:g} to {high:g}{unit}'
    if not _is_number(value):
        raise InvalidInput(f'{name} = {quoted(value)}: must be a number in {bounds}')
    if not low <= value <= high:
        raise InvalidInput(f'{name} = {quoted(value)}{unit}: must lie in {bounds}')
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Return a user's truth value; `InvalidInput` for anything else, such as 'off'."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f'{name} = {quoted(value)}: must be True or False')
    return bool(value)


def text(name: str, value: Any) -> str:
    """Return a user's text; `InvalidInput` if it is empty or not a string."""
    if not isinstance(value, str) or not value:
        raise InvalidInput(f'{name} = {quoted(value)}: must be text that is not empty')
    return value


def tcp_pose(
    xyz: Any, yaw_deg: Any, T: ArrayLike | None, mounting: Mounting = FLOOR
) -> Array:
    """
    Return the pose (4, 4) that a user gives as point and yaw, tool down, or as a matrix.

    `mounting`: tells what is down in the frame of the pose.

    Raises `InvalidInput`: both or none are given, a yaw beside a matrix, or they are malformed.
    """
    if (xyz is None) == (T is None):
        raise InvalidInput('give either xyz (with yaw_deg) or T')
    if T is not None:
        refuse_beside('T', yaw_deg=yaw_deg)
        pose = check_transform(T, 'T')
        if pose.shape != (4, 4):
            raise InvalidInput(f'T has shape {pose.shape}: must be (4, 4)')
        check_metres('T', pose[:3, 3].tolist())
        return pose
    point = numbers('xyz', xyz, 3, 'm')
    check_metres('xyz', point.tolist())
    x, y, z = point.tolist()
    return mounting.tool_down(x, y, z, _yaw(yaw_deg))


def _yaw(yaw_deg: Any) -> float:
    """Return a user's angle about z [rad]; 0 if none is given."""
    given = 0.0 if yaw_deg is None else yaw_deg
    return math.radians(number('yaw_deg', given, -360.0, 360.0, 'deg'))


def upright_pose(
    xyz: Any, yaw_deg: Any, T: ArrayLike | None, mounting: Mounting = FLOOR
) -> Array:
    """Return the pose (4, 4) of an object that stands on its base; the rest as `tcp_pose`."""
    pose = tcp_pose(xyz, yaw_deg, T, mounting)
    return pose if T is not None else pose @ _T_DOWN_UPRIGHT


def refuse_beside(given: str, **others: Any) -> None:
    """Raise `InvalidInput` if an argument of `others` is given, for which `given` has no use."""
    if useless := ' and '.join(name for name, value in others.items() if value is not None):
        raise InvalidInput(f'{useless} cannot be combined with {given}: leave it out')


def frame_id(frame: str | None) -> str:
    """Return the frame that a user gives; by default empty, the arm's own `base_link`."""
    return '' if frame is None else text('frame', frame)


def stamped(T: Array, frame: str | None) -> PoseStamped:
    """Return a pose (4, 4) in `frame` as a message."""
    message = PoseStamped(pose=matrix_to_pose(T))
    message.header.frame_id = frame_id(frame)
    return message


def pose_goal(pose: PoseStamped) -> Constraints:
    """Return the goal of having the TCP at a pose."""
    position = PositionConstraint(link_name='tcp', header=pose.header)
    position.constraint_region.primitive_poses = [Pose(position=pose.pose.position)]
    turned = OrientationConstraint(
        link_name='tcp', header=pose.header, orientation=pose.pose.orientation
    )
    return Constraints(position_constraints=[position], orientation_constraints=[turned])


def twist(velocity: Array, frame: str | None) -> TwistStamped:
    """Return a twist (6,), linear first [m/s], [rad/s], as a message."""
    message = TwistStamped()
    message.header.frame_id = frame_id(frame)
    linear, angular = message.twist.linear, message.twist.angular
    linear.x, linear.y, linear.z, angular.x, angular.y, angular.z = map(float, velocity)
    return message


def joint_goal(q: Array, names: Sequence[str]) -> Constraints:
    """Return the goal of having the joints at q (6,) [rad]."""
    wanted = [
        JointConstraint(joint_name=name, position=float(v))
        for name, v in zip(names, q, strict=True)
    ]
    return Constraints(joint_constraints=wanted)


def motion_goal(goal: Constraints, scaling: float) -> MoveGroup.Goal:
    """Return the goal of `move_action` to move there, round obstacles."""
    message = MoveGroup.Goal()
    request = message.request
    request.planner_id = 'AUTO'
    request.goal_constraints = [goal]
    request.max_velocity_scaling_factor = request.max_acceleration_scaling_factor = scaling
    return message


def scene_change(thing: CollisionObject) -> PlanningScene:
    """Return the change of the scene that adds or removes one object."""
    scene = PlanningScene(is_diff=True)
    scene.robot_state.is_diff = True
    scene.world.collision_objects = [thing]
    return scene


def solid(
    name: str, kind: int, dimensions: Sequence[float], T: Array, frame: str | None
) -> CollisionObject:
    """Return an object of one primitive at the pose T (4, 4) in `frame`."""
    thing = CollisionObject(id=text('name', name), pose=matrix_to_pose(T))
    thing.operation, thing.header.frame_id = CollisionObject.ADD, frame_id(frame)
    thing.primitives = [SolidPrimitive(type=kind, dimensions=[float(v) for v in dimensions])]
    return thing


def fk_request(link: str, frame: str, joints: JointState) -> GetPositionFK.Request:
    """Return the request for the pose of a link in a frame at joints."""
    request = GetPositionFK.Request(fk_link_names=[link])
    request.header.frame_id, request.robot_state.joint_state = frame, joints
    return request


def fk_pose(reply: GetPositionFK.Response) -> Array:
    """Return the pose (4, 4) in an answer of `compute_fk`; raise the error that it holds."""
    check_code(reply.error_code, 'compute_fk')
    return pose_to_matrix(reply.pose_stamped[0].pose)


def ik_request(pose: PoseStamped, link: str, avoid_collisions: bool) -> GetPositionIK.Request:
    """Return the request for all solutions of a stamped pose of a link."""
    request = GetPositionIK.Request()
    ik = request.ik_request
    ik.pose_stamped, ik.ik_link_name, ik.avoid_collisions = pose, link, avoid_collisions
    return request


def check_code(code: MoveItErrorCodes, what: str) -> str:
    """Return a code's message; raise the error that the code means, with the node's reason."""
    message: str = read(code, 'message', '')
    if code.val == _CODE.SUCCESS:
        return message
    kind = _ERRORS.get(code.val, PlanningError)
    raise kind(f'{what}: {message or f"MoveIt error code {code.val}"}')


def solutions(state: JointState, message: str) -> Solutions:
    """
    Return the solutions of an answer of `compute_ik_all`, and why other branches are missing.

    `state`: six joints of each branch that was found, named `<branch>/<joint>`; if it is not so,
    none counts as found. `message`: of the error code.
    """
    found: dict[str, Array] = {}
    if len(state.position) == len(state.name) and len(state.name) % 6 == 0:
        for i in range(0, len(state.name), 6):
            q = np.array(state.position[i : i + 6])
            if np.isfinite(q).all():
                found[str(state.name[i]).partition('/')[0]] = q
    # A branch that was found may have a note of its own, as on a calibrated arm.
    reasons = branch_reasons(message)
    return Solutions(found, {name: why for name, why in reasons.items() if name not in found})


def branch_reasons(message: str) -> dict[str, str]:
    """Return the reasons of branches by name from a message such as `<branch>: <reason>; …`."""
    found: dict[str, str] = {}
    branch = ''
    for piece in message.split('; '):
        head, separator, reason = piece.partition(': ')
        if separator and head in BRANCHES:
            branch = head
            found[branch] = reason
        elif branch:
            found[branch] += f'; {piece}'
    return found
