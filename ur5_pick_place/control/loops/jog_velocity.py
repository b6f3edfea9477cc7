# SPDX-License-Identifier: Apache-2.0
"""
The joint velocity of a jog: along the command, slower before whatever is in its way.

The direction of a command is kept, its magnitude may be reduced: to the velocity limit of each
joint and the speed limit of TCP and elbow. Then the path over the stopping time plus a reserve is
checked for joint limits, torque, singularities and collisions. The velocity is reduced to the
share of that path that is free, so that the distance to the first obstacle decays exponentially
and the arm comes to rest in front of it.

Singularities. With U S V^T the Jacobian, radians weighted by a length, the twist b needs the joint
velocity V S^-1 U^T b, undamped, so that the direction is kept; near a singularity the bound on it
makes the motion slow. A motion that approaches a singularity ends at a smallest singular value of
`_NEAREST`. One that began inside goes on slowly, so that it passes or leaves. At the singularity
itself the lost directions are left out. If too much of the command lies along them, the arm turns
slowly out of the singularity, by half a degree, along the joint motion that follows the command
best: a stretched elbow bends in this way.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.loops.reference import gentle_limits
from ur5_pick_place.errors import fixed
from ur5_pick_place.kinematics import JOINT_NAMES, forward, jacobian
from ur5_pick_place.kinematics.branches import nearest_singularity
from ur5_pick_place.kinematics.transforms import Array, log_so3
from ur5_pick_place.planning.collision.collision import CollisionModel, Contact
from ur5_pick_place.planning.limits import Limits, slowed_to
from ur5_pick_place.planning.planner import MotionPlanner

_LENGTH = 0.3  # [m] that one radian counts; the lengths below hold for it: it is no parameter
_NEAREST = 0.01  # [m] smallest singular value that a motion approaches: 2.5 deg from the wrist's
_INSIDE = 0.008  # [m]; where it is smaller, the motion did not end at _NEAREST but began inside
_CREEP = 0.1  # least share of the velocity that such a motion keeps
_SINGULAR = 0.002  # [m] below which a direction is lost: 0.5 deg
_LOST = 0.05  # share of the command along lost directions that may be left out
_APPROACH = 1e-4  # [m] change of the smallest singular value on the way ahead that counts
_PROBE = 1e-4  # [rad] to differentiate it
_LEAVE = 0.05  # [rad] by which a turn out of a singularity is tried
_LEAVE_SPEED = 0.1  # [rad/s]
_AGAINST = -0.02  # cosine of a turn's motion and the command; a smaller one is against it
_BETTER = 1e-3  # difference of two such cosines that counts
_REACTION = 0.15  # [s] of the way ahead, beyond the time in which the arm could stop
_MAX_LOOKAHEAD = 1.2  # [s]
_LEAST = 0.02  # share of the way ahead below which the arm rests
_JOINT_ROOM = 0.01  # [rad] before a joint limit: sag must not carry a resting arm out of range
_HOLDING = 0.95  # share of a joint's torque that may hold the load; the rest is to move it
_EXTRA = 0.002  # [m] of clearance beyond the required one, which sag must not use up
_PIECES = 3  # of the way ahead in a collision check
_ESCAPE_TIME = 0.02  # [s] in which a motion within the extra clearance must not come closer
_CLOSER = 2e-6  # [m] that is rounding
_HUGE = 100.0  # [m/s, rad/s]; larger commands are scaled down first: squares must not overflow
_TINY = 1e-6  # [m/s, rad/s]; smaller commands are zero


@dataclass(frozen=True)
class Command:
    """A command (6,), scaled to a usable size."""

    values: Array

    def __post_init__(self) -> None:
        size = float(np.abs(self.values).max())
        factor = min(1.0, _HUGE / size) if size >= _TINY else 0.0
        object.__setattr__(self, 'values', factor * self.values)

    @property
    def is_zero(self) -> bool:
        """Whether it commands no motion."""
        return not self.values.any()


class JointVelocity(Command):
    """Velocities of the joints [rad/s]."""


@dataclass(frozen=True)
class ToolVelocity(Command):
    """
    The twist of the tool in the axes of a frame [m/s, rad/s]: linear of the TCP, then angular.

    - `rotation` (3, 3): orientation of that frame in `base`, or in tool0 if `is_on_tool`
    - `is_on_tool`: whether the frame turns with the tool
    """

    rotation: Array
    is_on_tool: bool = False


class JogVelocity:
    """
    The joint velocities of commands, for one arm in its present scene.

    - `planner`: its scene, its joint limits
    - `limits`: returns the present bounds on joint velocity and on the speed of TCP and elbow
    """

    def __init__(self, planner: MotionPlanner, limits: Callable[[], Limits]) -> None:
        self._planner, self._model, self._limits_now = planner, planner.model, limits
        self._stopping = gentle_limits(planner.limits)
        self._wider: tuple[CollisionModel, CollisionModel] | None = None

    def velocity(self, q: Array, command: Command) -> tuple[Array, str]:
        """
        Return the joint velocity (6,) [rad/s] of a command at joints `q` (6,) [rad].

        Also returns why there is none, at a singularity; else an empty text.
        """
        if command.is_zero:
            return np.zeros(6), ''
        if isinstance(command, ToolVelocity):
            qd, reason = self._of_tool(q, command)
        else:
            qd, reason = command.values, ''
        p_tcp = self._planner.scene.tool.p_tool_tcp
        return slowed_to(self._limits_now(), self._model, q, qd, p_tcp), reason

    def room(self, q: Array, qd: Array, command: Command) -> tuple[float, str]:
        """
        Return the share, 0 to 1, of a velocity (6,) from `velocity` that the way ahead allows.

        Also returns what is in the way, and how far it is; empty if nothing.
        """
        share, reason = 1.0, ''
        if not qd.any():
            return share, reason
        rooms = [self._joint_room, self._torque_room, self._free_room]
        if isinstance(command, ToolVelocity):
            rooms.append(self._singular_room)
        seconds = self._time_ahead(qd)
        for room_of in rooms:
            room, cause = room_of(q, qd, seconds)
            if room < share:
                share, reason = room, cause
        return (share if share >= _LEAST else 0.0), reason

    def _of_tool(self, q: Array, command: ToolVelocity) -> tuple[Array, str]:
        """Return the joint velocity of a twist, and why there is none."""
        T, J = forward(self._model, q), jacobian(self._model, q, 'base')
        R = T[:3, :3] @ command.rotation if command.is_on_tool else command.rotation
        linear, angular = R @ command.values[:3], R @ command.values[3:]
        tcp = T[:3, :3] @ self._planner.scene.tool.p_tool_tcp
        b = np.concatenate([linear - np.cross(angular, tcp), _LENGTH * angular])
        u, sigma, vt = np.linalg.svd(_weighted(J))
        b_u = u.T @ b
        is_lost = sigma < _SINGULAR
        kept = vt.T @ np.where(is_lost, 0.0, b_u / np.where(is_lost, 1.0, sigma))
        if np.linalg.norm(b_u[is_lost]) <= _LOST * np.linalg.norm(b_u):
            return kept, ''
        wanted = np.concatenate([linear, _LENGTH * angular])
        turns = [kept, *vt[is_lost], *np.eye(6)] if kept.any() else [*vt[is_lost], *np.eye(6)]
        return self._leave(q, T, wanted, turns, int(is_lost.sum()))

    def _leave(
        self, q: Array, T: Array, b: Array, turns: list[Array], lost: int
    ) -> tuple[Array, str]:
        """
        Return a joint velocity out of a singularity, and why there is none.

        Of the joint motions `turns`, either way, it is the one that loses fewer directions than
        `lost` and moves the TCP best along the command `b` (6,), not against it.
        """
        p_tcp = self._planner.scene.tool.p_tool_tcp
        best, found = _AGAINST, np.zeros(6)
        for turn in turns:
            for way in (1.0, -1.0):
                step = way * turn / np.abs(turn).max()
                T_next = forward(self._model, q + _LEAVE * step)
                moved = T_next[:3, 3] - T[:3, 3] + (T_next - T)[:3, :3] @ p_tcp
                turned = log_so3(T_next[:3, :3] @ T[:3, :3].T)
                motion = np.concatenate([moved, _LENGTH * turned])
                along = float(b @ motion / np.linalg.norm(b) / np.linalg.norm(motion))
                is_out = (self._singular_values(q + _LEAVE * step) < _SINGULAR).sum() < lost
                if is_out and along > best + _BETTER:
                    best, found = along, step
        if found.any():
            return _LEAVE_SPEED * found, ''
        return found, (
            f'the tool cannot move that way {nearest_singularity(self._model, q).text}; leave the '
            'singularity in another direction, or jog a joint'
        )

    def _time_ahead(self, qd: Array) -> float:
        """Return how far ahead to look [s]: the time to stop from a steady velocity, and more."""
        size, bounds = np.abs(qd), self._stopping
        times = np.maximum(1.5 * size / bounds.qdd, np.sqrt(6.0 * size / bounds.qddd))
        return min(float(times.max()) + _REACTION, _MAX_LOOKAHEAD)

    def _joint_room(self, q: Array, qd: Array, seconds: float) -> tuple[float, str]:
        limits = self._planner.limits
        room = np.where(qd > 0.0, limits.q_max - q, q - limits.q_min)
        share = np.full(6, np.inf)
        moves = np.abs(qd) > 1e-9
        share[moves] = np.maximum(room[moves] - _JOINT_ROOM, 0.0) / np.abs(qd[moves] * seconds)
        joint = int(share.argmin())
        if share[joint] >= 1.0:
            return 1.0, ''
        bound = limits.q_max[joint] if qd[joint] > 0.0 else limits.q_min[joint]
        return float(share[joint]), (
            f'{JOINT_NAMES[joint]} is {fixed(np.degrees(room[joint]), 1)} deg from its limit of '
            f'{np.degrees(bound):.0f} deg'
        )

    def _torque_room(self, q: Array, qd: Array, seconds: float) -> tuple[float, str]:
        here, there = self._planner.holding_torque(np.stack([q, q + seconds * qd]))
        rises = (there > _HOLDING) & (there > here)
        if not rises.any():
            return 1.0, ''
        room = np.full(6, np.inf)
        room[rises] = np.maximum(_HOLDING - here[rises], 0.0) / (there - here)[rises]
        joint = int(room.argmin())
        return float(room[joint]), (
            f'{JOINT_NAMES[joint]} holds the load with {100 * here[joint]:.0f} % of its torque; '
            f'at most {100 * _HOLDING:.0f} %'
        )

    def _singular_room(self, q: Array, qd: Array, seconds: float) -> tuple[float, str]:
        step = _PROBE * qd / np.abs(qd).max()
        here, there = (float(self._singular_values(at)[-1]) for at in (q, q + step))
        approach = (here - there) * np.abs(qd).max() / _PROBE * seconds
        if approach <= _APPROACH or here - approach >= _NEAREST:
            return 1.0, ''
        room = (here - _NEAREST) / approach if here > _INSIDE else max(here / _NEAREST, _CREEP)
        return max(0.0, room), f'the arm is {nearest_singularity(self._model, q).text}'

    def _singular_values(self, q: Array) -> Array:
        return np.asarray(np.linalg.svd(_weighted(jacobian(self._model, q)), compute_uv=False))

    def _free_room(self, q: Array, qd: Array, seconds: float) -> tuple[float, str]:
        collision = self._planner.collision
        if self._wider is None or self._wider[0] is not collision:
            self._wider = collision, collision.wider(_EXTRA)
        wide = self._wider[1]
        ahead = q + np.linspace(0.0, seconds, _PIECES + 1)[:, None] * qd
        found = wide.check_path(ahead)
        if found is not None and found.sample == 0.0:
            # Within the extra clearance: allowed unless it comes closer.
            later = wide.check(q + _ESCAPE_TIME * qd)
            if later and _spare(later) < _spare(found.contact) - _CLOSER:
                return 0.0, f'collision ahead: {found.contact}'
            found = collision.check_path(ahead)
        if found is None:
            return 1.0, ''
        return found.sample / _PIECES, f'collision ahead: {found.contact}'


def _spare(contact: Contact) -> float:
    return contact.distance - contact.margin


def _weighted(J: Array) -> Array:
    return np.asarray(np.array([1.0, 1.0, 1.0, _LENGTH, _LENGTH, _LENGTH])[:, None] * J)
