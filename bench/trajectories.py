# SPDX-License-Identifier: Apache-2.0
"""
Lines and a chain beside their optima, toppra and copp; joint motions beside a bound and ruckig.

The lines' jerk-limited optima were found by direct collocation (IPOPT, 150 intervals), good to
about 1 %. toppra keeps no jerk limit: only its computing time is compared, not its durations.
"""

import numpy as np
import peers
from measure import Row, compare

from ur5_pick_place.kinematics import forward, load_model
from ur5_pick_place.kinematics.transforms import Array, make_transform
from ur5_pick_place.planning.limits import Limits, tcp_and_elbow_speed
from ur5_pick_place.planning.paths.curves import Line
from ur5_pick_place.planning.paths.follow import JointPath, follow, follow_poses
from ur5_pick_place.planning.paths.moves import PathSegment, path_of
from ur5_pick_place.planning.timing.path_timing import time_path
from ur5_pick_place.planning.timing.ptp import time_ptp

UR5 = load_model('ur5')
GRID = 300
_VELOCITY, _ACCELERATION, _JERK = np.pi, 10.0, 100.0  # [rad/s], [rad/s^2], [rad/s^3]
_LIMITS = Limits(
    UR5.q_min,
    UR5.q_max,
    *(np.full(6, bound) for bound in (_VELOCITY, _ACCELERATION, _JERK)),
    speed=100.0,
)
_PICK = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0.0])
# Start [rad], displacement [m] in base, optimum [s]; C begins 4 deg from the wrist singularity.
_LINES = {
    'A': (_PICK, (0.3, 0.0, 0.0), 0.652),
    'B': (_PICK + [0.0, -0.35, -0.1, 0.45, 0.0, 0.0], (0.0, 0.0, -0.3), 0.707),
    'C': (np.array([0.2, -1.5, 1.7, -1.2, -0.07, 0.3]), (-0.2121, 0.2121, 0.0), 0.938),
}
_JOINT_MOTIONS = {
    'pick to place': np.array([np.pi / 2, -1.2, 1.8, -2.17, -np.pi / 2, 0.5]),
    'small': _PICK + [0.1, -0.05, 0.08, -0.03, 0.02, 0.2],
    'one joint': _PICK + [3.0, 0.0, 0.0, 0.0, 0.0, 0.0],
}


def measure() -> list[Row]:
    """Run all of it."""
    lines = [*(row for name in _LINES for row in _line(name)), *_chain()]
    return [*lines, *(row for name in _JOINT_MOTIONS for row in _joint_motion(name))]


def _line(name: str) -> list[Row]:
    q_start, way, optimum = _LINES[name]
    T_start = forward(UR5, q_start)
    T_goal = T_start.copy()
    T_goal[:3, 3] += way
    line = Line(T_start, T_goal)
    path = follow(UR5, line, q_start)

    def ours() -> float:
        return time_path(JointPath(path.q, path.share), _LIMITS, _speed_of).duration

    others = {}
    if solve := peers.toppra(_LIMITS.qd, _LIMITS.qdd):
        q = follow_poses(UR5, line(np.linspace(0.0, 1.0, GRID + 1)), q_start)
        others[f'toppra, N = {GRID}'] = lambda: solve(q)
    duration = ours()
    beside = 'jerk-limited optimum'
    what = f'line {name}, duration'
    rows = [Row(what, duration, 's', beside, optimum, duration / optimum, 1.01)]
    rows += _beside_copp(what, path)
    goals = dict.fromkeys(others, 4.0)
    return rows + compare(f'line {name}, timing', ours, others, items=1, goals=goals)


def _chain() -> list[Row]:
    """Up 10 cm, across 40 cm and down, without a stop; at each corner the motion is slow."""
    T_start = forward(UR5, _PICK)
    corners = [np.array(p) for p in ((0.0, 0.0, 0.1), (0.0, 0.4, 0.1), (0.0, 0.4, 0.0))]
    segments = [
        PathSegment(make_transform(T_start[:3, :3], T_start[:3, 3] + p), blend=blend)
        for p, blend in zip(corners, (0.03, 0.03, 0.0), strict=True)
    ]
    path = path_of(UR5, segments, _PICK, np.eye(4), 1e-3)
    return _beside_copp('blended chain, duration', path)


def _beside_copp(what: str, path: JointPath) -> list[Row]:
    solve = peers.copp(_LIMITS)
    if solve is None:
        return []
    ours, theirs = time_path(path, _LIMITS, _speed_of).duration, solve(path)
    return [Row(what, ours, 's', 'copp-py', theirs, ours / theirs, 1.003)]


def _joint_motion(name: str) -> list[Row]:
    goal = _JOINT_MOTIONS[name]

    def ours() -> float:
        return time_ptp(_PICK, goal, _LIMITS, _speed_of).duration

    bound = max(_double_s(way) for way in np.abs(goal - _PICK))
    rows = compare(
        f'{name}, timing', ours, {'ruckig alone': peers.ruckig(_PICK, goal, _LIMITS)}, items=1
    )
    return [Row(f'{name}, off double-S', float(abs(ours() - bound)), 's', goal=1e-6), *rows]


def _double_s(way: float) -> float:
    """Return the least time [s] of one joint [rad], rest to rest (Biagiotti, Melchiorri, 3.4)."""
    v, a, j = _VELOCITY, _ACCELERATION, _JERK
    if way >= v * (v / a + a / j):
        return way / v + v / a + a / j
    if way >= 2 * a**3 / j**2:
        return a / j + np.sqrt((a / j) ** 2 + 4 * way / a)
    return 4 * np.cbrt(way / (2 * j))


def _speed_of(q: Array, qd: Array) -> Array:
    return tcp_and_elbow_speed(UR5, q, qd, np.array([0.0, 0.0, 0.145]))
