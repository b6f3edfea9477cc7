# SPDX-License-Identifier: Apache-2.0
"""The suction cup of the simulated cell: a vacuum level, and a weld while it holds a part."""

import math

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.cell import CUP_RADIUS, PART_SIZE, part_name, weld_name
from ur5_pick_place.sim.engine import mujoco

# Time [s] for the whole vacuum to build up, and to vanish by venting, by blow-off, or by a leak.
_BUILD_UP, _VENT, _BLOW_OFF, _LEAK = 0.10, 0.25, 0.03, 0.08
_REACHED, _HOLDS = 0.6, 0.1  # of the whole vacuum: the signal, and what holds a part
_GAP = (-0.004, 0.003)  # [m] between lip and face within which the soft lip seals
_TILT = math.cos(math.radians(5.0))


class Suction:
    """
    A suction cup.

    Parameters
    ----------
    model, data : MjModel, MjData
        Of a cell with a cup.
    parts : int
        Number of cubes.

    Attributes
    ----------
    sucks, blows : bool
        The two valves.
    leaks, slips : bool
        Whether the lip is damaged, or its surface slippery: it never seals.

    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, parts: int) -> None:
        self._model, self._data, self._parts = model, data, parts
        self._welds = [model.equality(weld_name(k)).id for k in range(parts)]
        self._vacuum = 0.0
        self._held: int | None = None
        self.sucks = self.blows = self.leaks = self.slips = False

    @property
    def is_reached(self) -> bool:
        """State of the vacuum switch."""
        return self._vacuum >= _REACHED

    def advance(self, dt: float) -> None:
        """Advance the vacuum by `dt` [s] and hold or release a part."""
        sealed = self._held if self._held is not None else self._part_at_lip()
        leaks = self.leaks or self.slips
        if self.sucks and not self.blows and not leaks and sealed is not None:
            self._vacuum = min(1.0, self._vacuum + dt / _BUILD_UP)
        else:
            is_open = leaks or sealed is None
            time = _BLOW_OFF if self.blows else _LEAK if is_open else _VENT
            self._vacuum = max(0.0, self._vacuum - dt / time)
        if self._vacuum < _HOLDS:
            self.release()
        elif self._held is None and sealed is not None:
            self._hold(sealed)

    def release(self) -> None:
        """Let go of the part at once, as when somebody takes it."""
        if self._held is not None:
            self._data.eq_active[self._welds[self._held]] = 0
            self._held, self._vacuum = None, 0.0

    def _hold(self, part: int) -> None:
        """Weld a part where it is."""
        hand, body = self._data.body('gripper'), self._data.body(part_name(part))
        quat, turned = np.empty(4), np.empty(4)
        mujoco.mju_negQuat(quat, hand.xquat)
        mujoco.mju_mulQuat(turned, quat, body.xquat)
        offset = hand.xmat.reshape(3, 3).T @ (body.xpos - hand.xpos)
        weld = self._welds[part]
        self._model.eq_data[weld, :10] = [0.0, 0.0, 0.0, *offset, *turned]
        self._data.eq_active[weld] = 1
        self._held = part

    def _part_at_lip(self) -> int | None:
        lip = self._data.site('tcp')
        for k in range(self._parts):
            body = self._data.body(part_name(k))
            R = body.xmat.reshape(3, 3)
            p = R.T @ (lip.xpos - body.xpos)
            if _seals(p, R.T @ -lip.xmat.reshape(3, 3)[:, 2]):
                return k
        return None


def _seals(p: Array, outward: Array) -> bool:
    """Return whether a lip at `p` (3,) [m] on a cube, its axis `outward` (3,), seals."""
    axis = int(np.abs(p).argmax())
    gap = abs(p[axis]) - PART_SIZE / 2
    aside = np.delete(np.abs(p), axis).max()
    faces = math.copysign(1.0, p[axis]) * outward[axis] > _TILT
    return bool(faces and _GAP[0] <= gap <= _GAP[1] and aside <= PART_SIZE / 2 - CUP_RADIUS)
