# SPDX-License-Identifier: Apache-2.0
"""Taught poses, and their conversion to another tool, payload, calibration or robot."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import BRANCHES, Model, classify, forward
from ur5_pick_place.kinematics.transforms import Array, pose_distance
from ur5_pick_place.planning.limits import in_degrees
from ur5_pick_place.settings import REQUIRED, Settings, setting
from ur5_pick_place.task.places.names import HOME

_ROUNDING = 1e-6  # [m], and of the entries of a rotation matrix
_SAME_PLACE, _SAME_TURN = 1e-3, 0.02  # [m], [rad]
_NOISE = 5e-5  # [rad] of the encoders of an arm at rest
_SAME_POSE = 1e-4  # [m], and of the entries of a rotation matrix; files are written exactly


@dataclass(frozen=True)
class Provenance(Settings):
    """What a taught pose depends on; `converted` converts a pose to another one."""

    robot: str = setting(REQUIRED, 'model name', kind=str)
    calibration: str = setting(
        REQUIRED, 'hash of the calibration file; empty for nominal kinematics', kind=str
    )
    tool: tuple[float, ...] = setting(
        REQUIRED, 'T_tool_tcp as x, y, z [m], qx, qy, qz, qw', length=7, kind=tuple
    )
    payload: float = setting(REQUIRED, 'mass of the tool', unit='kg', kind=float)


@dataclass(frozen=True)
class TaughtPose(Settings):
    pose: tuple[float, ...] = setting(
        REQUIRED, 'the TCP in `base`: x, y, z [m], qx, qy, qz, qw', length=7, kind=tuple
    )
    provenance: Provenance = setting(REQUIRED, 'what the pose depends on', kind=Provenance)
    time: str = setting(REQUIRED, 'when it was taught, ISO 8601, UTC', kind=str)
    joints: tuple[float, ...] = setting(
        (), 'in controller order; empty if only the pose was given', unit='rad'
    )
    branch: str = setting('', 'branch of the joints; empty without joints')

    @property
    def T_base_tcp(self) -> Array:
        """The pose as (4, 4)."""
        return matrix_from_numbers(self.pose)


def numbers_from_matrix(T: Array) -> tuple[float, ...]:
    """Return (4, 4) as x, y, z [m], qx, qy, qz, qw."""
    quat_xyzw = Rotation.from_matrix(T[:3, :3]).as_quat(canonical=True)
    return tuple(float(v) for v in (*T[:3, 3], *quat_xyzw))


def matrix_from_numbers(numbers: tuple[float, ...]) -> Array:
    """Return x, y, z [m], qx, qy, qz, qw as (4, 4)."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_quat(numbers[3:]).as_matrix()
    T[:3, 3] = numbers[:3]
    return T


def converted(name: str, taught: TaughtPose, now: Provenance, model: Model) -> TaughtPose:
    """
    Return a taught place, converted to the present robot and tool.

    It is converted where that is exact, and refused otherwise:

    - Payload: nothing changes; the joints were measured with whatever was mounted.
    - Tool: a place defines the pose of the TCP, so the pose is kept and the joints are dropped.
      Home is defined by its joints, so these are kept and the pose follows them.
    - Calibration of the same robot model: the joints were measured, so the arm was where the
      present calibration puts them; the pose is recomputed. A place given as a pose is refused,
      because how that pose was found is unknown.
    - Robot model: refused.

    The file keeps the pose as taught.

    - `name`: of the place
    - `model`: of the present arm

    Raises `InvalidInput`: it cannot be converted, or its joints and its pose contradict each
    other.
    """
    then, joints, pose = taught.provenance, taught.joints, taught.pose
    if then.robot != now.robot:
        raise InvalidInput(
            f'{name} was taught with a {then.robot}, this is a {now.robot}: teach it again'
        )
    if then.calibration != now.calibration:
        if not joints:
            raise InvalidInput(
                f'{name} was given as a pose with {_calibration(then)}, and the robot has '
                f'{_calibration(now)}: a pose without joints cannot be converted; teach it again'
            )
        pose = _tcp(model, joints, then.tool)
    elif joints:
        _check_agreement(name, pose, joints, _tcp(model, joints, then.tool))
    if then.tool != now.tool:
        if name == HOME:
            pose = _tcp(model, joints, now.tool)
        else:
            joints = ()
    if then == now:
        return taught
    branch = BRANCHES[int(classify(model, joints))] if joints else ''
    return replace(taught, pose=pose, provenance=now, joints=joints, branch=branch)


def is_same(kept: TaughtPose, taught: TaughtPose) -> bool:
    """Return whether a place that is taught again is where it was, up to noise and rounding."""
    if kept.provenance != taught.provenance:
        return False
    if taught.joints:
        away = np.subtract(kept.joints, taught.joints) if kept.joints else np.inf
        return bool(np.abs(away).max() <= _NOISE)
    # As matrices: a quaternion of the tool pointing down changes its sign by rounding.
    return bool(np.abs(kept.T_base_tcp - taught.T_base_tcp).max() <= _ROUNDING)


def coincide(one: TaughtPose, other: TaughtPose) -> bool:
    """Return whether two places are one: at one spot, with the hand turned alike."""
    away, turned = pose_distance(one.T_base_tcp, other.T_base_tcp)
    return away < _SAME_PLACE and turned < _SAME_TURN


def changes(then: Provenance, now: Provenance) -> dict[str, list[Any]]:
    """Return what differs, as [then, now] by name."""
    return {k: [v, vars(now)[k]] for k, v in vars(then).items() if v != vars(now)[k]}


def _calibration(provenance: Provenance) -> str:
    hash_ = provenance.calibration
    return f'calibration {hash_}' if hash_ else 'no calibration'


def _tcp(model: Model, joints: tuple[float, ...], tool: tuple[float, ...]) -> tuple[float, ...]:
    return numbers_from_matrix(forward(model, joints) @ matrix_from_numbers(tool))


def _check_agreement(
    name: str,
    pose: tuple[float, ...],
    joints: tuple[float, ...],
    pose_of_joints: tuple[float, ...],
) -> None:
    off = matrix_from_numbers(pose) - matrix_from_numbers(pose_of_joints)
    if np.abs(off).max() > _SAME_POSE:
        cure = 'correct the joints' if name == HOME else 'empty joints and branch keep the pose'
        raise InvalidInput(
            f'{name}: its joints put the TCP {np.linalg.norm(off[:3, 3]):.4f} m from its pose, or '
            f'in another orientation{in_degrees(np.array(joints))}; {cure}, or teach it again'
        )
