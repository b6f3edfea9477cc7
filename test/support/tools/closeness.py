# SPDX-License-Identifier: Apache-2.0
"""Comparison of poses."""

import numpy as np


def assert_transforms_close(
    actual: np.ndarray, expected: np.ndarray, position: float = 1e-9, angle: float = 1e-9
) -> None:
    """Fail unless two poses agree within `position` [m] and `angle` [rad]."""
    delta = np.linalg.inv(expected) @ actual
    miss = np.linalg.norm(delta[:3, 3])
    skew = delta[:3, :3] - delta[:3, :3].T
    sine = np.linalg.norm([skew[2, 1], skew[0, 2], skew[1, 0]]) / 2
    turn = np.arctan2(sine, (np.trace(delta[:3, :3]) - 1) / 2)
    assert miss <= position, f'{miss} m apart, allowed {position} m'
    assert turn <= angle, f'{turn} rad apart, allowed {angle} rad'
