# SPDX-License-Identifier: Apache-2.0
"""Why a pose has no solution on a branch, and by how much it is missed."""

from math import hypot, inf, isnan
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import _ik
from ur5_pick_place.kinematics.branches import BRANCHES
from ur5_pick_place.kinematics.inverse import inverse
from ur5_pick_place.kinematics.model import JOINT_NAMES, Model
from ur5_pick_place.kinematics.transforms import check_transform

Mask = NDArray[np.bool_]
Cause = Literal['cylinder', 'far', 'near', 'double']

_SHOULDER, _ELBOW, _WRIST = 4, 2, 1  # bits of a row number: shoulder right, elbow down, wrist up
_FEWER = 'none found: near a singularity a calibrated arm has fewer solutions than the nominal arm'


class MissingBranch(NamedTuple):
    """Why one branch has no solution."""

    branch: str  # its name
    # 'cylinder': frame 5 is nearer to axis 1 than d4. 'far', 'near': the elbow cannot stretch or
    # fold enough for frame 3. 'double': the branch coincides with another one, whose row holds the
    # root; on a calibrated arm also where only one of the two has a root.
    cause: Cause
    amount: float  # by how much [m]; 0 for 'double'
    text: str  # the reason as text


def explain(
    m: Model, T: ArrayLike, q6: float = 0.0, seed: ArrayLike | None = None
) -> tuple[MissingBranch, ...]:
    """
    Return the reason for each branch on which a pose has no solution.

    A calibrated arm is treated by its nominal geometry, so that `amount` is then accurate to about
    the size of the calibration.

    `T` (4, 4): T_base_tool [m]. `q6`: desired last joint, as given to `inverse` [rad]. `seed`
    (6,): as given to `inverse` [rad].

    They are in the order of `BRANCHES`; empty if all eight exist.
    """
    pose = check_transform(T, 'T')
    if pose.shape != (4, 4):
        raise InvalidInput(f'T has shape {pose.shape}: must be (4, 4), one pose at a time')
    q, ok = inverse(m, pose, q6, seed)
    t = pose.ravel().tolist()
    planes = np.empty((4, 3))
    count = _ik.planes(m.arm, np.ascontiguousarray(pose), q6, planes)
    vectors = {int(k): (u, v) for k, u, v in planes[:count].tolist()}
    missing = np.flatnonzero(~ok).tolist()
    if not vectors:
        return tuple(_cylinder(m, t, BRANCHES[k]) for k in missing)

    def reason(k: int) -> MissingBranch:
        holder = _holder(k, ok, set(vectors))
        if holder != k and ok[holder]:
            is_free = (holder & _SHOULDER) | _WRIST not in vectors
            return _double(m, k, holder, float(q[holder, 5]) if is_free else None)
        return _unreached(m, k, hypot(*vectors[holder & ~_ELBOW]))

    return tuple(reason(k) for k in missing)


def _holder(k: int, ok: Mask, planes: set[int]) -> int:
    """
    Return the row that holds the root of row `k` where two roots coincide.

    A double root is stored once: in the row `left` of the shoulder, `down` of the wrist, or `up`
    of the elbow. With the shoulder swapped the name of the elbow is inverted, as it depends on
    that of the shoulder.
    """
    if k & _SHOULDER and not any(row & _SHOULDER for row in planes):
        k ^= _SHOULDER | _ELBOW
    if k & _WRIST and k & ~_ELBOW not in planes:
        k ^= _WRIST
    if k & _ELBOW and ok[k ^ _ELBOW] and not ok[k]:
        k ^= _ELBOW
    return k


def _double(m: Model, k: int, holder: int, q6: float | None) -> MissingBranch:
    """Name the row that holds the root of row `k`, and the last joint [rad] where it is free."""
    where = '' if q6 is None else f' with {JOINT_NAMES[5]} at {q6:.4g} rad'
    text = f'double root{where}: the only solution is the one of {BRANCHES[holder]}'
    return MissingBranch(BRANCHES[k], 'double', 0.0, text if m.mounts is None else _FEWER)


def _unreached(m: Model, k: int, distance: float) -> MissingBranch:
    """Return by how much frame 3, at a distance from frame 1 [m], is out of the elbow's reach."""
    distance = inf if isnan(distance) else distance  # squares overflow beyond 1e154 m
    inner, outer = m.reach
    is_far = distance - outer > inner - distance
    amount = max(0.0, distance - outer if is_far else inner - distance)
    if amount == 0.0 and m.mounts is not None:
        text = _FEWER
    elif is_far:
        text = f'too far: the arm, fully stretched, is {amount:.6g} m too short'
    else:
        text = f'too near: the arm, fully folded, is {amount:.6g} m too long'
    return MissingBranch(BRANCHES[k], 'far' if is_far else 'near', amount, text)


def _cylinder(m: Model, t: list[float], branch: str) -> MissingBranch:
    _, _, _, d4, _, d6 = m.lengths
    inside = abs(d4) - hypot(t[3] - d6 * t[2], t[7] - d6 * t[6])
    text = (
        f'inside the shoulder cylinder: the wrist is {inside:.6g} m nearer to the axis of joint 1 '
        f'than its least distance of {abs(d4):.6g} m'
    )
    return MissingBranch(branch, 'cylinder', inside, text)
