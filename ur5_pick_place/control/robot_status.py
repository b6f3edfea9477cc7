# SPDX-License-Identifier: Apache-2.0
"""Whether the robot may move: its modes, its program, and the age of its joint_states."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.settings import Settings, setting

# ur_dashboard_msgs/msg/SafetyMode and RobotMode
SAFETY_NORMAL, SAFETY_REDUCED = 1, 2
# A message beyond these is a fault: a UR joint ends at 2 pi, to which the endless wrist_3 of ur3
# and ur3e is limited here as well, and no joint reaches this velocity.
_IMPOSSIBLE_POSITION = 2 * math.pi + 0.1  # [rad]
_IMPOSSIBLE_VELOCITY = 8.0  # [rad/s] between two messages; the fastest UR wrist does 2 pi
_STEP_SLACK = 0.05  # [rad]
_CHECK_PERIOD = 0.04  # [s] between two checks of the robot at most, while this process runs
_MAX_STALL = 1.0  # [s] for which a loaded PC may keep a process from running
_MAX_DISCOUNT = 1.0  # [s] of stall after the last joint_states; later the robot may be silent too
_SLOW = 0.2  # speed scaling below which a cancel is as gentle as braking, and quicker
_RECENT = 0.1  # [s]; older joints are not the present ones
_LATE = 0.1  # [s] between two arrivals above which a gap is reported
_IO_TIMEOUT_FACTOR = 3.0  # times joint_state_timeout
_UNBROKEN = 0.05  # [s] between two stamps: six cycles, of which a few may be lost
ROBOT_RUNNING = 7
_SAFETY = {
    3: ('protective stop', 'clear the cause, close the popup and unlock on the pendant'),
    4: ('recovery mode', 'move the arm back inside its limits from the pendant'),
    5: ('safeguard stop', 'close the safeguard and reset it'),
    6: ('system emergency stop', 'release the emergency stop and switch the arm on'),
    7: ('emergency stop', 'release the emergency stop and switch the arm on'),
    8: ('safety violation', 'restart the safety system'),
    9: ('safety fault', 'restart the robot'),
    10: ('joint identification', 'wait for the robot'),
    11: ('undefined safety mode', 'look at the pendant'),
    12: ('automatic-mode safeguard stop', 'close the safeguard and reset it'),
    13: ('three-position enabling stop', 'press the enabling switch to its middle'),
}
_ROBOT = {
    -1: 'no controller',
    0: 'disconnected',
    1: 'waiting for safety confirmation',
    2: 'booting',
    3: 'powered off',
    4: 'powered on, brakes not released',
    5: 'idle, brakes not released',
    6: 'backdrive',
    8: 'updating firmware',
}


@dataclass(frozen=True)
class HealthSettings(Settings):
    """When the robot counts as silent or out of order."""

    joint_state_timeout: float = setting(
        0.1,
        'no motion starts, and no closed loop continues, with joint_states older than this; the '
        'driver publishes every 8 ms',
        unit='s',
        low=0.02,
        high=2.0,
    )
    running_joint_state_timeout: float = setting(
        0.5,
        'a trajectory that the controller executes is canceled after this time without '
        'joint_states; at least joint_state_timeout',
        unit='s',
        low=0.02,
        high=5.0,
    )
    peer_timeout: float = setting(
        1.0,
        'time without liveliness after which planner and task node treat the other as dead; must '
        'be the same in both',
        unit='s',
        low=0.1,
        high=10.0,
    )
    check_modes: bool = setting(
        True,
        'require robot mode, safety mode and a running program; false: check those that are '
        'published, for mock hardware, which may publish none',
    )


def was_suspended(seconds: float, peer_timeout: float) -> bool:
    """
    Return whether a process that was not run for `seconds` counts as suspended.

    It does after `peer_timeout` [s], unless a loaded PC may still be the cause.
    """
    return seconds > max(peer_timeout, _MAX_STALL)


def io_timeout(health: HealthSettings) -> float:
    """Return how long io_states may be silent during a job [s, steady clock]."""
    # The planner checks the feedback of the arm itself, which must be more recent.
    return max(_IO_TIMEOUT_FACTOR * health.joint_state_timeout, health.running_joint_state_timeout)


@dataclass
class RobotStatus:
    """The latest state of the robot; None where nothing was received yet."""

    # steady-clock time at which the last good joint_states arrived [s]
    arrived: float | None = None
    # steady-clock time from which silence counts: `arrived`, plus the time in which this process
    # was not run since then [s]
    silent_since: float | None = None
    gap: str = ''  # cause of the last gap between two joint_states; empty until there was one
    stamp: float = 0.0  # ROS time at which the joints were measured [s]
    # q, qd: (6,) measured joints [rad], [rad/s]
    q: Array | None = None
    qd: Array | None = None
    bad_joints: str = ''  # what is wrong with the last joint_states; empty if nothing
    # robot_mode, safety_mode: as published by the driver
    robot_mode: int | None = None
    safety_mode: int | None = None
    program_running: bool | None = None  # whether the program on the robot runs
    program_paused: bool = False  # whether it is paused; False while unknown
    # whether the speed scaling is 0 and nothing shows whether the program is paused
    is_pause_unknown: bool = False
    # whether the arm is guided by hand (freedrive), as the task node reports
    is_in_freedrive: bool = False
    speed_scaling: float = 1.0  # 0 to 1; 1 until the driver reports it
    # why the trajectory controller would refuse a motion; empty if it would not, or if unknown
    why_inactive: str = ''
    is_repeated: bool = False  # whether the last joint_states had the stamp of those before
    _last: tuple[float, Array] | None = None  # as received, even if impossible

    @property
    def is_held_by_robot(self) -> bool:
        """Whether the robot holds the arm while its program waits to continue."""
        may_move = self.safety_mode in (SAFETY_NORMAL, SAFETY_REDUCED) and not self.program_paused
        return bool(self.program_running) and not may_move

    @property
    def is_slow(self) -> bool:
        """Whether the robot slows the arm down so much that it stops at once."""
        return self.speed_scaling < _SLOW

    def age(self, now: float) -> float:
        """Return the age of the last good joints [s] at a steady time `now` [s]."""
        return now - (self.arrived or 0.0)

    def is_recent(self, now: float) -> bool:
        """Return whether the joints are valid and recent at a steady time `now` [s]."""
        return not self.bad_joints and self.age(now) <= _RECENT

    def update_joints(
        self,
        stamp: float,
        q: Array,
        qd: Array,
        names: Sequence[str],
        now: float,
        stamp_gap: float | None = None,
    ) -> None:
        """
        Take the joints of joint_states, unless they are impossible for any arm.

        - `stamp` [s]
        - `q`, `qd` (6,) [rad, rad/s]
        - `names`: joint names, for the error text
        - `now`: steady-clock time [s]
        - `stamp_gap`: largest time between the stamps of the messages since the last update [s],
          if there were several
        """
        before = self._last
        if self.is_impossible(stamp, q, names):
            return
        if self.arrived is not None and before is not None:
            self.is_repeated = stamp == self.stamp
            if self.is_repeated:
                return  # a message that is repeated shows nothing of the arm: that is silence
            # They go back with a driver that was restarted.
            stamps = abs(stamp - before[0]) if stamp_gap is None else stamp_gap
            self.gap = _gap(now - self.arrived, stamps) or self.gap
        self.q, self.qd, self.stamp = q, qd, stamp
        self.arrived = self.silent_since = now

    def is_impossible(self, stamp: float, q: Array, names: Sequence[str]) -> bool:
        """Return whether joints are impossible, after those before them; parameters as above."""
        before, self._last = self._last, (stamp, q)
        self.bad_joints = _impossible(q, stamp, before, names)
        return bool(self.bad_joints)

    def discount_stall(self, gap: float, now: float) -> None:
        """
        Discount silence while this process was not run.

        `gap` [s] is the time between two checks, the second one at the steady time `now` [s].
        Steady time beyond the usual period between checks is time in which this process was not
        run. The robot was not silent then: its messages are waiting to be read.
        """
        if self.silent_since is not None and self.arrived is not None and gap > _CHECK_PERIOD:
            counts_from = self.silent_since + gap - _CHECK_PERIOD
            self.silent_since = min(counts_from, self.arrived + _MAX_DISCOUNT, now)


def _gap(seconds: float, stamps: float) -> str:
    """Return the cause of a gap of `seconds` between arrivals, given the gap of stamps [s]."""
    if seconds <= _LATE:
        return ''
    if stamps <= _UNBROKEN:
        return (
            f'this PC was {seconds:.2f} s late to read joint_states; none was lost: it is too busy'
        )
    return f'joint_states were silent for {seconds:.2f} s: check the driver and the link to it'


def _impossible(
    q: Array,
    stamp: float,
    before: tuple[float, Array] | None,
    names: Sequence[str],
) -> str:
    """Return why joints (6,) [rad], which are finite, are impossible; empty if they are not."""
    # Plain numbers: this runs for every message, and NumPy takes ten times as long for six.
    values = q.tolist()
    farthest = max(values, key=abs)
    if abs(farthest) > _IMPOSSIBLE_POSITION:
        return (
            f'{names[values.index(farthest)]} = {farthest:.3f} rad is outside +/-2 pi: turn it '
            'back on the pendant'
        )
    if before is None:
        return ''
    earlier = before[1].tolist()
    # Messages may be lost on a loaded machine, so a step is compared with the time it took.
    gap = stamp - before[0]
    steps = [abs(new - old) for new, old in zip(values, earlier, strict=True)]
    step = max(steps)
    if step > _STEP_SLACK + _IMPOSSIBLE_VELOCITY * max(gap, 0.0):
        return f'{names[steps.index(step)]} jumped by {step:.3f} rad within {gap:.3f} s'
    return ''


def find_fault(
    status: RobotStatus, now: float, settings: HealthSettings, is_streamed: bool = True
) -> str | None:
    """
    Return why the arm must not move, or None.

    - `now`: steady-clock time [s]
    - `is_streamed`: whether a closed loop runs, which needs joints all the time; a trajectory ends
      by itself
    """
    if status.bad_joints:
        return f'impossible joint_states: {status.bad_joints}; check the driver'
    if status.q is None or status.silent_since is None:
        return 'no joint_states yet; is the driver running?'
    silence, limit = now - status.silent_since, settings.joint_state_timeout
    if not is_streamed:
        limit = max(limit, settings.running_joint_state_timeout)
    if silence > limit:
        kept = f'joint_states with the stamp {status.stamp:.3f} s for'
        what = kept if status.is_repeated else 'joint_states silent for'
        return (
            f'{what} {silence:.2f} s (limit {limit} s); check the driver and the link to the robot'
        )
    return mode_fault(status, settings.check_modes)


def mode_fault(status: RobotStatus, are_required: bool = True) -> str | None:
    """
    Return why the robot's modes or program forbid motion, or None.

    `are_required`: False for a driver that need not publish them: what it has published is
    checked.
    """
    if are_required and (status.safety_mode is None or status.robot_mode is None):
        return (
            'robot mode and safety mode not received: is the driver there, and its '
            'io_and_status_controller active? Mock hardware need not publish them: use '
            'robot:=mock, which sets check_modes: false'
        )
    if status.safety_mode not in (None, SAFETY_NORMAL, SAFETY_REDUCED):
        name, advice = _SAFETY.get(status.safety_mode, (f'safety mode {status.safety_mode}', ''))
        return f'{name}; {advice}' if advice else name
    if status.robot_mode not in (None, ROBOT_RUNNING):
        mode = _ROBOT.get(status.robot_mode, f'mode {status.robot_mode}')
        return f'robot is {mode}; switch it on and release the brakes'
    if not status.program_running and (are_required or status.program_running is not None):
        return (
            'External Control program not running; press Play on the pendant or call '
            'io_and_status_controller/resend_robot_program'
        )
    if status.is_pause_unknown:  # a paused program would go on with the motion by itself
        return (
            'the speed scaling is 0, and dashboard_client/program_state does not show whether the '
            'program is paused: raise the speed slider, or start the dashboard client and check '
            'its connection to the robot'
        )
    return 'program paused; press Play on the pendant' if status.program_paused else None
