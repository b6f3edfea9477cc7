# SPDX-License-Identifier: Apache-2.0
"""Where the arm goes, without when: Cartesian lines, and joint paths that follow them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_interp_spline
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import IncompletePath
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, Model, classify, inverse
from ur5_pick_place.kinematics.reasons import explain

POSITION_STEP = 2e-3  # [m] between samples of a Cartesian path
ANGLE_STEP = 0.02  # [rad] likewise
_MIN_SAMPLES = 12
_MAX_SAMPLES = 2000
# A joint that turns this far [rad] between two samples has met a singularity or changed branch.
_MAX_JOINT_STEP = 0.35


@dataclass(frozen=True)
class JointPath:
    """
    A smooth joint curve over x in [0, 1], three times continuously differentiable.

    Attributes
    ----------
    q : ndarray, shape (n, 6)
        Samples [rad] at equal steps of x, n >= 6.

    """

    q: NDArray[np.float64]

    @cached_property
    def _spline(self) -> BSpline:
        return make_interp_spline(np.linspace(0.0, 1.0, len(self.q)), self.q, k=5)

    @property
    def is_point(self) -> bool:
        """Whether the path is too short to be a motion."""
        return bool(np.ptp(self.q, axis=0).max() < 1e-9)

    def sample(self, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return q and its first three derivatives by x, each (n, 6), at `x` (n,)."""
        return tuple(self._spline(x, nu=order) for order in range(4))


def line_poses(
    T_start: NDArray[np.float64],
    T_goal: NDArray[np.float64],
    position_step: float = POSITION_STEP,
) -> NDArray[np.float64]:
    """
    Return poses (n, 4, 4) along a straight line with rotation about one constant axis.

    Position and rotation advance in proportion; steps are at most `position_step` [m] and
    `ANGLE_STEP` [rad].

    """
    turn = Rotation.from_matrix(T_start[:3, :3].T @ T_goal[:3, :3]).as_rotvec()
    way = T_goal[:3, 3] - T_start[:3, 3]
    steps = max(np.linalg.norm(way) / position_step, np.linalg.norm(turn) / ANGLE_STEP)
    n = int(np.clip(np.ceil(steps) + 1, _MIN_SAMPLES, _MAX_SAMPLES))
    x = np.linspace(0.0, 1.0, n)
    poses = np.tile(np.eye(4), (n, 1, 1))
    poses[:, :3, :3] = T_start[:3, :3] @ Rotation.from_rotvec(x[:, None] * turn).as_matrix()
    poses[:, :3, 3] = T_start[:3, 3] + x[:, None] * way
    poses[-1] = T_goal
    return poses


def follow_poses(
    model: Model, poses: NDArray[np.float64], q_start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """
    Return the joints (n, 6) [rad] that follow `poses` on the branch of `q_start`.

    Parameters
    ----------
    model : Model
    poses : ndarray, shape (n, 4, 4)
        T_base_tool, the first one reached by `q_start`.
    q_start : ndarray, shape (6,)
        Joints at the first pose [rad]; later joints continue from it without a turn.

    Raises
    ------
    IncompletePath
        The branch ends, a joint limit is met or a singularity is crossed; the message names the
        first bad pose and the cause.

    """
    branch = int(classify(model, q_start))
    rows, reached = inverse(model, poses, q6=float(q_start[5]))
    rows, reached = rows[:, branch], reached[:, branch]
    good = len(poses) if reached.all() else int(np.argmin(reached))
    q = np.unwrap(np.vstack([q_start, rows[:good]]), axis=0)[1:]
    steps = np.abs(np.diff(np.vstack([q_start, q]), axis=0)).max(axis=1)
    jump = np.flatnonzero(steps > _MAX_JOINT_STEP)
    if jump.size:
        i = int(jump[0])
        joint = int(np.abs(q[i] - (q[i - 1] if i else q_start)).argmax())
        raise _incomplete(
            i,
            len(poses),
            poses,
            f'{JOINT_NAMES[joint]} would turn {np.degrees(steps[i]):.0f} deg within one '
            f'{POSITION_STEP * 1000:.0f} mm step: the path meets a singularity of branch '
            f'{BRANCHES[branch]}; move the line away from it or choose another branch',
        )
    if good < len(poses):
        name = BRANCHES[branch]
        reasons = {gap.branch: gap.text for gap in explain(model, poses[good], q_start[5])}
        raise _incomplete(good, len(poses), poses, f'branch {name} ends: {reasons[name]}')
    _check_range(model, q, poses)
    return q


def _check_range(model: Model, q: NDArray[np.float64], poses: NDArray[np.float64]) -> None:
    outside = (q < model.q_min) | (q > model.q_max)
    if outside.any():
        i, joint = (int(k) for k in np.argwhere(outside)[0])
        raise _incomplete(
            i,
            len(poses),
            poses,
            f'{JOINT_NAMES[joint]} = {np.degrees(q[i, joint]):.1f} deg leaves its range '
            f'{np.degrees(model.q_min[joint]):.0f} to {np.degrees(model.q_max[joint]):.0f} deg',
        )


def _incomplete(i: int, n: int, poses: NDArray[np.float64], cause: str) -> IncompletePath:
    x, y, z = poses[i, :3, 3]
    fraction = max(0, i - 1) / (n - 1)
    return IncompletePath(
        f'path can be followed to {100 * fraction:.0f} %: at pose {i} of {n}, tool at '
        f'({x:.3f}, {y:.3f}, {z:.3f}) m in base, {cause}',
        fraction,
    )
