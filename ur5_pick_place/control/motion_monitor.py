# SPDX-License-Identifier: Apache-2.0
"""
Monitor one motion against its plan, in scaled time: arrived, deviating, stalled or overdue.

Scaled time runs with the robot's speed scaling: with the speed slider at 10 % one second of it
takes 10 s.
"""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.settings import Settings, setting

_BEGUN = 5e-3  # [rad]; the motion before may still be settling by less
# A stall: the arm turns less than the first while the plan turns more than the second [rad].
_STILL, _GOES_ON = 5e-4, 5e-3
# A stall of a slow plan, after a time [s] that allows for a late start: the plan turns a joint by
# 40 times an encoder's noise [rad], and the arm turns that joint by less than a tenth of it.
_SLOW_TURN, _FOLLOWED_SHARE, _LATE_START = 4e-4, 0.1, 1.8
_UNSEEN = 0.15  # [s] by which the joints may show a motion later than it is commanded
_PATH_STEP = 0.002  # [s] between samples of the beginning of a path
AT_REST = 0.01  # [rad/s]; measured joints below this speed count as at rest
_RECENT_SAMPLES = 100  # 10 ms apart over a second: at pi rad/s a joint turns 0.03 rad between two


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
        'how long after the planned end the arm may take to settle, ten times as long with the '
        'speed slider at 10 %',
        unit='s',
        low=0.1,
        high=30.0,
    )
    takeover_time: float = setting(
        0.1,
        'how long the controller may take to receive the braking motion; a stop takes that much '
        'longer, and a later takeover causes a jump in velocity',
        unit='s',
        low=0.02,
        high=0.5,
    )
    stall_time: float = setting(
        1.0,
        'how long the arm may be behind its plan before it counts as stalled; waiting with the '
        'slider at 0 does not count',
        unit='s',
        low=0.2,
        high=1.8,
    )


class StallDetector:
    """
    Detects an arm that stands still while its plan goes on.

    Time in which the plan stands too, as at a speed slider of 0, does not count. Otherwise an arm
    would count as stalled after such a wait, when the plan moves again and the arm, behind by the
    servo lag, does not yet.

    `stall_time`: how long the arm may stand still [s]; 1.8 s if the plan turns less than 5 mrad
    meanwhile.
    """

    def __init__(self, stall_time: float) -> None:
        self._stall_time = stall_time
        self._since, self._at, self._planned = 0.0, np.full(6, np.inf), np.zeros(6)
        self._now, self._latest = 0.0, np.zeros(6)

    def tick(self, now: float, q: Array, planned: Array) -> str | None:
        """Return the fault, or None, for measured and planned joints (6,) [rad] at `now` [s]."""
        if planned.tolist() == self._latest.tolist():
            self._since += max(0.0, now - self._now)
        self._now, self._latest = now, planned
        if max(map(abs, (q - self._at).tolist())) > _STILL:
            self._since, self._at, self._planned = now, q, planned
            return None
        gone = np.abs(planned - self._planned)
        joint, waited = int(gone.argmax()), now - self._since
        moved = abs(q[joint] - self._at[joint])
        is_behind = gone[joint] > _SLOW_TURN and moved < _FOLLOWED_SHARE * gone[joint]
        is_slow_stall = is_behind and waited > _LATE_START
        if not is_slow_stall and (waited <= self._stall_time or gone[joint] <= _GOES_ON):
            return None
        return (
            f'the arm does not follow: it has stood still for {waited:.1f} s while the plan '
            f'turned {JOINT_NAMES[joint]} by {gone[joint]:.4f} rad: it is held, or its controller '
            'is not active'
        )


@dataclass(eq=False)
class MotionMonitor:
    """
    Monitors one motion by the measured joints, independent of the controller's reports.

    The plan's time advances with the robot's speed scaling, so that a slowed arm is not overdue.
    """

    trajectory: Trajectory
    settings: TrackingSettings
    now: float  # stamp of the latest joints [s], first of those when the motion was sent
    wait: float = 0.0  # longest time until the robot has received the trajectory and moves [s]
    plan_time: float = 0.0  # scaled time since the start [s], not clipped to the duration
    _first: Array | None = None  # joints (6,) at first [rad]
    _scaling: float = 0.0  # at the latest joints

    def __post_init__(self) -> None:
        self._stall = StallDetector(self.settings.stall_time)

    def allow_late_start(self, q: Array) -> bool:
        """
        Go back to about the beginning of the plan if the arm, at joints `q`, is still there.

        Returns whether it is.
        """
        if self._first is None or np.abs(q - self._first).max() > _BEGUN:
            return False
        # Not to the very beginning: the arm may be behind the plan here, but not ahead of it.
        latest = self._time_to_leave(_BEGUN) + _UNSEEN
        self.plan_time = min(self.plan_time, latest)
        self._stall = StallDetector(self.settings.stall_time)
        return True

    def tick(self, now: float, q: Array, speed_scaling: float) -> str | None:
        """
        Return the fault, or None, at joints `q` (6,) [rad] with the stamp `now` [s].

        The arm may be anywhere on the part of the path planned for the last `stall_time`.
        """
        passed, self.now = max(0.0, now - self.now), now
        self._first = q if self._first is None else self._first
        if self.wait > 0.0:
            self.wait -= passed
            away = float(np.abs(q - self._first).max())
            if away <= _BEGUN:
                return None
            self.wait, self.plan_time, passed = 0.0, self._time_to_leave(away), 0.0
        # Since the last joints it may have changed at any time. The arm may be behind the plan.
        self.plan_time += passed * max(self._scaling, speed_scaling)
        self._scaling = speed_scaling
        planned = self.trajectory.sample(self.plan_time)[0]
        return self._stall.tick(now, q, planned) or self._path_deviation(q)

    def _time_to_leave(self, away: float) -> float:
        """Return when the plan is `away` [rad] from its start [s]; its end if it never is."""
        times = self.trajectory.dense_times(_PATH_STEP)
        gone = np.abs(self.trajectory.sample(times)[0] - self.trajectory.q[0]).max(axis=1)
        return float(times[(gone >= away).argmax()]) if gone.max() >= away else float(times[-1])

    def _path_deviation(self, q: Array) -> str | None:
        recent = self.plan_time - np.linspace(0.0, self.settings.stall_time, _RECENT_SAMPLES)
        planned = self.trajectory.sample(recent)[0]
        away = np.abs(planned - q).max(axis=1)
        if away.min() <= self.settings.path_tolerance:
            return None
        joint = int(np.abs(planned[away.argmin()] - q).argmax())
        return (
            f'the arm does not follow: {JOINT_NAMES[joint]} is {away.min():.3f} rad from where '
            f'the motion was within the last {self.settings.stall_time} s'
        )

    @property
    def within(self) -> tuple[float, float]:
        """The times of the plan [s] between which the arm is, as `tick` ensures."""
        return self.plan_time - self.settings.stall_time, self.plan_time

    @property
    def is_overdue(self) -> bool:
        """Whether the planned end is past by more than `goal_time` and 1 s, in scaled time."""
        return self.plan_time > self.trajectory.duration + self.settings.goal_time + 1.0

    def arrived(self, q: Array, qd: Array) -> bool:
        """Return whether measured joints (6,) [rad, rad/s] are at the goal and at rest."""
        away = np.abs(q - self.trajectory.q[-1]).max()
        return bool(away <= self.settings.goal_tolerance and np.abs(qd).max() < AT_REST)
