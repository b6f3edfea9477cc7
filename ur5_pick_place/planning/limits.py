# SPDX-License-Identifier: Apache-2.0
"""Limits of a motion, what a request may set below them, and the speed of TCP and elbow."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.settings import Settings, setting

_TWO_TURNS = 4.0 * np.pi  # [rad]
_OUTSIDE = 0.01  # [rad] by which a start may be outside the joint limits
_FITTED = 1e-4  # [rad]


@dataclass(frozen=True)
class MotionSettings(Settings):
    """Limits of motion; the robot's safety limits are set on its pendant, not here."""

    max_velocity: float = setting(
        math.pi, 'joint velocity; 180 deg/s in the UR5 manual', unit='rad/s', low=0.01, high=6.3
    )
    max_acceleration: float = setting(
        5.0, 'joint acceleration; UR publishes none', unit='rad/s^2', low=0.05, high=40.0
    )
    max_jerk: float = setting(
        50.0, 'joint jerk; UR publishes none', unit='rad/s^3', low=0.5, high=1000.0
    )
    max_speed: float = setting(
        0.25,
        'speed of TCP and elbow; 0.25 m/s is what ISO 10218-1 calls reduced speed',
        unit='m/s',
        low=0.005,
        high=1.5,
    )
    reduced_speed: float = setting(
        0.1,
        "speed of TCP and elbow while the robot's safety mode is reduced",
        unit='m/s',
        low=0.005,
        high=1.5,
    )
    velocity_scaling: float = setting(
        0.1, 'velocity scaling of a request that gives 0', low=0.01, high=1.0
    )
    acceleration_scaling: float = setting(
        0.1, 'acceleration scaling of a request that gives 0', low=0.01, high=1.0
    )
    start_tolerance: float = setting(
        0.01,
        'largest difference of any joint between the first point and the measured joints',
        unit='rad',
        low=1e-4,
        high=0.1,
    )


@dataclass(frozen=True)
class Limits:
    """Bounds of one motion."""

    # (6,) joint limits [rad]
    q_min: Array
    q_max: Array
    # (6,) largest joint velocity [rad/s], acceleration [rad/s^2] and jerk [rad/s^3]
    qd: Array
    qdd: Array
    qddd: Array
    speed: float  # largest speed of TCP and elbow [m/s]
    speed_name: str = 'max_speed'  # the setting that it is from, as an error names it

    def scaled(self, velocity: float, acceleration: float) -> 'Limits':
        """Return the bounds for a slower motion; jerk follows the acceleration."""
        return replace(
            self,
            qd=self.qd * velocity,
            qdd=self.qdd * acceleration,
            qddd=self.qddd * acceleration,
            speed=self.speed * velocity,
        )


def range_from(q_min: Array, q_max: Array, q_start: Array) -> tuple[Array, Array]:
    """
    Return the joint limits for a path that starts at joints (6,) [rad].

    They are widened to a start up to 0.01 rad outside: a settling arm may come to rest there, and
    must be able to leave it. A path that is fitted may go 0.1 mrad further out.
    """
    low, high = q_min - _OUTSIDE, q_max + _OUTSIDE
    q = np.clip(q_start, low, high)
    return (
        np.where(q < q_min, np.maximum(q - _FITTED, low), q_min),
        np.where(q > q_max, np.minimum(q + _FITTED, high), q_max),
    )


def in_degrees(q: Array) -> str:
    """Return the question whether joints [rad] are in degrees, if any turns more than twice."""
    return '; radians, not degrees?' if max(map(abs, q.ravel().tolist())) > _TWO_TURNS else ''


def motion_limits(model: Model, settings: MotionSettings) -> Limits:
    """Return the stricter of the limits of the robot and of the settings."""
    return Limits(
        q_min=np.asarray(model.q_min, dtype=float),
        q_max=np.asarray(model.q_max, dtype=float),
        qd=np.minimum(model.qd_max, settings.max_velocity),
        qdd=np.full(6, settings.max_acceleration),
        qddd=np.full(6, settings.max_jerk),
        speed=settings.max_speed,
    )


def arm_facts(model: Model, T_tool_tcp: Array | None, limits: Limits) -> dict[str, Any]:
    """
    Return what is needed to evaluate recorded joints, as JSON values.

    `T_tool_tcp`, shape (4, 4), is None where the tool is unknown.
    """
    return {
        'ur_type': model.name,
        'T_tool_tcp': None if T_tool_tcp is None else T_tool_tcp.tolist(),
        'max_velocity': [round(v, 6) for v in limits.qd.tolist()],
        'max_speed': limits.speed,
    }


def tcp_and_elbow_speed(
    model: Model, q: Array, qd: Array, p_tool_tcp: Array
) -> Array:
    """
    Return the speed of the TCP and of the elbow's centre.

    `q` and `qd` (n, 6): joint positions [rad] and velocities [rad/s]. `p_tool_tcp` (3,): the TCP
    in `tool0` [m].

    Returns (n, 2): TCP and elbow speed [m/s].
    """
    speed: Array = np.empty((len(q), 2))
    rows, rates, p = map(np.ascontiguousarray, (q, qd, p_tool_tcp))
    model.arm.speeds(rows, rates, p, speed)
    return speed


def slowed_to(limits: Limits, model: Model, q: Array, qd: Array, p_tool_tcp: Array) -> Array:
    """Return a joint velocity (6,) [rad/s] at joints (6,), scaled as a whole to its limits."""
    speeds = tcp_and_elbow_speed(model, q[None], qd[None], p_tool_tcp)[0] / limits.speed
    return np.asarray(qd / max(1.0, *speeds.tolist(), *np.abs(qd / limits.qd).tolist()))


SLOWEST = 1e-3  # smallest scaling; slower motions take too long
SLOWEST_SPEED = 1e-4  # [m/s]


@dataclass(frozen=True)
class Scaling:
    """Bounds on one motion: fractions of the limits (0 = the default) and a speed."""

    # 0 or `SLOWEST` to 1
    velocity: float = 0.0
    acceleration: float = 0.0
    speed: float = 0.0  # bound on the speed of TCP and elbow [m/s]; 0 = `max_speed` alone
    # (3,) the point of the tool, in tool0 [m], to which `speed` applies instead of TCP and elbow
    p_tool_point: Array | None = None

    def __post_init__(self) -> None:
        for name in ('velocity', 'acceleration'):
            value = getattr(self, name)
            if value != 0.0 and not SLOWEST <= value <= 1.0:
                raise InvalidInput(
                    f'{name} scaling = {value}: must be 0 (the default) or lie in '
                    f'{SLOWEST} to 1'
                )
        if self.speed != 0.0 and not SLOWEST_SPEED <= self.speed < np.inf:
            raise InvalidInput(
                f'speed limit = {self.speed} m/s: must be 0 (none) or at least {SLOWEST_SPEED} m/s'
            )

    def at_most(self, speed: float) -> 'Scaling':
        """Return the scaling with a further bound on the speed [m/s]; 0 = none."""
        return replace(self, speed=min(speed or np.inf, self.speed or np.inf)) if speed else self
