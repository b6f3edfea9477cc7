# SPDX-License-Identifier: Apache-2.0
"""Watch one motion against its plan, in scaled time, and say when it is done or lost."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.trajectory import Trajectory
from ur5_pick_place.settings import Settings, setting

# An arm that turns less [rad] than the first while its plan turns more than the second stands.
_STILL, _GOES_ON = 5e-4, 5e-3
_PATH_STEP = 0.02  # [s] between samples of the rest of a motion
_WINDOW_SAMPLES = 100  # 10 ms apart over a second: at pi rad/s a joint turns 0.03 rad between two


@dataclass(frozen=True)
class TrackingSettings(Settings):
    """How closely a motion must follow its plan."""

    path_tolerance: float = setting(
        0.1,
        'largest distance of any joint from the plan; servo lag times speed stays below',
        unit='rad',
        low=0.001,
        high=0.2,
    )
    goal_tolerance: float = setting(
        0.002,
        'largest distance of any joint from the goal at the end',
        unit='rad',
        low=1e-4,
        high=0.1,
    )
    goal_time: float = setting(
        2.0,
        'how long after the planned end, in scaled time, the arm may take to settle',
        unit='s',
        low=0.1,
        high=30.0,
    )
    takeover_time: float = setting(
        0.1,
        'how long the controller may take to get the motion that brakes; a stop takes as much '
        'longer, and one that comes later is joined with a jolt',
        unit='s',
        low=0.02,
        high=0.5,
    )
    stall_time: float = setting(
        1.0,
        'how long the arm may be behind its plan before it counts as stuck; the slider at '
        '0 is a wait, not a stall',
        unit='s',
        low=0.2,
        high=1.8,
    )


def path_from(q: Array, trajectory: Trajectory) -> Array:
    """Return joints (n, 6) [rad] from `q` (6,) along the rest of a trajectory that is followed."""
    samples = trajectory.sample(trajectory.dense_times(_PATH_STEP))[0]
    nearest = int(np.abs(samples - q).max(axis=1).argmin())
    return np.vstack([q, samples[nearest:]])


class StallDetector:
    """
    Notices an arm that stands while its plan goes on.

    Parameters
    ----------
    stall_time : float
        How long it may [s].

    """

    def __init__(self, stall_time: float) -> None:
        self._stall_time = stall_time
        self._since, self._at, self._planned = 0.0, np.full(6, np.inf), np.zeros(6)

    def tick(self, now: float, q: Array, planned: Array) -> str | None:
        """Take measured and planned joints (6,) [rad] stamped `now` [s]; return what is wrong."""
        if np.abs(q - self._at).max() > _STILL:
            self._since, self._at, self._planned = now, q, planned
        gone = np.abs(planned - self._planned)
        joint, waited = int(gone.argmax()), now - self._since
        if waited <= self._stall_time or gone[joint] <= _GOES_ON:
            return None
        return (
            f'the arm does not follow: it has stood still for {waited:.1f} s, in which joint '
            f'{joint + 1} should have turned {gone[joint]:.3f} rad: it is held, or its controller '
            'is not active'
        )


class MotionMonitor:
    """
    Follows one motion by what the joints do, whatever the controller says of itself.

    The plan's time advances with the robot's speed scaling, so that a slowed arm is never late.

    Parameters
    ----------
    trajectory : Trajectory
    settings : TrackingSettings
    now : float
        Stamp of the joints when the motion was sent [s].

    """

    def __init__(self, trajectory: Trajectory, settings: TrackingSettings, now: float) -> None:
        self._trajectory = trajectory
        self._settings = settings
        self._now = now
        self._standstill = StallDetector(settings.stall_time)
        self.plan_time = 0.0
        """Scaled time since the start [s], not clipped to the duration."""

    def tick(self, now: float, q: Array, speed_scaling: float) -> str | None:
        """
        Advance to joints `q` (6,) [rad] stamped `now` [s]; return why it is lost, or None.

        The arm may be anywhere on the stretch it should have covered in the last `stall_time`.

        """
        self.plan_time += max(0.0, now - self._now) * speed_scaling
        self._now = now
        planned = self._trajectory.sample(self.plan_time)[0]
        return self._standstill.tick(now, q, planned) or self._strays(q)

    def _strays(self, q: Array) -> str | None:
        window = self.plan_time - np.linspace(0.0, self._settings.stall_time, _WINDOW_SAMPLES)
        planned = self._trajectory.sample(window)[0]
        away = np.abs(planned - q).max(axis=1)
        if away.min() <= self._settings.path_tolerance:
            return None
        joint = int(np.abs(planned[away.argmin()] - q).argmax())
        return (
            f'the arm does not follow: joint {joint + 1} is {away.min():.3f} rad from where the '
            f'motion was within the last {self._settings.stall_time} s'
        )

    @property
    def is_overdue(self) -> bool:
        """Whether the end is past by more than the settling time, in scaled time."""
        return self.plan_time > self._trajectory.duration + self._settings.goal_time + 1.0

    def arrived(self, q: Array, qd: Array) -> bool:
        """Whether the measured joints are at the goal and at rest."""
        away = np.abs(q - self._trajectory.q[-1]).max()
        return bool(away <= self._settings.goal_tolerance and np.abs(qd).max() <= 0.02)
