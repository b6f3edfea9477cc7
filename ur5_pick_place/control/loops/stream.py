# SPDX-License-Identifier: Apache-2.0
"""A closed loop or a jog in execution: its ticks on joint_states, and whether the arm follows."""

import math

from ur5_pick_place.control.loops.streamed_loop import StreamedLoop, TrajectorySegment
from ur5_pick_place.control.motion_monitor import StallDetector
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory

_SET_AHEAD = 10.0  # [s] between two stamps; a larger gap would be caught up cycle by cycle
_STOPPING = 2.0  # [s] of scaled time in which a stopped loop comes to rest
_CREEPING = 0.05  # speed scaling below which `_STOPPING` is real time
_SET_BACK = 0.1  # [s]; stamps that decrease by more mean that the clock was set back


def check_replaces_trajectories(replaces: bool, what: str, advice: str) -> None:
    """
    Raise `ExecutionError` unless the controller replaces a trajectory by a later one.

    - `replaces`: whether it does
    - `what`: what needs it, for the error
    - `advice`: how the advice begins, before "start driver and nodes with another controller"

    """
    if not replaces:
        raise ExecutionError(
            f'{what} needs a controller that accepts a stream of trajectories; the '
            f'passthrough trajectory controller accepts complete trajectories only: {advice} '
            'start driver and nodes with another controller'
        )


class Stream:
    """
    A running closed loop or jog.

    - `trajectory`: the roll-out of a closed loop; a jog, which has none, checks its path itself
    - `on_end`: called at the end: done if the joints have reached the goal
    - `stall_time`: how long the arm may be at rest while the loop continues [s]

    - `is_wanted_stop`: whether a stop was requested; the reason that the loop gives is then not
      latched
    - `ended`: how it ended, while the arm is not at rest yet; nothing more is sent

    """

    def __init__(
        self,
        loop: StreamedLoop,
        trajectory: Trajectory | None,
        on_end: OnOutcome,
        stall_time: float,
    ) -> None:
        self.loop, self.trajectory, self.on_end = loop, trajectory, on_end
        self.is_wanted_stop = False
        self.ended: Outcome | None = None
        self._stall, self._stopping = StallDetector(stall_time), 0.0
        self._stamp: float | None = None

    within = (0.0, math.inf)
    """The times of the trajectory [s] between which the arm is."""

    @property
    def stop_reason(self) -> str:
        """Why it stops; empty while it goes on."""
        return self.loop.stop_reason

    def can_stop(self, even_if_stopping: bool) -> bool:
        """Return whether it can be stopped; `even_if_stopping`: also if it is already stopping."""
        return not self.ended and (even_if_stopping or not self.loop.stop_reason)

    def stop(self, reason: str) -> Trajectory | None:
        """Stop as requested; returns the motion to rest, None if nothing was sent yet."""
        self.is_wanted_stop = True
        self.loop.stop(reason)
        return self.loop.braking

    def tick(self, status: RobotStatus) -> tuple[TrajectorySegment | None, str]:
        """
        Return the segment to send for the latest joints, and the fault that ends the loop.

        Either may be missing: None, and '' without a fault.

        """
        assert status.q is not None and status.qd is not None  # else it would not have begun
        passed = 0.0 if self._stamp is None else status.stamp - self._stamp
        if passed < -_SET_BACK:
            return None, (
                'the clock of joint_states was set back: check whether the driver restarted'
            )
        if passed > _SET_AHEAD:
            return None, (
                f'the clock of joint_states was set ahead by {passed:.0f} s: check its publishers '
                'and use_sim_time'
            )
        self._stamp = status.stamp
        if self.ended:
            return None, self._not_stopping(max(passed, 0.0), status.speed_scaling)
        segment = self.loop.tick(status.stamp, status.q, status.qd, status.speed_scaling)
        if self.loop.outcome is not None:
            return segment, ''
        if reason := self._not_stopping(max(passed, 0.0), status.speed_scaling):
            return segment, reason
        return segment, self._stall.tick(status.stamp, status.q, self.loop.q_planned) or ''

    def _not_stopping(self, passed: float, scaling: float) -> str:
        """Return the fault of a loop that has stopped while something else moves the arm."""
        if not (self.loop.stop_reason or self.ended):
            return ''
        self._stopping += passed * (scaling if scaling >= _CREEPING else 1.0)
        if self._stopping <= _STOPPING:
            return ''
        reason = self.loop.stop_reason or 'the end of its jog'
        return f'the arm does not come to rest after: {reason}'
