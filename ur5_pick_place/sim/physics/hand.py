# SPDX-License-Identifier: Apache-2.0
"""What the arm grips with: two fingers, or a suction cup."""

import math

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.cell import HAND, PART_SIZE, part_name, weld_name
from ur5_pick_place.sim.physics.engine import mujoco

OPEN_GAP = 0.070
FINGER_TRAVEL = 0.034
"""Distance between the pads of the open gripper, and closing travel of each finger [m]."""

_FINGER_SPEED = 0.060  # [m/s]
_SLIPPERY = 0.03  # of the pads' friction: a held cube slides out within 1 s

# The part-present signal: closing fingers are blocked.
_STANDSTILL = 0.001  # [m/s] largest speed of a blocked finger
_NOTHING_GAP = 0.004  # [m]; without a part the closed pads are 2 mm apart
_BLOCKED_LEAD = 0.001  # [m] by which the command leads a blocked finger

# Time [s] for the whole vacuum to build up, and to vanish by venting, by blow-off, or by a leak.
_BUILD_UP, _VENT, _BLOW_OFF, _LEAK = 0.10, 0.25, 0.03, 0.08
_REACHED, _HOLDS = 0.6, 0.1  # of the whole vacuum: the signal, and what holds a part
_LIP_RADIUS = 0.012  # [m]
_LIP_GAP = (-0.004, 0.003)  # [m] between lip and face within which the soft lip seals
_TILT = math.cos(math.radians(5.0))


class Hand:
    """What both kinds have."""

    travel: Array = np.zeros(2)
    """Closing travel of left and right finger [m]; a cup has none."""

    def close(self, closed: bool) -> None:
        """Command it to grip or to let go."""
        raise NotImplementedError

    @property
    def part_present(self) -> bool:
        """State of its switch."""
        raise NotImplementedError

    def make_slippery(self, slips: bool) -> None:
        """Make pads or lip slippery, so that they hold nothing, or mend them."""
        raise NotImplementedError

    def step(self) -> None:
        """Move on, before each step of the physics."""

    def advance(self, dt: float) -> None:
        """Move on, after each cycle of `dt` [s]."""

    def release(self) -> None:
        """Let go of the part at once, as when somebody takes it."""


class Fingers(Hand):
    """Two fingers on one motor; a fault, `jams`: they do not move."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model = model
        joints = [model.joint(f'{HAND}finger_{side}') for side in ('left', 'right')]
        first_q, first_v = joints[0].qposadr[0], joints[0].dofadr[0]
        self.travel = data.qpos[first_q : first_q + 2]
        self._speed = data.qvel[first_v : first_v + 2]
        self._command = data.actuator(f'{HAND}grip').ctrl
        self._pads = [model.geom(f'{HAND}pad_{side}').id for side in ('left', 'right')]
        self._friction = model.geom_friction[self._pads].copy()
        self._closed, self._goal = False, 0.0  # commanded travel of both fingers [m]
        self.jams = False

    @property
    def gap(self) -> float:
        """Distance between the pads [m]."""
        return OPEN_GAP - float(self.travel.sum())

    @property
    def part_present(self) -> bool:
        """Whether closing fingers are blocked by a part."""
        lead = self._command[0] - self.travel.sum()
        speed = np.abs(self._speed.sum())  # 0 while both fingers shake with the part
        stopped = lead > 2 * _BLOCKED_LEAD and speed < _STANDSTILL
        return bool(self._closed and stopped and self.gap > _NOTHING_GAP)

    def close(self, closed: bool) -> None:
        """Command them to close or open, each at 60 mm/s."""
        self._closed, self._goal = closed, 2 * FINGER_TRAVEL if closed else 0.0
        if not closed:
            self._release_force()

    def move_to(self, gap: float) -> None:
        """Command the distance between the pads [m]; they hold where a part blocks them."""
        self._goal = min(max(OPEN_GAP - gap, 0.0), 2 * FINGER_TRAVEL)
        self._closed = self._goal > self.travel.sum()
        if not self._closed:
            self._release_force()

    def _release_force(self) -> None:
        """Release the grip force at once, as by a valve; only the travel takes time."""
        self._command[0] = min(self._command[0], self.travel.sum())

    def make_slippery(self, slips: bool) -> None:
        share = _SLIPPERY if slips else 1.0
        self._model.geom_friction[self._pads] = self._friction * share

    def step(self) -> None:
        speed = 0.0 if self.jams else _FINGER_SPEED
        most = 2 * speed * self._model.opt.timestep
        self._command[0] += min(max(self._goal - self._command[0], -most), most)


class Cup(Hand):
    """
    A suction cup: a vacuum level, and a weld while it holds a part.

    `blows`: its blow-off valve. A fault, `leaks`: the lip is damaged and never seals.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, parts: int) -> None:
        self._model, self._data, self._parts = model, data, parts
        self._vacuum = 0.0
        self._held: int | None = None
        self._sucks = self._slips = False
        self.blows = self.leaks = False

    @property
    def part_present(self) -> bool:
        """State of the vacuum switch."""
        return self._vacuum >= _REACHED

    def close(self, closed: bool) -> None:
        """Command it to suck, or to vent."""
        self._sucks = closed

    def make_slippery(self, slips: bool) -> None:
        self._slips = slips

    def advance(self, dt: float) -> None:
        """Advance the vacuum by `dt` [s] and hold or release a part."""
        sealed = self._held if self._held is not None else self._part_at_lip()
        leaks = self.leaks or self._slips
        if self._sucks and not self.blows and not leaks and sealed is not None:
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
        if self._held is not None:
            self._data.eq_active[self._model.equality(weld_name(self._held)).id] = 0
            self._held, self._vacuum = None, 0.0

    def _hold(self, part: int) -> None:
        """Weld a part where it is."""
        hand, body = self._data.body(f'{HAND}gripper'), self._data.body(part_name(part))
        quat, turned = np.empty(4), np.empty(4)
        mujoco.mju_negQuat(quat, hand.xquat)
        mujoco.mju_mulQuat(turned, quat, body.xquat)
        offset = hand.xmat.reshape(3, 3).T @ (body.xpos - hand.xpos)
        weld = self._model.equality(weld_name(part)).id
        self._model.eq_data[weld, :10] = [0.0, 0.0, 0.0, *offset, *turned]
        self._data.eq_active[weld] = 1
        self._held = part

    def _part_at_lip(self) -> int | None:
        lip = self._data.site(f'{HAND}tcp')
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
    return bool(
        faces and _LIP_GAP[0] <= gap <= _LIP_GAP[1] and aside <= PART_SIZE / 2 - _LIP_RADIUS
    )
