# SPDX-License-Identifier: Apache-2.0
"""
A closed loop on measured joints that streams segments of its own reference to the controller.

With each joint_states message the reference grows towards the law's desired velocity, by as many
cycles as pass between two messages.
The segment sent to the robot's controller runs from now to the end of the stopping ramp. Segments
agree on the committed cycles, so the controller changes from one to the next without a jump,
however late they arrive, and the last one received ends at rest. Restarting each segment from the
measurement would slow an arm with servo lag to a crawl.

The law is evaluated at the joints that the arm will have at the end of the committed cycles: the
reference there, plus the difference between the measured joints and the delayed reference that
they follow. The delay is the servo lag, estimated from the motion itself. The remaining difference
comes from sag or calibration, and the loop corrects it.
"""

import numpy as np

from ur5_pick_place.control.loops.line_follower import LineFollower
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.progress import ProgressMonitor, stall_reason
from ur5_pick_place.control.loops.reference import Reference
from ur5_pick_place.control.loops.stream import StreamedLoop
from ur5_pick_place.control.path_position import PathTracker
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.planner import MotionPlanner

_SEARCH_SAMPLES = 100  # path samples searched for the nearest one, from the last one on
_MEMORY = 0.97  # forgetting factor per message
_SLOW = 1e-4  # [rad^2/s^2]; below this squared speed the lag cannot be estimated
# [s]; below full speed the controller may be ahead of the reference, by the delay of a segment and
# one cycle.
_LEAST_LAG, _LARGEST_LAG = -0.02, 0.2
_SETTLES = 0.5  # fraction of loop_patience without progress after which a loop at its goal is done


class ServoLag:
    """Least-squares estimate of reference - measured = lag * velocity, with forgetting."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """The lag, in scaled time [s]."""
        self._gap_times_speed, self._speed_squared = 0.0, 1e-6

    def update(self, reference: Reference, q: Array) -> None:
        """Update the estimate with joints (6,) [rad] measured at the reference's time."""
        qd = reference.motion_at(reference.time - self.seconds / 2)[1]  # in the middle of the gap
        square = float(qd @ qd)
        if square > _SLOW:
            gap = reference.q - q
            self._gap_times_speed = _MEMORY * self._gap_times_speed + float(gap @ qd)
            self._speed_squared = _MEMORY * self._speed_squared + square
            lag = self._gap_times_speed / self._speed_squared
            self.seconds = min(max(lag, _LEAST_LAG), _LARGEST_LAG)


class ClosedLoop(StreamedLoop):
    """
    One closed-loop motion along its roll-out to the goal.

    - `planner`: of the arm in its scene
    - `method`: one of `line_follower.METHODS`
    - `limits`: kept by every segment, its stopping ramp included
    - `path` (n, 6): the joints of the roll-out [rad]; the last row is the goal
    """

    def __init__(
        self,
        planner: MotionPlanner,
        method: str,
        limits: Limits,
        path: Array,
        settings: LoopSettings,
    ) -> None:
        super().__init__(settings)
        self._planner, self._limits = planner, limits
        self._T_goal = forward(planner.model, path[-1])
        self._corridor = PathTracker(path, _SEARCH_SAMPLES)
        self._progress = ProgressMonitor(settings.loop_patience)
        self._settling = ProgressMonitor(_SETTLES * settings.loop_patience)
        self._lag = ServoLag()
        self._desired_velocity, self._desired_until = np.zeros(6), 0.0
        self.method = method

    def _begin(self, q: Array) -> Reference:
        reference = Reference(q, self._limits)
        self._follower = LineFollower(
            self._planner, self.method, reference.limits, q, self._T_goal, self._settings
        )
        self.stop(self._follower.why_unreachable(q))
        return reference

    def _look(self, reference: Reference, q: Array, is_waiting: bool) -> None:
        self._lag.update(reference, q)
        if not self.stop_reason:
            self._give_up(self._stop_cause(reference, q))

    def _extend(self, reference: Reference, q: Array) -> None:
        if reference.time >= self._desired_until:
            followed = reference.motion_at(reference.time - self._lag.seconds)[0]
            ahead = reference.tail[0] + q - followed
            self._desired_velocity = self._follower.desired_velocity(ahead)
            self._desired_until = reference.time + self._settings.loop_hold
        # A part pressed on the table keeps the arm a little off: correcting that would never end.
        is_settled = self._settling.is_stalled(reference.time, self._follower.remaining)
        if is_settled and self._follower.is_at_goal(q):
            self._desired_velocity = np.zeros(6)
        state, ramp = reference.propose(self._desired_velocity)
        if reason := self._planner.why_blocked(ramp.path):
            self._give_up(reason)
        else:
            reference.extend(state, ramp)

    def _give_up(self, cause: str) -> None:
        """Stop if there is a cause; the reason also names a servo lag that is too large."""
        if not cause:
            return
        lag, allowed = self._lag.seconds, self._settings.loop_ahead
        late = (
            f'; the arm follows {lag:.2f} s late (loop_ahead {allowed} s): check link, PC and '
            'servos'
        )
        self.stop(f'{self.method} stopped: {cause}{late if lag > allowed else ""}')

    def _stop_cause(self, reference: Reference, q: Array) -> str:
        """Return why the motion must stop; empty if it need not."""
        reason = (
            self._beyond('loop_corridor', self._corridor.advance(q), 'its roll-out')
            or self._off_reference(q)
            or self._planner.why_blocked(q[None])
        )
        if not reason and self._progress.is_stalled(reference.time, self._follower.remaining):
            reason = (
                f'no progress towards the goal for {self._settings.loop_patience} s; '
                f'{stall_reason(self._planner.model, q)}'
            )
        return reason

    def _ended(self, is_still: bool, is_waiting: bool, q: Array) -> Outcome | None:
        if self.stop_reason and (is_still or is_waiting):
            return Outcome.failed(self.stop_reason)
        return DONE if is_still and self._follower.is_at_goal(q) else None
