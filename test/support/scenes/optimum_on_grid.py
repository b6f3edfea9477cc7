# SPDX-License-Identifier: Apache-2.0
"""The fastest time along a path by linear programs, to judge our own timing by."""

import numpy as np
from motion_planners import speed_of
from scipy.optimize import linprog


def grid_optimum(path, bounds, n=150, rounds=12, speed_of=speed_of):
    """
    Fastest time along a path [s], by linear programs for b = (dx/dt)^2 on a grid of x.

    The path is run as s = 10x^3 - 15x^4 + 6x^5, so that b is positive at rest too. Each program
    linearises duration and jerk about the last b and may change it by a shrinking factor.
    """
    x = (np.arange(n) + 0.5) / n
    h = 2e-3
    q = [
        path.sample(y**3 * (10 - 15 * y + 6 * y**2))[0] for y in (x + k * h for k in range(-2, 3))
    ]
    f1 = (q[0] - 8 * q[1] + 8 * q[3] - q[4]) / (12 * h)
    f2 = (-q[0] + 16 * q[1] - 30 * q[2] + 16 * q[3] - q[4]) / (12 * h**2)
    f3 = (-q[0] + 2 * q[1] - 2 * q[3] + q[4]) / (2 * h**3)
    d1 = np.gradient(np.eye(n), 1 / n, axis=0)
    d2 = d1 @ d1
    d2[1:-1] = (np.eye(n)[2:] - 2 * np.eye(n)[1:-1] + np.eye(n)[:-2]) * n**2
    use = np.abs(f1 / bounds.qd).max(axis=1)
    use = np.maximum(use, speed_of(q[2], f1).max(axis=1) / bounds.speed)
    # Rows (6n, n) that give acceleration, and jerk divided by sqrt(b), as shares of the limit.
    acceleration, free_jerk = (
        np.concatenate([sum(t[:, [j]] / bound[j] * d for t, d in terms) for j in range(6)])
        for bound, terms in (
            (bounds.qdd, ((f2, np.eye(n)), (f1 / 2, d1))),
            (bounds.qddd, ((f3, np.eye(n)), (1.5 * f2, d1), (f1 / 2, d2))),
        )
    )
    b = np.full(n, 0.3 / max(use.max() ** 2, np.abs(acceleration.sum(axis=1)).max()))
    b = np.minimum(b, 0.3 / np.abs(free_jerk.sum(axis=1)).max() ** (2 / 3))
    for k in range(rounds):
        # jerk = free sqrt(b): free <= 1 / sqrt(b), linearised
        root = np.tile(np.sqrt(b), 6)
        slope = np.tile(np.diag(0.5 / b**1.5), (6, 1))
        rows = np.concatenate([acceleration, -acceleration, free_jerk + slope, slope - free_jerk])
        room = np.concatenate([np.ones(12 * n), 1.5 / root, 1.5 / root])
        reach = 1 + 1.5 * 0.7**k
        box = np.column_stack([b / reach, np.minimum(b * reach, 1 / use**2)])
        b = linprog(-0.5 / b**1.5, rows, room, bounds=box, method='highs').x
    return float((1 / np.sqrt(b)).mean())
