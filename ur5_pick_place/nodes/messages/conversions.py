# SPDX-License-Identifier: Apache-2.0
"""Conversions between messages and arrays, and from errors to MoveIt's codes."""

import math
from array import array
from collections.abc import Callable, Collection, Sequence

import numpy as np
from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import Point, Pose, Quaternion, Transform, Vector3
from moveit_msgs.msg import (
    CollisionObject,
    JointConstraint,
    MoveItErrorCodes,
    RobotState,
    RobotTrajectory,
)
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
    PlanningCanceled,
    TimedOut,
    UnknownFrame,
    UnknownGroup,
    UnknownLink,
)
from ur5_pick_place.kinematics.transforms import (
    Array,
    pose_from_quat,
    quat_from_matrix,
)
from ur5_pick_place.nodes.ros.distro import fill
from ur5_pick_place.planning.paths.trajectory import Trajectory, joint_order
from ur5_pick_place.planning.scene.world import shown

_QUATERNION_SLACK = 0.01  # how far a norm may be from 1 and still be taken for rounding
# At least 120 s of this package's motions: a point every 6 to 8 ms at full TCP speed, up to 20 ms
# otherwise. So many points take 0.06 s to read, 1.7 s to gate and 0.5 s to send on one core of a
# desktop PC, beside the thread that receives the joints.
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
    (PlanningCanceled, MoveItErrorCodes.PREEMPTED),
    (BlockedPath, MoveItErrorCodes.INVALID_MOTION_PLAN),
    (IncompletePath, MoveItErrorCodes.PLANNING_FAILED),
    (GateRefusal, MoveItErrorCodes.INVALID_MOTION_PLAN),
    (ExecutionError, MoveItErrorCodes.CONTROL_FAILED),
    (InvalidInput, MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS),
)


def pose_to_matrix(pose: Pose) -> Array:
    """
    Return a pose as (4, 4).

    Raises `InvalidInput`: a number is not finite, or the quaternion's norm differs from 1 by more
    than 1 %.
    """
    p, q = pose.position, pose.orientation
    return _matrix(p.x, p.y, p.z, q.x, q.y, q.z, q.w)


def numbers_to_matrix(numbers: Array) -> Array:
    """Return position and quaternion x, y, z, w (7,) as (4, 4); errors as `pose_to_matrix`."""
    return _matrix(*map(float, numbers))


def transform_to_matrix(transform: Transform) -> Array:
    """Return a transform as (4, 4); errors as `pose_to_matrix`."""
    p, q = transform.translation, transform.rotation
    return _matrix(p.x, p.y, p.z, q.x, q.y, q.z, q.w)


def _matrix(px: float, py: float, pz: float, x: float, y: float, z: float, w: float) -> Array:
    if not all(map(math.isfinite, (px, py, pz))):
        raise InvalidInput(f'position {(px, py, pz)} is not finite')
    norm = math.hypot(x, y, z, w)
    if not abs(norm - 1.0) <= _QUATERNION_SLACK:
        raise InvalidInput(
            f'orientation {(x, y, z, w)} (x, y, z, w) has norm {norm:.4g}: must be a unit '
            'quaternion; "no rotation" is (0, 0, 0, 1)'
        )
    return pose_from_quat((px, py, pz), (x, y, z, w))


def matrix_to_pose(T: Array) -> Pose:
    """Return (4, 4) as a pose."""
    x, y, z = (float(v) for v in T[:3, 3])
    return Pose(position=Point(x=x, y=y, z=z), orientation=_quaternion(T))


def matrix_to_transform(T: Array) -> Transform:
    """Return (4, 4) as a transform."""
    x, y, z = (float(v) for v in T[:3, 3])
    return Transform(translation=Vector3(x=x, y=y, z=z), rotation=_quaternion(T))


def _quaternion(T: Array) -> Quaternion:
    x, y, z, w = (float(v) for v in quat_from_matrix(T[:3, :3]))
    return Quaternion(x=x, y=y, z=z, w=w)


def is_of_this_arm(state: JointState, names: Sequence[str]) -> bool:
    """
    Return whether a joint state contains any of the joints `names`.

    A gripper or a second arm publishes on the same topic; a message without any of the arm's
    joints is no sign of life of the arm. A message with some of them is checked by
    `joints_from_state`, which requires all.
    """
    return not set(names).isdisjoint(state.name)


def joints_from_state(state: JointState, names: Sequence[str]) -> Array:
    """
    Return the positions (6,) [rad] of the joints `names`, whatever the order of the message.

    Raises `InvalidRobotState`: a joint is missing, named twice or not finite, or the lists are of
    different length or huge.
    """
    return _by_name(state.name, state.position, names, 'position')


def joints_of_request(
    state: RobotState,
    names: Sequence[str],
    present: Callable[[], Array | None],
    attached: Collection[str],
) -> Array | None:
    """
    Return the joints (6,) [rad] of a request's robot state.

    An empty state stands for `present()`, the arm's joints, or None if these are unknown; one with
    `is_diff` may name some joints only, and stands for `present()` for the others. Objects that it
    attaches must be among `attached`, the ids of what is attached now, as in the states of a
    MoveIt client that follows the scene; the request is planned with all of `attached`.

    Raises `InvalidRobotState`: as `joints_from_state`, or it has unsupported content.
    """
    others = state.multi_dof_joint_state
    if n := max(len(others.joint_names), len(others.transforms)):
        raise InvalidRobotState(
            f'robot state has {n} multi-DOF joints: must be 0, the arm has none'
        )
    _refuse_other_attachments(state, attached)
    given = state.joint_state
    if not (given.name or given.position):
        return present()
    if not state.is_diff or set(names) <= set(given.name):
        return joints_from_state(given, names)
    named = [name for name in names if name in given.name]
    changed = joints_from_state(given, named)
    if not named:
        raise InvalidRobotState(f'robot state names none of the joints {", ".join(names)}')
    if (now := present()) is None:
        raise InvalidRobotState(
            f'robot state (is_diff) names {", ".join(named)} only, and there are no recent '
            'joint_states: name all joints, or check that the driver is running'
        )
    q = now.copy()
    q[[list(names).index(name) for name in named]] = changed
    return q


def _refuse_other_attachments(state: RobotState, attached: Collection[str]) -> None:
    """Refuse a robot state with attached objects other than ADDs of what is attached now."""
    for entry in state.attached_collision_objects:
        thing = entry.object
        if thing.operation != CollisionObject.ADD:
            raise InvalidRobotState(
                f'robot state has operation {thing.operation[0]} of the attached object '
                f'{shown(thing.id)}: must be ADD of what is attached now; to change or detach it, '
                'publish it on attached_collision_object, and leave it out of the request'
            )
        if thing.id not in attached:
            now = ', '.join(shown(name) for name in sorted(attached)[:8]) or 'nothing'
            raise InvalidRobotState(
                f'robot state attaches {shown(thing.id)}, which the scene has not attached; '
                f'attached now: {now}. A request attaches nothing: publish it on '
                'attached_collision_object before, or leave it out'
            )


def velocities_from_state(state: JointState, names: Sequence[str]) -> Array:
    """Return the velocities (6,) [rad/s] of the joints `names`; as `joints_from_state`."""
    return _by_name(state.name, state.velocity, names, 'velocity')


def _by_name(
    given: Sequence[str], values: Sequence[float], names: Sequence[str], what: str
) -> Array:
    if len(given) != len(values) or len(given) > _MAX_NAMES:
        raise InvalidRobotState(
            f'joint state has {len(given)} joint names and a {what} array of length '
            f'{len(values)}: must be equal in number, at most {_MAX_NAMES}'
        )
    found = dict(zip(given, values, strict=True))
    if len(found) != len(given):
        raise InvalidRobotState(f'joint state names a joint twice: {", ".join(given)}')
    try:
        chosen = [found[name] for name in names]
    except KeyError:
        missing = ', '.join(name for name in names if name not in found)
        raise InvalidRobotState(
            f'joint state has no {what} of {missing}; it names {", ".join(given)}: '
            'must name all six in one message; check what else publishes joints of this arm'
        ) from None
    if not all(map(math.isfinite, chosen)):
        name = next(name for name in names if not math.isfinite(found[name]))
        raise InvalidRobotState(f'joint state: {what} of {name} is {found[name]}')
    return np.array(chosen)


def trajectory_from_msg(message: RobotTrajectory, names: Sequence[str]) -> Trajectory:
    """
    Return a trajectory in the joint order `names`.

    Raises `GateRefusal`: joints missing, unknown or named twice; `InvalidInput`: no points, too
    many, arrays of the wrong length, no velocities or accelerations, values that are not finite,
    times that do not increase; efforts other than 0 if there are several points; multi-DOF points.
    """
    if n := len(message.multi_dof_joint_trajectory.points):
        raise InvalidInput(f'trajectory has {n} multi-DOF points: must be 0, the arm has none')
    order = joint_order(message.joint_trajectory.joint_names, names)
    points = message.joint_trajectory.points
    if not 1 <= len(points) <= _MAX_POINTS:
        raise InvalidInput(f'trajectory has {len(points)} points: must be 1 to {_MAX_POINTS}')
    q, qd, qdd = (
        _rows([getattr(p, field) for p in points], field, len(names))[:, order]
        for field in ('positions', 'velocities', 'accelerations')
    )
    # A trajectory of a single point only resets the controller; that of pymoveit2 contains the
    # efforts of joint_states. The gate admits it only at the present joints.
    for i, point in enumerate(points if len(points) > 1 else ()):
        if any(point.effort):
            raise InvalidInput(
                f'point {i} has efforts {list(point.effort)[:6]}: must be 0 or left out, the '
                'controller follows positions only'
            )
    t = np.array([to_seconds(p.time_from_start) for p in points])
    return Trajectory(t, q, qd, qdd)


def _rows(values: 'Sequence[array[float]]', field: str, n: int) -> Array:
    """Return the numbers of a field, one point a row, (points, n)."""
    for i, row in enumerate(values):
        if len(row) != n:
            raise InvalidInput(
                f'point {i} has {len(row)} {field}: must be {n}; without velocities and '
                'accelerations the controller would jump between points'
            )
    return np.frombuffer(b''.join(values)).reshape(-1, n)


def trajectory_to_msg(
    trajectory: Trajectory, names: Sequence[str], passed: float = 0.0
) -> JointTrajectory:
    """Return a trajectory message that starts on arrival, `passed` [s] after its first point."""
    message = JointTrajectory(joint_names=list(names))
    message.points = [
        JointTrajectoryPoint(
            positions=q.tolist(),
            velocities=qd.tolist(),
            accelerations=qdd.tolist(),
            time_from_start=duration_to_msg(t),
        )
        for t, q, qd, qdd in zip(
            trajectory.t - passed, trajectory.q, trajectory.qd, trajectory.qdd, strict=True
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
    return float(message.sec + message.nanosec * 1e-9)


def read_joint_constraints(
    constraints: Sequence[JointConstraint], names: Sequence[str]
) -> list[tuple[int, float, float, float]]:
    """
    Return joint, position, and lowest and highest position [rad] of each constraint.

    Raises `InvalidInput`: a joint is none of `names`, or a number is not finite or negative.
    """
    found = []
    for constraint in constraints:
        name, position = constraint.joint_name, constraint.position
        if name not in names:
            raise InvalidInput(f'joint {name!r} is unknown: must be one of {", ".join(names)}')
        below, above = constraint.tolerance_below, constraint.tolerance_above
        if not all(map(math.isfinite, (position, below, above))) or min(below, above) < 0.0:
            raise InvalidInput(
                f'constraint on {name}: position {position}, tolerance_above {above}, '
                f'tolerance_below {below} rad: must be finite, tolerances not negative'
            )
        found.append((names.index(name), position, position - below, position + above))
    return found


def joint_state_msg(q: Array, names: Sequence[str]) -> JointState:
    """Return joints (6,) [rad] as a message."""
    return JointState(name=list(names), position=q.tolist())


def success() -> MoveItErrorCodes:
    return MoveItErrorCodes(val=MoveItErrorCodes.SUCCESS)


def error_code(error: Exception) -> MoveItErrorCodes:
    """Return an error as MoveIt's code with its message."""
    code = next(
        (c for kind, c in _CODES if isinstance(error, kind)), MoveItErrorCodes.PLANNING_FAILED
    )
    return code_with_message(code, str(error))


def code_with_message(code: int, message: str) -> MoveItErrorCodes:
    result = MoveItErrorCodes()
    fill_code(result, code, message)
    return result


def fill_code(result: MoveItErrorCodes, code: int, message: str) -> None:
    """Set a code and its message for the user; Humble's has no field for the message."""
    result.val = code
    fill(result, message=message, source='ur5_pick_place')
