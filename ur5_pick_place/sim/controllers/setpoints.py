# SPDX-License-Identifier: Apache-2.0
"""From controllers to joints: forwarded commands, freedrive, and limits of setpoints."""

import math
from collections.abc import Sequence

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.robot import MAX_SETPOINT_SPEED

_SPEEDJ_ACCELERATION = 40.0  # [rad/s2]
_FREEDRIVE_TIMEOUT = 1.0  # [s]


class ForwardController:
    """Forwards six numbers; the last command holds until the next one or deactivation."""

    def __init__(self) -> None:
        self.active = False
        self.command: Array | None = None

    def set_active(self, active: bool) -> None:
        """Activate or deactivate; clears the command."""
        self.active, self.command = active, None

    def receive(self, values: Sequence[float]) -> None:
        """
        Take a command, in controller joint order.

        Raises `InvalidInput`: not active, not six values, or a value that is not finite; the last
        command stays.
        """
        command = np.array(values, dtype=float)
        if not self.active:
            raise InvalidInput('controller is not active')
        if command.shape != (6,):
            raise InvalidInput(f'{command.size} values: must be 6, in controller joint order')
        if not np.isfinite(command).all():
            raise InvalidInput(f'{command.tolist()}: must be finite')
        self.command = command


class FreedriveController:
    """Releases the arm as long as it is enabled again at least every 1 s."""

    def __init__(self) -> None:
        self.active = False
        self._until = -math.inf

    def set_active(self, active: bool) -> None:
        """Activate or deactivate; freedrive itself must be enabled."""
        self.active, self._until = active, -math.inf

    def enable(self, enabled: bool, now: float) -> None:
        """Release the arm for 1 s from `now` [s], or hold it."""
        self._until = now + _FREEDRIVE_TIMEOUT if enabled and self.active else -math.inf

    def free(self, now: float) -> bool:
        """Return whether the arm is released."""
        return now < self._until


class Setpoint:
    """
    The joint position that the robot's program tracks.

    `q` (6,): measured joints [rad]. `period`: cycle time [s].
    """

    def __init__(self, q: Array, period: float) -> None:
        self.q = q.copy()
        self.refused = False
        self._qd = np.zeros_like(q)
        self._period = period

    def hold(self, q: Array) -> None:
        """Restart at the measured joints (6,) [rad]."""
        self.q, self._qd = q.copy(), np.zeros_like(q)

    def servo(self, q: Array) -> None:
        """
        Set a joint position (6,) [rad], as `servoj` does.

        A position that requires more than 20 rad/s is ignored; NaN keeps the joint's position.
        """
        wanted = np.where(np.isfinite(q), q, self.q)
        self.refused = bool(np.any(abs(wanted - self.q) > MAX_SETPOINT_SPEED * self._period))
        self._qd = np.zeros_like(self._qd)
        if not self.refused:
            self.q = wanted

    def speed(self, qd: Array) -> None:
        """Accelerate to a joint velocity (6,) [rad/s], as `speedj` does."""
        most = _SPEEDJ_ACCELERATION * self._period
        self._qd = self._qd + np.clip(qd - self._qd, -most, most)
        self.q = self.q + self._qd * self._period
