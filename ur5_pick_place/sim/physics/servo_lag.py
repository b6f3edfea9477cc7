# SPDX-License-Identifier: Apache-2.0
"""The reference of the joint servos: interpolated and delayed position setpoints."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm

from ur5_pick_place.kinematics.transforms import Array


class LaggedReference:
    """
    Interpolates one position setpoint per cycle to a smooth reference within the cycle.

    Setpoints are joined by a cubic that starts with the last velocity and ends with the velocity
    of the parabola through the last three setpoints. A critically damped second-order
    low-pass, x'' = w^2 (u - x) - 2 w x', follows it: on a ramp it trails by 2 / w, so
    w = 2 / lag. Cubic and low-pass are one linear system, stepped exactly.

    `lag`: delay of the reference behind a setpoint of constant velocity [s]; 0 for none. `cycle`:
    time between setpoints [s]. `steps`: references per cycle, evenly spaced, the first at the
    beginning of the cycle.
    """

    def __init__(self, lag: float, cycle: float, steps: int) -> None:
        self._cycle = cycle
        self._steps = steps
        self._response = _step_response(lag, np.linspace(0.0, cycle, steps + 1))
        self.start_at(np.zeros(6), np.zeros(6))

    def start_at(self, q: ArrayLike, qd: ArrayLike) -> None:
        """Restart at joints `q` [rad] and velocities `qd` [rad/s], shapes (6,)."""
        self._setpoints = np.array([q, q], dtype=float)  # the last, and the one before
        self._input_velocity = np.array(qd, dtype=float)
        self._output = np.array([q, qd], dtype=float)

    def advance(
        self, setpoint: Array
    ) -> tuple[Array, Array, Array]:
        """
        Advance by one cycle to the setpoint at its end, shape (6,) [rad].

        Returns (steps, 6): the reference within the cycle [rad, rad/s, rad/s^2].
        """
        h = self._cycle
        u, u_before = self._setpoints
        v = self._input_velocity
        v_end = (3.0 * setpoint - 4.0 * u + u_before) / (2.0 * h)
        mean = (setpoint - u) / h
        acceleration = (6.0 * mean - 4.0 * v - 2.0 * v_end) / h
        jerk = 6.0 * (v + v_end - 2.0 * mean) / h**2
        state = np.stack([*self._output, u, v, acceleration, jerk])
        reference = (self._response @ state).reshape(3, self._steps + 1, 6)
        self._setpoints = np.stack([setpoint, u])
        self._input_velocity = v_end
        self._output = reference[:2, -1]
        q, qd, qdd = reference[:, :-1]
        return q, qd, qdd


def _step_response(lag: float, times: Array) -> Array:
    """
    Return the map from [x, x', u, u', u'', u'''] to x, x', x'' at `times`, shape (3 n, 6).

    Computed with the matrix exponential of the linear system.
    """
    system = np.zeros((6, 6))
    system[2, 3] = system[3, 4] = system[4, 5] = 1.0
    if lag > 0.0:
        w = 2.0 / lag
        system[0, 1] = 1.0
        system[1, :3] = -(w**2), -2.0 * w, w**2
        output = np.stack([np.eye(6)[0], np.eye(6)[1], system[1]])
    else:
        output = np.eye(6)[2:5]
    at_times = np.stack([output @ expm(system * t) for t in times])  # (n, 3, 6)
    return at_times.transpose(1, 0, 2).reshape(-1, 6)
