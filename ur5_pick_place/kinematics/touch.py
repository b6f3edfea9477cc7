# SPDX-License-Identifier: Apache-2.0
"""TCP and table height from touches: least squares, with residual and verdict."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput, fixed
from ur5_pick_place.kinematics.transforms import Array, check_transform

TCP_TOUCHES, TABLE_TOUCHES = 4, 3
"""How many touches are needed at least."""
_WORST = 1e-3  # [m] by which a touch may miss the common point
_LEVEL = 2e-3  # [m] by which a touch may miss the height of a table
_AMPLIFICATION = 3.0  # of touching errors
_APART = 0.1  # [m] of the second largest extent of touches on a table


@dataclass(frozen=True)
class TouchFit:
    """The quality of a fit to touches."""

    residual: float  # root mean square distance of the touches from the result [m]
    worst: float  # of the touch that misses it most [m]
    worst_touch: int  # the number of that touch, counted from 1
    advice: str  # what to do before the result can be used; empty if it can

    @property
    def is_good(self) -> bool:
        """Whether the result can be used."""
        return not self.advice

    def _verdict(self) -> str:
        missed = f'residual {1e3 * self.residual:.2f} mm, worst {1e3 * self.worst:.2f} mm'
        return f'{missed} (touch {self.worst_touch}): {self.advice or "good"}'


@dataclass(frozen=True)
class TcpFit(TouchFit):
    """The TCP from touches of one point."""

    position: Array  # (3,) position of the TCP in tool0 [m]
    point: Array  # (3,) the point that was touched, in `base` [m]
    # ratio of the TCP error to the touch error; it falls as the tool is turned further between the
    # touches
    amplification: float

    def __str__(self) -> str:
        x, y, z = (fixed(v, 4) for v in self.position)
        return f'TCP at ({x}, {y}, {z}) m in tool0; {self._verdict()}'


@dataclass(frozen=True)
class TableFit(TouchFit):
    """The height of a level table from touches with the TCP."""

    height: float  # in `base_link` [m]
    tilt: float  # of the plane through the touches [rad]; NaN if they lie on one line

    def __str__(self) -> str:
        tilt = f'tilt {np.rad2deg(self.tilt):.2f} deg'
        return f'table at {fixed(self.height, 4)} m in base_link, {tilt}; {self._verdict()}'


def tcp_from_touches(T_base_tool: ArrayLike) -> TcpFit:
    """
    Return the TCP that touched one point from several sides.

    With the TCP at p in tool0 and the point at c in `base`, R_i p + t_i = c holds for every touch:
    linear in p and c, solved by least squares.

    `T_base_tool` (n, 4, 4): poses of tool0 at the touches, n >= 4, the tool turned between them.

    Raises `InvalidInput`: fewer than four poses, or one is not rigid.
    """
    poses = check_transform(T_base_tool, 'T_base_tool')
    if poses.ndim != 3 or len(poses) < TCP_TOUCHES:
        raise InvalidInput(
            f'{len(poses) if poses.ndim == 3 else 1} touches: at least {TCP_TOUCHES} are needed'
        )
    R, t = poses[:, :3, :3], poses[:, :3, 3]
    # The best point is the mean of R p + t over the touches; with it, only p is unknown.
    A, b = R - R.mean(axis=0), t.mean(axis=0) - t
    singular = np.linalg.svd(A.reshape(-1, 3), compute_uv=False)
    amplification = float(1.0 / max(singular[-1], 1e-9))
    p = np.linalg.lstsq(A.reshape(-1, 3), b.ravel(), rcond=None)[0]
    reached = R @ p + t
    point = reached.mean(axis=0)
    residual, worst, which = _misses(np.linalg.norm(reached - point, axis=1))
    advice = ''
    if amplification > _AMPLIFICATION:
        advice = (
            f'touch errors are amplified {amplification:.1f} times, limit {_AMPLIFICATION:g}: '
            'turn the tool by 30 deg or more between the touches, about different axes'
        )
    elif worst > _WORST:
        advice = f'allowed {1e3 * _WORST:g} mm: repeat touch {which}, more carefully'
    return TcpFit(residual, worst, which, advice, p, point, amplification)


def table_from_touches(points: ArrayLike) -> TableFit:
    """
    Return the height of a table from points on it.

    `points` (n, 3): the TCP in `base_link` at the touches [m], n >= 3.

    Raises `InvalidInput`: fewer than three points, or a number is not finite.
    """
    p = np.asarray(points, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != 3 or len(p) < TABLE_TOUCHES or not np.isfinite(p).all():
        raise InvalidInput(
            f'points have shape {p.shape}: at least {TABLE_TOUCHES} touches, of 3 finite numbers'
        )
    height = float(p[:, 2].mean())
    flat = p - p.mean(axis=0)
    extent = float(np.linalg.svd(flat[:, :2], compute_uv=False)[-1])
    slope = np.linalg.lstsq(flat[:, :2], flat[:, 2], rcond=None)[0]
    tilt = float(np.arctan(np.linalg.norm(slope))) if extent > _APART / 10.0 else float('nan')
    residual, worst, which = _misses(np.abs(flat[:, 2]))
    advice = ''
    if extent < _APART:
        advice = (
            f'the touches lie within {extent:.3f} m of a line, at least {_APART} m are needed: '
            'touch the corners of the table'
        )
    elif worst > _LEVEL:
        advice = (
            f'allowed {1e3 * _LEVEL:g} mm: repeat touch {which}; a tilted table must be levelled, '
            'or described by a box'
        )
    return TableFit(residual, worst, which, advice, height, tilt)


def _misses(away: Array) -> tuple[float, float, int]:
    """Return the root mean square, the maximum, and the number of that touch, counted from 1."""
    return float(np.sqrt(np.mean(away**2))), float(away.max()), int(away.argmax()) + 1
