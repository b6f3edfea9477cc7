# SPDX-License-Identifier: Apache-2.0
"""
Models of arms: presets, DH tables, and the driver's calibration files.

The real joints of a calibrated arm are displaced and tilted by a little against the DH table;
`inverse` solves for them.

References
----------
Universal_Robots_ROS2_Driver, ur_calibration: a file holds, under `kinematics`, for each link the
pose x y z roll pitch yaw of its joint in the frame of the link before, as a URDF has it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics.forward import forward
from ur5_pick_place.kinematics.model import (
    ALPHA,
    ARMS,
    MOVING_LINKS,
    Q_MAX,
    UR3_LAB_DH,
    UR3_LAB_OFFSET,
    UR_TYPES,
    Model,
)
from ur5_pick_place.kinematics.transforms import (
    Array,
    as_floats,
    inverse_transform,
    log_se3,
    make_transform,
    matrix_from_rpy,
)
from ur5_pick_place.settings import REQUIRED, Settings, setting

_ROUNDING = 1e-9  # [m, rad]; a file that differs by less describes the nominal arm
_MAX_LENGTH = 0.02  # m; calibrated arms differ from their DH table by millimetres only
_MAX_ANGLE = 0.1  # rad


@dataclass(frozen=True)
class _JointPose(Settings):
    x: float = setting(REQUIRED, 'position', unit='m', kind=float)
    y: float = setting(REQUIRED, 'position', unit='m', kind=float)
    z: float = setting(REQUIRED, 'position', unit='m', kind=float)
    roll: float = setting(REQUIRED, 'rotation', unit='rad', kind=float)
    pitch: float = setting(REQUIRED, 'rotation', unit='rad', kind=float)
    yaw: float = setting(REQUIRED, 'rotation', unit='rad', kind=float)


def load_model(source: str | Path | Mapping[str, Any] | Model) -> Model:
    """
    Return the model of a preset, a DH table, or a calibrated robot.

    `source`: one of `UR_TYPES`, or 'ur3_lab', the UR3 of a lab exercise with its own lengths and
    joint zeros; the path of a calibration file of the UR driver; or a DH table: a mapping with `a`
    and `d` (six numbers each, metres), optionally `alpha` and `offset` (radians) and any of `q_min
    q_max qd_max effort_max`, which are the UR5's if left out. A Model is returned as it is.

    Raises `InvalidInput`: unknown name, unreadable file, or a table that is not a UR's.
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, Mapping):
        return _from_table(source)
    if not isinstance(source, (str, Path)):
        raise InvalidInput(
            f'robot model of type {type(source).__name__}: must be the name of an arm, the path '
            'of a calibration file, a DH table or a Model'
        )
    if source in ARMS:
        return _preset(str(source))
    if source == 'ur3_lab':
        return _preset('ur3', name='ur3_lab', lengths=UR3_LAB_DH, offset=UR3_LAB_OFFSET)
    if Path(source).suffix in ('.yaml', '.yml'):
        return load_calibrated(Path(source))
    known = ', '.join((*UR_TYPES, 'ur3_lab'))
    raise InvalidInput(
        f'robot model {str(source)!r}: must be one of {known}, or the path of a calibration file '
        '(.yaml)'
    )


def load_calibrated(path: Path) -> Model:
    """
    Return the model of the arm that a calibration file of the driver describes.

    The file does not name its type, so the preset with the nearest lengths is used. Its hash, or
    one of its numbers where it gives none, is the model's `calibration`.

    Raises `InvalidInput`: the file cannot be read, an entry is missing or not a number, or the arm
    is not a known UR.
    """
    numbers, name = _read(path)
    poses = make_transform(matrix_from_rpy(numbers[:, 3:]), numbers[:, :3])
    x, y, z = numbers[:, :3].T
    lengths = np.array([x[2], x[3], z[0], z[3], -y[4], y[5]])  # a2, a3, d1, d4, d5, d6
    presets = [load_model(ur_type) for ur_type in UR_TYPES]
    off = [float(np.abs(lengths - nominal.lengths).max()) for nominal in presets]
    nominal = presets[int(np.argmin(off))]
    after = _after_joint(nominal)
    before = np.concatenate([np.eye(4)[None], after[:-1]])
    mounts = inverse_transform(before) @ poses
    askew = float(np.linalg.norm(log_se3(mounts)[:, 3:], axis=1).max())
    if min(off) > _MAX_LENGTH or askew > _MAX_ANGLE:
        raise InvalidInput(
            f'{path}: the nearest arm is {nominal.name}, but a length differs by {min(off):.4g} m '
            f'and an axis by {askew:.4g} rad; a calibration stays within {_MAX_LENGTH} m and '
            f'{_MAX_ANGLE} rad, so this is another robot or a damaged file'
        )
    straight = make_transform(np.eye(3), nominal.d[:, None] * [0.0, 0.0, 1.0])
    if np.abs(mounts - straight).max() < _ROUNDING:
        return replace(nominal, calibration=name)
    # Without a hash, the numbers tell one arm from another, and from the nominal one.
    name = name or f'sha256_{hashlib.sha256((numbers + 0.0).tobytes()).hexdigest()[:20]}'
    return replace(nominal, mounts=mounts, calibration=name)


def calibration_offset(m: Model, q: ArrayLike) -> tuple[Array, Array]:
    """Return the distance of the tool from that of the nominal arm, [m] and [rad], (...) each."""
    miss = inverse_transform(forward(replace(m, mounts=None), q)) @ forward(m, q)
    angle = np.linalg.norm(log_se3(miss)[..., 3:], axis=-1)
    return np.linalg.norm(miss[..., :3, 3], axis=-1), angle


def _after_joint(nominal: Model) -> Array:
    """Return Tx(a) Rx(alpha) (6, 4, 4), from each turned joint to its DH frame."""
    roll = nominal.alpha[:, None] * [1.0, 0.0, 0.0]
    return make_transform(matrix_from_rpy(roll), nominal.a[:, None] * [1.0, 0.0, 0.0])


def _read(path: Path) -> tuple[Array, str]:
    """Return x, y, z [m], roll, pitch, yaw [rad] of each joint (6, 6), and the hash, or ''."""
    try:
        # Imported here, so that kinematics needs only NumPy.
        from ur5_pick_place.config_files import load_yaml
    except ImportError as error:
        raise InvalidInput(f'{path}: reading a calibration file needs PyYAML') from error
    return load_yaml(path, 'calibration file', _joint_poses)


def _joint_poses(data: Any) -> tuple[Array, str]:
    kinematics = data.get('kinematics') if isinstance(data, Mapping) else None
    if not isinstance(kinematics, Mapping):
        raise InvalidInput("has no 'kinematics'; give the file that ur_calibration wrote")
    for link in MOVING_LINKS:
        if link not in kinematics:
            raise InvalidInput(f'kinematics has no {link!r}; it needs {", ".join(MOVING_LINKS)}')
    poses = [_JointPose.from_dict(kinematics[link], f'kinematics.{link}') for link in MOVING_LINKS]
    hash_ = kinematics.get('hash')
    return np.array([astuple(pose) for pose in poses]), '' if hash_ is None else str(hash_).strip()


def _preset(
    preset: str,
    name: str = '',
    lengths: tuple[float, ...] = (),
    offset: tuple[float, ...] = (0.0,) * 6,
) -> Model:
    arm = ARMS[preset]
    a2, a3, d1, d4, d5, d6 = lengths or arm['lengths']
    joint_group = [0, 0, 1, 2, 2, 2]
    return Model(
        name=name or preset,
        a=np.array([0.0, a2, a3, 0.0, 0.0, 0.0]),
        d=np.array([d1, 0.0, 0.0, d4, d5, d6]),
        alpha=np.array(ALPHA),
        offset=np.array(offset),
        q_min=-Q_MAX,
        q_max=Q_MAX,
        qd_max=np.deg2rad(np.array(arm['speeds'], dtype=float)[joint_group]),
        effort_max=np.array(arm['torques'], dtype=float)[joint_group],
        payload=float(arm['payload']),
    )


def _from_table(table: Mapping[str, Any]) -> Model:
    ur5 = _preset('ur5')
    keys = ('a', 'd', 'alpha', 'offset', 'q_min', 'q_max', 'qd_max', 'effort_max')
    for key in table:
        if key not in keys:
            raise InvalidInput(f'DH table: unknown key {key!r}; known are: {", ".join(keys)}')
    for key in ('a', 'd'):
        if key not in table:
            raise InvalidInput(f'DH table: {key!r} is missing; give six lengths in metres')
    columns: dict[str, Any] = {
        key: _six(f'DH table: {key}', table.get(key, getattr(ur5, key))) for key in keys
    }
    _check_ur_geometry(columns)
    return Model(name='dh', payload=ur5.payload, **columns)


def _six(what: str, value: ArrayLike) -> Array:
    try:
        column = as_floats(value, what)
    except InvalidInput as error:
        raise InvalidInput(f'{what} = {quoted(value)}: must be six numbers') from error
    if column.shape != (6,) or not np.isfinite(column).all():
        raise InvalidInput(f'{what} = {quoted(value)}: must be six finite numbers')
    return column


def _check_ur_geometry(columns: Mapping[str, Array]) -> None:
    """Refuse a table that the closed form does not cover, naming the entry that is off."""
    free = {'a': (1, 2), 'd': (0, 3, 4, 5), 'alpha': ()}
    for key, free_rows in free.items():
        for i, value in enumerate(columns[key]):
            fixed = ALPHA[i] if key == 'alpha' else 0.0
            if i not in free_rows and abs(value - fixed) > 1e-9:
                raise InvalidInput(
                    f'DH table: {key}[{i}] = {value}: a UR has {fixed:.6g} there, and the closed '
                    'form needs it; load a calibration file for an arm that deviates'
                )
    for key, i in (('a', 1), ('a', 2), ('d', 3), ('d', 4)):
        if columns[key][i] == 0.0:
            raise InvalidInput(f'DH table: {key}[{i}] = 0: must be a length other than zero')
    for low, high in zip(columns['q_min'], columns['q_max'], strict=True):
        if low >= high:
            raise InvalidInput(f'DH table: q_min = {low} is not below q_max = {high}')
