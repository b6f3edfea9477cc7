# SPDX-License-Identifier: Apache-2.0
"""Joint paths, without timing, that follow a Cartesian curve on one branch."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_interp_spline

from ur5_pick_place.errors import IncompletePath, fixed
from ur5_pick_place.kinematics import BRANCHES, JOINT_NAMES, Model, classify, inverse
from ur5_pick_place.kinematics.branches import nearest_singularity
from ur5_pick_place.kinematics.reasons import explain
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.limits import range_from
from ur5_pick_place.planning.paths.curves import Curve

POSITION_STEP = 2e-3  # [m] between samples of a Cartesian path
ANGLE_STEP = 0.02  # [rad] likewise
JOINT_STEP = 0.03  # [rad] likewise, any joint
_MIN_SAMPLES = 24
_MAX_SAMPLES = 4000
# A joint that turns more than this [rad] between two samples has met a singularity.
_MAX_JOINT_STEP = 0.35
_HALVINGS = 12
_NO_MOTION = 1e-9  # [rad]


@dataclass(frozen=True)
class JointPath:
    """A smooth joint curve over x in [0, 1], three times continuously differentiable."""

    q: Array  # (n, 6) samples [rad] at equal steps of x, n >= 6
    share: Array | None = None  # (n,) fraction of the curve at each sample, 0 to 1
    # (n,) bound on the speed of TCP and elbow around each sample [m/s], besides that of the limits
    speed: Array | None = None

    @cached_property
    def _spline(self) -> BSpline:
        return make_interp_spline(np.linspace(0.0, 1.0, len(self.q)), self.q, k=5)

    @property
    def is_point(self) -> bool:
        """Whether the path is too short to be a motion."""
        return bool(np.ptp(self.q, axis=0).max() < _NO_MOTION)

    def sample(self, x: Array) -> tuple[Array, ...]:
        """Return q [rad] and its first three derivatives by x, each (n, 6), at `x` (n,)."""
        return tuple(self._spline(x, nu=order) for order in range(4))

    def speed_at(self, x: Array) -> Array:
        """Return the path's own speed bound (n,) [m/s] at `x` (n,); infinite if it has none."""
        if self.speed is None:
            return np.full(len(x), np.inf)
        return np.asarray(self.speed[np.rint(x * (len(self.q) - 1)).astype(int)])


def follow(
    model: Model, curve: Curve, q_start: Array, position_step: float = POSITION_STEP
) -> JointPath:
    """
    Return the joint path along `curve` on the branch of `q_start`.

    Its parameter advances half with the curve and half with the joint motion, so that it stays
    smooth where the joints move fast: near a singularity, or at a stretched elbow at either end.

    `curve`: poses T_base_tool, the first one reached by `q_start`. `q_start` (6,): joints at the
    first pose [rad]; later joints continue from it without a turn. `position_step`: largest
    distance between two samples [m].

    Raises `IncompletePath`: the branch ends, a joint limit is met or a singularity is crossed; the
    message names the first bad pose and the cause.
    """
    steps = max(curve.length / position_step, curve.turn / ANGLE_STEP)
    s, q = refine(model, curve, q_start, position_step)
    joint_steps = np.abs(np.diff(q, axis=0)).max(axis=1).sum() / JOINT_STEP
    n = int(np.clip(2.0 * max(steps, joint_steps), _MIN_SAMPLES, _MAX_SAMPLES))
    for _ in range(2):  # the second time from even samples, whose chords are smooth
        s = _even(s, q, n)
        q = follow_poses(model, curve(s), q_start, s)
    return JointPath(q, s)


def _even(s: Array, q: Array, n: int) -> Array:
    """Return `n` parameters in [0, 1] with equal steps of curve and joint motion."""
    dq = np.linalg.norm(np.diff(q, axis=0), axis=1)
    if dq.sum() < _NO_MOTION:
        return np.linspace(0.0, 1.0, n)
    travelled = np.concatenate([[0.0], np.cumsum(0.5 * np.diff(s) + 0.5 * dq / dq.sum())])
    even = make_interp_spline(travelled / travelled[-1], s, k=5)(np.linspace(0.0, 1.0, n))
    even[[0, -1]] = 0.0, 1.0
    return even if (np.diff(even) > 0.0).all() else np.linspace(0.0, 1.0, n)


def even_steps(curve: Curve, position_step: float) -> Array:
    """Return fractions of `curve` with equal steps of at most `position_step` [m]."""
    steps = count_steps(curve, position_step)
    return np.linspace(0.0, 1.0, max(_MIN_SAMPLES, steps + 1))


def count_steps(curve: Curve, position_step: float) -> int:
    """Return the least number of equal steps of at most `position_step` [m]; 0 if of no length."""
    steps = np.ceil(max(curve.length / position_step, curve.turn / ANGLE_STEP))
    return int(min(steps, _MAX_SAMPLES - 1))


def refine(
    model: Model, curve: Curve, q_start: Array, position_step: float
) -> tuple[Array, Array]:
    """
    Return fractions of `curve` (n,) and the joints there (n, 6) [rad], in small joint steps.

    Even steps are halved where a joint turns far, and where the branch or the range ends.
    Parameters and errors as `follow`.
    """
    s = even_steps(curve, position_step)
    for _ in range(_HALVINGS):
        checkpoint()
        q = _on_branch(model, curve(s), q_start)
        far = np.abs(np.diff(q, axis=0)).max(axis=1, initial=0.0) > JOINT_STEP
        end = int(np.append(_outside(model, q, q_start).any(axis=1), True).argmax())
        if 0 < end < len(s):
            far = np.append(far, True)[: len(s) - 1]
            far[end - 1] = True
        if not far.any():
            break
        i = np.flatnonzero(far)
        s = np.insert(s, i + 1, 0.5 * (s[i] + s[i + 1]))
    return s, follow_poses(model, curve(s), q_start, s)


def _on_branch(model: Model, poses: Array, q_start: Array) -> Array:
    """Return the joints (m, 6) [rad] up to the first pose not reachable on the branch."""
    rows, reached = inverse(model, poses, q6=float(q_start[5]), seed=q_start)
    branch = int(classify(model, q_start))
    good = len(poses) if reached[:, branch].all() else int(np.argmin(reached[:, branch]))
    return np.unwrap(np.vstack([q_start, rows[:good, branch]]), axis=0)[1:]


def follow_poses(model: Model, poses: Array, q_start: Array, s: Array | None = None) -> Array:
    """
    Return the joints (n, 6) [rad] that follow `poses` on the branch of `q_start`.

    `poses` (n, 4, 4): T_base_tool, the first one reached by `q_start`. `q_start` (6,): joints at
    the first pose [rad]; later joints continue from it without a turn. `s` (n,): fraction of the
    path at each pose, 0 to 1; equal steps if not given.

    Raises `IncompletePath`: as `follow`.
    """
    share = np.linspace(0.0, 1.0, len(poses)) if s is None else s
    name = BRANCHES[int(classify(model, q_start))]
    q = _on_branch(model, poses, q_start)
    before = np.vstack([q_start, q])
    jumps = np.flatnonzero(np.abs(np.diff(before, axis=0)).max(axis=1) > _MAX_JOINT_STEP)
    _check_range(model, q[: jumps[0]] if jumps.size else q, q_start, share, poses)
    if jumps.size:
        i = int(jumps[0])
        joint = int(np.abs(before[i + 1] - before[i]).argmax())
        turn = np.degrees(abs(before[i + 1, joint] - before[i, joint]))
        raise _incomplete(
            i,
            share,
            poses,
            f'{JOINT_NAMES[joint]} would turn {turn:.0f} deg at once: {_meets(model, before[i])}',
        )
    if len(q) < len(poses):
        missing = explain(model, poses[len(q)], q_start[5], q_start)
        gap = next(m for m in missing if m.branch == name)
        cause = f'branch {name} ends: {gap.text}'
        # A larger gap than one step can open: the branch was lost at a singularity.
        if gap.amount > _wrist_motion(model, poses[len(q) - 1], poses[len(q)]):
            cause = f'{cause}; before that, {_meets(model, before[-1])}'
        raise _incomplete(len(q), share, poses, cause)
    return q


def _meets(model: Model, q: Array) -> str:
    """Return a text naming the singularity nearest to joints (6,) and what to do."""
    return (
        f'the path meets the {nearest_singularity(model, q).name} singularity of branch '
        f'{BRANCHES[int(classify(model, q))]}; move the path away from it or choose another branch'
    )


def _wrist_motion(model: Model, T_a: Array, T_b: Array) -> float:
    """Return an upper bound on the motion of any wrist frame between two poses [m]."""
    turn = np.linalg.norm(T_b[:3, :3] - T_a[:3, :3])
    size = np.abs(model.a[3:]).sum() + np.abs(model.d[3:]).sum()  # from the tool to frame 3
    return float(np.linalg.norm(T_b[:3, 3] - T_a[:3, 3]) + size * turn)


def _outside(model: Model, q: Array, q_start: Array) -> NDArray[np.bool_]:
    low, high = range_from(model.q_min, model.q_max, q_start)
    return np.asarray((q < low) | (q > high))


def _check_range(model: Model, q: Array, q_start: Array, share: Array, poses: Array) -> None:
    outside = _outside(model, q, q_start)
    if outside.any():
        i, joint = (int(k) for k in np.argwhere(outside)[0])
        raise _incomplete(
            i,
            share,
            poses,
            f'{JOINT_NAMES[joint]} = {fixed(np.degrees(q[i, joint]), 1)} deg leaves its range '
            f'{np.degrees(model.q_min[joint]):.0f} to {np.degrees(model.q_max[joint]):.0f} deg',
        )


def _incomplete(i: int, share: Array, poses: Array, cause: str) -> IncompletePath:
    fraction = float(share[max(0, i - 1)])
    return IncompletePath(
        f'path can be followed to {100 * fraction:.0f} %: at pose {i} of {len(poses)}, '
        f'{tool_text(poses[i])}, {cause}',
        fraction,
    )


def tool_text(T_base_tool: Array) -> str:
    """Return where the tool is, as a text, in `base_link`: `base` turned by pi about z."""
    x, y, z = (fixed(v, 3) for v in T_base_tool[:3, 3] * (-1.0, -1.0, 1.0))
    return f'tool at ({x}, {y}, {z}) m in base_link'
