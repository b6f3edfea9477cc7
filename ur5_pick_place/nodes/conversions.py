# SPDX-License-Identifier: Apache-2.0
"""Messages to arrays and back, errors to codes: the only module that knows both."""

import math
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, Pose, Quaternion, Transform, Vector3
from moveit_msgs.msg import MoveItErrorCodes, RobotTrajectory
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ur5_pick_place.errors import (
    BlockedPath,
    CollisionCheckUnavailable,
    ExecutionError,
    GateRefusal,
    InCollision,
    IncompletePath,
    InvalidInput,
    InvalidRobotState,
    JointLimitViolation,
    NoSolution,
    TimedOut,
    UnknownFrame,
    UnknownGroup,
    UnknownLink,
)
from ur5_pick_place.kinematics.transforms import quat_from_matrix
from ur5_pick_place.nodes.distro import fill
from ur5_pick_place.planning.trajectory import Trajectory, joint_order

_QUATERNION_SLACK = 0.01  # how far a norm may be from 1 and still be taken for rounding
_MAX_POINTS = 20000
_MAX_NAMES = 256  # in a joint state; a cell's joints are a few dozen at most

_CODES = (
    (UnknownFrame, MoveItErrorCodes.FRAME_TRANSFORM_FAILURE),
    (UnknownLink, MoveItErrorCodes.INVALID_LINK_NAME),
    (UnknownGroup, MoveItErrorCodes.INVALID_GROUP_NAME),
    (InvalidRobotState, MoveItErrorCodes.INVALID_ROBOT_STATE),
    (NoSolution, MoveItErrorCodes.NO_IK_SOLUTION),
    (JointLimitViolation, MoveItErrorCodes.GOAL_CONSTRAINTS_VIOLATED),
    (InCollision, MoveItErrorCodes.GOAL_IN_COLLISION),
    (CollisionCheckUnavailable, MoveItErrorCodes.COLLISION_CHECKING_UNAVAILABLE),
    (TimedOut, MoveItErrorCodes.TIMED_OUT),
    (BlockedPath, MoveItErrorCodes.INVALID_MOTION_PLAN),
    (IncompletePath, MoveItErrorCodes.PLANNING_FAILED),
    (GateRefusal, MoveItErrorCodes.INVALID_MOTION_PLAN),
    (ExecutionError, MoveItErrorCodes.CONTROL_FAILED),
    (InvalidInput, MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS),
)


def pose_to_matrix(pose: Pose) -> NDArray[np.float64]:
    """
    Return a pose as (4, 4).

    Raises
    ------
    InvalidInput
        A number is not finite, or the quaternion's norm is off 1 by more than 1 %.

    """
    p, q = pose.position, pose.orientation
    return _matrix((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def transform_to_matrix(transform: Transform) -> NDArray[np.float64]:
    """Return a transform as (4, 4); errors as `pose_to_matrix`."""
    p, q = transform.translation, transform.rotation
    return _matrix((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def _matrix(position: tuple[float, ...], quat_xyzw: tuple[float, ...]) -> NDArray[np.float64]:
    # One pose at a time, in plain numbers: a third of the time that arrays take.
    if not all(map(math.isfinite, position)):
        raise InvalidInput(f'position {position} is not finite')
    norm = math.hypot(*quat_xyzw)
    if not abs(norm - 1.0) <= _QUATERNION_SLACK:
        raise InvalidInput(
            f'orientation {quat_xyzw} (x, y, z, w) has norm {norm:.4g}: must be a unit '
            'quaternion; "no rotation" is (0, 0, 0, 1)'
        )
    px, py, pz = position
    x, y, z, w = (v / norm for v in quat_xyzw)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y), px],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x), py],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y), pz],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def matrix_to_pose(T: NDArray[np.float64]) -> Pose:
    """Return (4, 4) as a pose."""
    x, y, z = (float(v) for v in T[:3, 3])
    return Pose(position=Point(x=x, y=y, z=z), orientation=_quaternion(T))


def matrix_to_transform(T: NDArray[np.float64]) -> Transform:
    """Return (4, 4) as a transform."""
    x, y, z = (float(v) for v in T[:3, 3])
    return Transform(translation=Vector3(x=x, y=y, z=z), rotation=_quaternion(T))


def _quaternion(T: NDArray[np.float64]) -> Quaternion:
    x, y, z, w = (float(v) for v in quat_from_matrix(T[:3, :3]))
    return Quaternion(x=x, y=y, z=z, w=w)


def is_of_this_arm(state: JointState, names: Sequence[str]) -> bool:
    """
    Tell whether a joint state speaks of any of the joints `names`.

    A gripper or a second arm publishes on the same topic; what names none of our joints says
    nothing of this arm, not even that it is heard. What names some of them claims to, and is
    judged by `joints_from_state`, which wants all.

    """
    return not set(names).isdisjoint(state.name)


def joints_from_state(state: JointState, names: Sequence[str]) -> NDArray[np.float64]:
    """
    Return the positions (6,) [rad] of the joints `names`, whatever the order of the message.

    Raises
    ------
    InvalidRobotState
        A joint is missing, named twice or not finite, or the lists are of different length or
        huge.

    """
    return _by_name(state.name, state.position, names, 'position')


def velocities_from_state(state: JointState, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the velocities (6,) [rad/s] likewise."""
    return _by_name(state.name, state.velocity, names, 'velocity')


def _by_name(
    given: Sequence[str], values: Sequence[float], names: Sequence[str], what: str
) -> NDArray[np.float64]:
    if len(given) != len(values) or len(given) > _MAX_NAMES:
        raise InvalidRobotState(
            f'joint state has {len(given)} joint names and {len(values)} of {what}: must be as '
            f'many, at most {_MAX_NAMES}'
        )
    found = dict(zip(given, values, strict=True))
    if len(found) != len(given):
        raise InvalidRobotState(f'joint state names a joint twice: {", ".join(given)}')
    missing = [n for n in names if n not in found]
    if missing:
        raise InvalidRobotState(
            f'joint state has no {what} of {", ".join(missing)}; it names {", ".join(given)}: '
            'must name all six in one message; does something else publish joints of this arm?'
        )
    for name in names:
        if not math.isfinite(found[name]):
            raise InvalidRobotState(f'joint state: {what} of {name} is {found[name]}')
    return np.array([found[n] for n in names])


def trajectory_from_msg(message: RobotTrajectory, names: Sequence[str]) -> Trajectory:
    """
    Return a trajectory in the joint order `names`.

    Raises
    ------
    GateRefusal
        Joints missing, unknown or named twice.
    InvalidInput
        No points, too many, arrays of the wrong length, no velocities or accelerations, values
        that are not finite, times that do not increase; efforts or multi-DOF points.

    """
    if n := len(message.multi_dof_joint_trajectory.points):
        raise InvalidInput(f'trajectory has {n} multi-DOF points: must be 0, the arm has none')
    order = joint_order(message.joint_trajectory.joint_names, names)
    points = message.joint_trajectory.points
    if not 1 <= len(points) <= _MAX_POINTS:
        raise InvalidInput(f'trajectory has {len(points)} points: must be 1 to {_MAX_POINTS}')
    for i, point in enumerate(points):
        for field in ('positions', 'velocities', 'accelerations'):
            n = len(getattr(point, field))
            if n != len(names):
                raise InvalidInput(
                    f'point {i} has {n} {field}: must be {len(names)}; without velocities and '
                    'accelerations the controller would jump between points'
                )
        if n := len(point.effort):
            raise InvalidInput(
                f'point {i} has {n} efforts: must be 0, the controller follows positions only'
            )
    t = np.array([to_seconds(p.time_from_start) for p in points])
    q, qd, qdd = (
        np.array([getattr(p, field) for p in points], dtype=float)[:, order]
        for field in ('positions', 'velocities', 'accelerations')
    )
    return Trajectory(t, q, qd, qdd)


def trajectory_to_msg(trajectory: Trajectory, names: Sequence[str]) -> JointTrajectory:
    """Return the message, to be started on arrival."""
    message = JointTrajectory(joint_names=list(names))
    message.points = [
        JointTrajectoryPoint(
            positions=q.tolist(),
            velocities=qd.tolist(),
            accelerations=qdd.tolist(),
            time_from_start=duration_to_msg(t),
        )
        for t, q, qd, qdd in zip(
            trajectory.t, trajectory.q, trajectory.qd, trajectory.qdd, strict=True
        )
    ]
    return message


def duration_to_msg(seconds: float) -> Duration:
    """Return a duration rounded to nanoseconds."""
    whole, rest = divmod(round(seconds * 1e9), 10**9)
    return Duration(sec=int(whole), nanosec=int(rest))


def time_to_msg(seconds: float) -> Time:
    """Return a time rounded to nanoseconds."""
    whole, rest = divmod(round(seconds * 1e9), 10**9)
    return Time(sec=int(whole), nanosec=int(rest))


def to_seconds(message: Time | Duration) -> float:
    """Return a time or duration in seconds."""
    return message.sec + message.nanosec * 1e-9


def joint_state_msg(q: NDArray[np.float64], names: Sequence[str]) -> JointState:
    """Return joints (6,) [rad] as a message."""
    return JointState(name=list(names), position=q.tolist())


def success() -> MoveItErrorCodes:
    """Return the code of success."""
    return MoveItErrorCodes(val=MoveItErrorCodes.SUCCESS)


def error_code(error: Exception) -> MoveItErrorCodes:
    """Return an error as MoveIt's code with its message."""
    code = next(
        (c for kind, c in _CODES if isinstance(error, kind)), MoveItErrorCodes.PLANNING_FAILED
    )
    return code_with_message(code, str(error))


def code_with_message(code: int, message: str) -> MoveItErrorCodes:
    """Return a code with a message a person can act on; Humble's message has no place for it."""
    result = MoveItErrorCodes(val=code)
    fill(result, message=message, source='ur5_pick_place')
    return result
