# SPDX-License-Identifier: Apache-2.0
"""
Calibrated arms: what the driver's calibration file says, and the inverse by Newton's method.

Real joints sit a little beside and askew of where the DH table has them, so that the closed form
is only near. It gives the seed on each branch; Newton's method on the calibrated arm does the
rest.

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
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.branches import classify
from ur5_pick_place.kinematics.forward import forward, jacobian
from ur5_pick_place.kinematics.inverse_batch import inverse_batch, wrap_to_pi
from ur5_pick_place.kinematics.model import UR_TYPES, Model, load_model
from ur5_pick_place.kinematics.transforms import (
    exp_se3,
    inverse_transform,
    log_se3,
    make_transform,
    matrix_from_rpy,
)

Array = NDArray[np.float64]

LINKS = ('shoulder', 'upper_arm', 'forearm', 'wrist_1', 'wrist_2', 'wrist_3')

_ROUNDING = 1e-9  # a file this near to the ideal arm is the ideal arm, printed with ten digits
_MOST_LENGTH = 0.02  # m; calibrated arms differ from their DH table by millimetres
_MOST_ANGLE = 0.1  # rad
_RESIDUAL = 1e-11  # m and rad, of a solution
_STEPS = 30
_CHUNK = 256  # poses at a time, which bounds the memory

_AS_IS = np.eye(4)[None]
_TILTED = exp_se3(0.03 * np.eye(6)[[3, 3, 4, 4]] * [[1.0], [-1.0], [1.0], [-1.0]])


def load_calibrated(path: Path) -> Model:
    """
    Give the model of the arm that a calibration file of the driver describes.

    The file does not name its type: it is the preset whose lengths are nearest.

    Raises
    ------
    InvalidInput
        The file cannot be read, an entry is missing or no number, or the arm is no UR we know.

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
    if min(off) > _MOST_LENGTH or askew > _MOST_ANGLE:
        raise InvalidInput(
            f'{path}: the nearest arm is {ideal.name}, but a length differs by {min(off):.4g} m '
            f'and an axis by {askew:.4g} rad; a calibration stays within {_MOST_LENGTH} m and '
            f'{_MOST_ANGLE} rad, so that this is another robot or a damaged file'
        )
    straight = make_transform(np.eye(3), ideal.d[:, None] * [0.0, 0.0, 1.0])
    if np.abs(mounts - straight).max() < _ROUNDING:
        return replace(ideal, calibration=name)
    return replace(ideal, mounts=mounts, calibration=name)


def calibration_offset(m: Model, q: ArrayLike) -> tuple[Array, Array]:
    """Tell how far the tool is from where the ideal arm would have it: [m] and [rad], (...)."""
    miss = inverse_transform(forward(replace(m, mounts=None), q)) @ forward(m, q)
    angle = np.linalg.norm(log_se3(miss)[..., 3:], axis=-1)
    return np.linalg.norm(miss[..., :3, 3], axis=-1), angle


def inverse_calibrated(m: Model, T: Array, q6: Array) -> tuple[Array, NDArray[np.bool_]]:
    """
    Solve n rigid poses (n, 4, 4) of a calibrated arm; see `inverse`.

    A solution is in the row that `classify` names. Within about the size of the calibration of a
    wrist singularity, or of two singularities at once, two solutions may share a label; one of
    them is then given. Solutions come in pairs, so that an odd number is looked at once more.

    """
    ideal = replace(m, mounts=None)
    q, ok = inverse_batch(ideal, T, q6)
    for start in range(0, len(T), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        expected = ok[chunk].sum(axis=1)
        q[chunk], ok[chunk] = _solve(m, ideal, T[chunk], q6[chunk], _AS_IS)
        found = ok[chunk].sum(axis=1)
        short = start + np.flatnonzero((found < expected) | (found == 0) | (found % 2 == 1))
        if len(short):
            q[short], ok[short] = _solve(m, ideal, T[short], q6[short], _TILTED)
    return q, ok


def _solve(
    m: Model, ideal: Model, T: Array, q6: Array, tilts: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """
    Start Newton's method from all solutions of ideal arms at the pose and at tilted ones.

    A second arm, with longer links nearer in length and a slimmer shoulder, has a seed where only
    the calibrated arm reaches, stretched, folded or beside its axis 1; tilts of the tool spread
    the seeds where theta_6 is nearly free.

    """
    longer, slimmer = [1.0, 1.04, 1.08, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.8, 1.0, 1.0]
    generous = replace(ideal, a=ideal.a * longer, d=ideal.d * slimmer)
    arms = (ideal, generous)
    seeds = np.concatenate(
        [inverse_batch(arm, T @ tilt, q6)[0] for tilt in tilts for arm in arms], axis=1
    )
    q, residual = _newton(m, np.repeat(T[:, None], seeds.shape[1], axis=1), seeds)
    q = wrap_to_pi(q)
    labels = classify(m, np.nan_to_num(q))
    rows = np.full((len(T), 8, 6), np.nan)
    ok = np.zeros((len(T), 8), dtype=np.bool_)
    pose = np.arange(len(T))
    for k in range(seeds.shape[1]):
        take = (residual[:, k] < _RESIDUAL) & ~ok[pose, labels[:, k]]
        rows[pose[take], labels[take, k]] = q[take, k]
        ok[pose[take], labels[take, k]] = True
    return rows, ok


def _newton(m: Model, T: Array, seeds: Array) -> tuple[Array, Array]:
    """Give joints (..., 6) that reach poses (..., 4, 4) from seeds, and what is still missing."""
    q = seeds.reshape(-1, 6).copy()
    goals = T.reshape(-1, 4, 4)
    residual = np.full(len(q), np.inf)
    active = np.flatnonzero(np.isfinite(q[:, 0]))
    for _ in range(_STEPS):
        if not len(active):
            break
        miss = log_se3(inverse_transform(forward(m, q[active])) @ goals[active])
        residual[active] = np.abs(miss).max(axis=1)
        going = residual[active] > 1e-15
        active, miss = active[going], miss[going]
        q[active] += _damped_step(jacobian(m, q[active]), miss)
    return q.reshape(seeds.shape), residual.reshape(seeds.shape[:-1])


def _damped_step(J: Array, miss: Array) -> Array:
    """Solve J dq = miss, damped by what is missing, so that it ends as Newton's method does."""
    J_T = np.swapaxes(J, -1, -2)
    damping = 0.01 * (miss * miss).sum(axis=-1)[:, None, None]
    dq: Array = J_T @ np.linalg.solve(J @ J_T + damping * np.eye(6), miss[..., None])
    largest = np.abs(dq).max(axis=1, keepdims=True)
    return np.asarray(dq / np.maximum(1.0, largest / 0.5))[..., 0]


def _after_joint(ideal: Model) -> Array:
    """Give Tx(a) Rx(alpha) (6, 4, 4): from each joint, turned, to its DH frame."""
    roll = ideal.alpha[:, None] * [1.0, 0.0, 0.0]
    return make_transform(matrix_from_rpy(roll), ideal.a[:, None] * [1.0, 0.0, 0.0])


def _read(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        # Here, so that kinematics needs NumPy alone.
        from ur5_pick_place.yaml_file import read_yaml
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
