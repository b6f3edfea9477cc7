# SPDX-License-Identifier: Apache-2.0
"""
Load the calibration file of the driver.

Real joints are slightly displaced and tilted against the DH table; `inverse_calibrated` solves for
them.

References
----------
Universal_Robots_ROS2_Driver, ur_calibration: a file holds, under `kinematics`, for each link the
pose x y z roll pitch yaw of its joint in the frame of the link before, as a URDF has it.

"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.forward import forward
from ur5_pick_place.kinematics.model import UR_TYPES, Model, load_model
from ur5_pick_place.kinematics.transforms import (
    Array,
    inverse_transform,
    log_se3,
    make_transform,
    matrix_from_rpy,
)

LINKS = ('shoulder', 'upper_arm', 'forearm', 'wrist_1', 'wrist_2', 'wrist_3')

_ROUNDING = 1e-9  # a file within this is the ideal arm, printed with ten digits
_MAX_LENGTH = 0.02  # m; calibrated arms differ from their DH table by millimetres only
_MAX_ANGLE = 0.1  # rad


def load_calibrated(path: Path) -> Model:
    """
    Return the model of the arm in a calibration file of the driver.

    The file does not name its type, so the preset with the nearest lengths is used.

    Raises
    ------
    InvalidInput
        The file cannot be read, an entry is missing or not a number, or the arm is not a known UR.

    """
    kinematics, name = _read(path)
    poses = np.array([_joint_pose(path, kinematics, link) for link in LINKS])
    x, y, z = poses[:, :3, 3].T
    lengths = np.array([x[2], x[3], z[0], z[3], -y[4], y[5]])  # a2, a3, d1, d4, d5, d6
    presets = [load_model(ur_type) for ur_type in UR_TYPES]
    off = [float(np.abs(lengths - ideal.lengths).max()) for ideal in presets]
    ideal = presets[int(np.argmin(off))]
    after = _after_joint(ideal)
    before = np.concatenate([np.eye(4)[None], after[:-1]])
    mounts = inverse_transform(before) @ poses
    askew = float(np.linalg.norm(log_se3(mounts)[:, 3:], axis=1).max())
    if min(off) > _MAX_LENGTH or askew > _MAX_ANGLE:
        raise InvalidInput(
            f'{path}: the nearest arm is {ideal.name}, but a length differs by {min(off):.4g} m '
            f'and an axis by {askew:.4g} rad; a calibration stays within {_MAX_LENGTH} m and '
            f'{_MAX_ANGLE} rad, so this is another robot or a damaged file'
        )
    straight = make_transform(np.eye(3), ideal.d[:, None] * [0.0, 0.0, 1.0])
    if np.abs(mounts - straight).max() < _ROUNDING:
        return replace(ideal, calibration=name)
    return replace(ideal, mounts=mounts, calibration=name)


def calibration_offset(m: Model, q: ArrayLike) -> tuple[Array, Array]:
    """Return the distance of the tool from that of the ideal arm, [m] and [rad], (...) each."""
    miss = inverse_transform(forward(replace(m, mounts=None), q)) @ forward(m, q)
    angle = np.linalg.norm(log_se3(miss)[..., 3:], axis=-1)
    return np.linalg.norm(miss[..., :3, 3], axis=-1), angle


def _after_joint(ideal: Model) -> Array:
    """Return Tx(a) Rx(alpha) (6, 4, 4), from each turned joint to its DH frame."""
    roll = ideal.alpha[:, None] * [1.0, 0.0, 0.0]
    return make_transform(matrix_from_rpy(roll), ideal.a[:, None] * [1.0, 0.0, 0.0])


def _read(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        # Imported here, so that kinematics needs only NumPy.
        from ur5_pick_place.config_files import read_yaml
    except ImportError as error:
        raise InvalidInput(f'{path}: reading a calibration file needs PyYAML') from error
    data = read_yaml(path, 'calibration file')
    kinematics = data.get('kinematics') if isinstance(data, Mapping) else None
    if not isinstance(kinematics, Mapping):
        raise InvalidInput(f"{path}: has no 'kinematics'; give the file that ur_calibration wrote")
    return kinematics, str(kinematics.get('hash', ''))


def _joint_pose(path: Path, kinematics: Mapping[str, Any], link: str) -> Array:
    entry = kinematics.get(link)
    if not isinstance(entry, Mapping):
        raise InvalidInput(f"{path}: kinematics has no {link!r}; it needs {', '.join(LINKS)}")
    numbers = []
    for key in ('x', 'y', 'z', 'roll', 'pitch', 'yaw'):
        try:
            number = float(entry[key])
        except (KeyError, TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            raise InvalidInput(
                f'{path}: {link}.{key} = {entry.get(key)!r}: must be a finite number'
            )
        numbers.append(number)
    return make_transform(matrix_from_rpy(numbers[3:]), numbers[:3])
