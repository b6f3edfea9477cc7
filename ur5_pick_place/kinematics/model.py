# SPDX-License-Identifier: Apache-2.0
"""
The model of one arm: DH table, limits, and joint mounts if it is calibrated.

Frame i follows frame i-1 by Rz(q_i + offset_i) Tz(d_i) Tx(a_i) Rx(alpha_i) (standard DH). Frame 0
is the controller's `base`, frame 6 is `tool0`. Metres and radians throughout.

References
----------
DH tables: Universal Robots, article "DH Parameters for calculations of kinematics and dynamics".
Limits: Universal_Robots_ROS2_Description, config/<type>/joint_limits.yaml, which takes speeds from
the user manuals and torques from the article "Max. joint torques". The same numbers are in
config/<type>/default_kinematics.yaml.

"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array

JOINT_NAMES = (
    'shoulder_pan_joint',
    'shoulder_lift_joint',
    'elbow_joint',
    'wrist_1_joint',
    'wrist_2_joint',
    'wrist_3_joint',
)

HOME = np.deg2rad([0.0, -90.0, 90.0, -90.0, -90.0, 0.0])  # tool down, clear of all singularities
HOME.setflags(write=False)

CYCLE = 0.008
"""Control period of a CB3 robot and its driver [s]."""

ALPHA = (math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0)  # the same for every UR [rad]

# The elbow is limited to half of its ±360° because it hits the upper arm beyond about ±180°
# (ros-industrial/universal_robot issue 265). wrist_3 of ur3 and ur3e turns endlessly; it is
# limited to ±360° like the others, which is also enough for every variant.
Q_MAX = np.deg2rad([360.0, 360.0, 180.0, 360.0, 360.0, 360.0])

# name: a2, a3, d1, d4, d5, d6 [m]; speeds of joint 1-2, 3, 4-6 [deg/s]; torques of the same [N m]
_PRESETS = {
    'ur3': ((-0.24365, -0.21325, 0.1519, 0.11235, 0.08535, 0.0819), (180, 180, 360), (56, 28, 12)),
    'ur5': (
        (-0.425, -0.39225, 0.089159, 0.10915, 0.09465, 0.0823),
        (180, 180, 180),
        (150, 150, 28),
    ),
    'ur10': (
        (-0.612, -0.5723, 0.1273, 0.163941, 0.1157, 0.0922),
        (120, 180, 180),
        (330, 150, 56),
    ),
    'ur3e': (
        (-0.24355, -0.2132, 0.15185, 0.13105, 0.08535, 0.0921),
        (180, 180, 360),
        (54, 28, 9),
    ),
    'ur5e': ((-0.425, -0.3922, 0.1625, 0.1333, 0.0997, 0.0996), (180, 180, 180), (150, 150, 28)),
    'ur10e': (
        (-0.6127, -0.57155, 0.1807, 0.17415, 0.11985, 0.11655),
        (120, 180, 180),
        (330, 150, 54),
    ),
    'ur16e': (
        (-0.4784, -0.36, 0.1807, 0.17415, 0.11985, 0.11655),
        (120, 180, 180),
        (330, 150, 54),
    ),
}
UR_TYPES = tuple(_PRESETS)

# The UR3 of the laboratory exercise, with the lengths of its work sheet. Its zero differs:
# robot theta_1 = sheet + pi, robot theta_4 = sheet - pi/2.
_UR3_LAB_DH = (-0.244, -0.213, 0.152, 0.110, 0.083, 0.082)
_UR3_LAB_OFFSET = (math.pi, 0.0, 0.0, -math.pi / 2, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Model:
    """
    One arm's geometry and limits; arrays are read-only.

    Attributes
    ----------
    name : str
        Preset, or 'dh' for a caller's own table.
    a, d : ndarray, shape (6,)
        DH lengths and offsets [m].
    alpha, offset : ndarray, shape (6,)
        DH twists, and the offset added to q to give theta [rad].
    q_min, q_max : ndarray, shape (6,)
        Position limits of q [rad].
    qd_max : ndarray, shape (6,)
        Speed limits [rad/s].
    effort_max : ndarray, shape (6,)
        Torque limits [N m].
    mounts : ndarray, shape (6, 4, 4), or None
        Calibrated arms only: the frame in which joint i turns about z, seen from frame i-1; an
        ideal arm has Tz(d_i) there.
    calibration : str
        Hash of the calibration file; empty for an ideal arm.

    """

    name: str
    a: Array
    d: Array
    alpha: Array
    offset: Array
    q_min: Array
    q_max: Array
    qd_max: Array
    effort_max: Array
    mounts: Array | None = None
    calibration: str = ''

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            if isinstance(value, np.ndarray):
                frozen = np.array(value, dtype=np.float64)
                frozen.setflags(write=False)
                object.__setattr__(self, key, frozen)

    @cached_property
    def lengths(self) -> tuple[float, float, float, float, float, float]:
        """The six lengths of a UR as plain numbers: a2, a3, d1, d4, d5, d6 [m]."""
        _, a2, a3, *_ = self.a.tolist()
        d1, _, _, d4, d5, d6 = self.d.tolist()
        return a2, a3, d1, d4, d5, d6

    @cached_property
    def reach(self) -> tuple[float, float]:
        """Least and largest distance of frame 3 from frame 1: elbow folded, stretched [m]."""
        a2, a3 = abs(self.lengths[0]), abs(self.lengths[1])
        return abs(a2 - a3), a2 + a3

    @cached_property
    def offsets(self) -> tuple[float, ...]:
        """`offset` as plain numbers [rad]."""
        return tuple(self.offset.tolist())


def load_model(source: str | Path | Mapping[str, Any] | Model) -> Model:
    """
    Return the model of a preset, a DH table, or a calibrated robot.

    Parameters
    ----------
    source
        One of `UR_TYPES` or 'ur3_lab'; the path of a calibration file of the UR driver; or a DH
        table: a mapping with `a` and `d` (six numbers each, metres), optionally `alpha` and
        `offset` (radians) and any of `q_min q_max qd_max effort_max`, which are the UR5's if
        left out. A Model is returned as it is.

    Raises
    ------
    InvalidInput
        The name is unknown, the file cannot be read, or the table is not that of a UR.

    """
    if isinstance(source, Model):
        return source
    if isinstance(source, Mapping):
        return _from_table(source)
    if source in _PRESETS:
        return _preset(str(source))
    if source == 'ur3_lab':
        return _preset('ur3', name='ur3_lab', lengths=_UR3_LAB_DH, offset=_UR3_LAB_OFFSET)
    if Path(source).suffix in ('.yaml', '.yml'):
        from ur5_pick_place.kinematics.loading import load_calibrated

        return load_calibrated(Path(source))
    known = ', '.join((*UR_TYPES, 'ur3_lab'))
    raise InvalidInput(
        f'robot model {str(source)!r}: must be one of {known}, or the path of a calibration file '
        '(.yaml)'
    )


def _preset(
    preset: str,
    name: str = '',
    lengths: tuple[float, ...] = (),
    offset: tuple[float, ...] = (0.0,) * 6,
) -> Model:
    dh, speeds, efforts = _PRESETS[preset]
    a2, a3, d1, d4, d5, d6 = lengths or dh
    joint_group = [0, 0, 1, 2, 2, 2]
    return Model(
        name=name or preset,
        a=np.array([0.0, a2, a3, 0.0, 0.0, 0.0]),
        d=np.array([d1, 0.0, 0.0, d4, d5, d6]),
        alpha=np.array(ALPHA),
        offset=np.array(offset),
        q_min=-Q_MAX,
        q_max=Q_MAX,
        qd_max=np.deg2rad(np.array(speeds, dtype=float)[joint_group]),
        effort_max=np.array(efforts, dtype=float)[joint_group],
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
    return Model(name='dh', **columns)


def _six(what: str, value: ArrayLike) -> Array:
    try:
        column = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f'{what} = {value!r}: must be six numbers') from error
    if column.shape != (6,) or not np.isfinite(column).all():
        raise InvalidInput(f'{what} = {value!r}: must be six finite numbers')
    return column


def _check_ur_geometry(columns: Mapping[str, Array]) -> None:
    """Refuse a table that the closed form does not cover, naming the entry."""
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
