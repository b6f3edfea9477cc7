# SPDX-License-Identifier: Apache-2.0
"""
A method that follows its law on measured joints, streamed as windows of our own reference.

At each message of the joints the reference grows by one cycle towards the law's wish, and a window
of it, from now to the ramp that ends it, is what goes to the robot's controller: windows agree on
what is settled, so that the controller passes from one to the next without a jolt however late
they arrive, and the last one heard ends at rest. Restarting each from the measurement would crawl
on an arm with servo lag.

The law looks at the joints where the arm will be at the end of what is settled: the reference
there, and by how much the measured joints differ from the reference that they follow, as late as
the servos are. That lateness is found from the motion itself. What is left of the difference is a
true one, of sag or a calibration, and the loop undoes it.

"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.line_follower import LineFollower, make_law
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.progress import ProgressMonitor, stall_reason
from ur5_pick_place.control.reference import Reference
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.timing import stretch
from ur5_pick_place.planning.trajectory import Trajectory

_REACH = 100  # samples in which the nearest is looked for, ahead of the last one


class Corridor:
    """
    The surroundings of a joint path that is followed in one direction.

    Parameters
    ----------
    path : ndarray, shape (n, 6)
        Joint positions [rad], close to one another.

    """

    def __init__(self, path: Array) -> None:
        self._path = path
        self._at = 0

    def away(self, q: Array) -> Array:
        """Return how far each joint of `q` (6,) is from the path's nearest point [rad]."""
        ahead = self._path[self._at : self._at + _REACH]
        nearest = int(np.abs(ahead - q).max(axis=1).argmin())
        self._at += nearest
        return np.abs(ahead[nearest] - q)


_MEMORY = 0.97  # kept of what was seen, per message
_SLOW = 1e-4  # [rad^2/s^2]; below this speed there is nothing to see
_MOST = 0.2  # [s]


class ServoLag:
    """Least squares of (reference - measured) = lag times velocity, with a fading memory."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """The lag, in scaled time [s]."""
        self._gap_times_speed, self._speed_squared = 0.0, 1e-6

    def hear(self, reference: Reference, q: Array) -> None:
        """Take the joints (6,) [rad] that were measured at the reference's time."""
        qd = reference.qd_at(reference.time - self.seconds / 2)  # in the middle of the gap
        if qd @ qd > _SLOW:
            gap = reference.q_at(reference.time) - q
            self._gap_times_speed = _MEMORY * self._gap_times_speed + float(gap @ qd)
            self._speed_squared = _MEMORY * self._speed_squared + float(qd @ qd)
            lag = self._gap_times_speed / self._speed_squared
            self.seconds = float(np.clip(lag, 0.0, _MOST))



_FROZEN = 0.005  # speed scaling below which the robot waits; the slider's least is 0.01
_NOT_FOLLOWED = ': the arm is held, or its controller is not active'
AT_REST = 0.01  # [rad/s] of the measured joints


@dataclass(frozen=True)
class TrajectorySegment:
    """What goes to the controller: a trajectory, and the stamp [s] at which it began."""

    trajectory: Trajectory
    begin: float


class ClosedLoop:
    """
    One motion under a law, from its roll-out to the goal.

    Parameters
    ----------
    method : str
        One of `steering.METHODS`.
    model : Model
    limits : Limits
        Kept by every window, its ramp included.
    p_tool_tcp : ndarray, shape (3,)
        The TCP in tool0 [m].
    path : ndarray, shape (n, 6)
        The roll-out's joints [rad]; its last is the goal.
    settings : LoopSettings
    obstacle : callable
        Given joints (n, 6) [rad], says what is in the way there, or nothing.

    """

    def __init__(
        self,
        method: str,
        model: Model,
        limits: Limits,
        p_tool_tcp: Array,
        path: Array,
        settings: LoopSettings,
        obstacle: Callable[[Array], str],
    ) -> None:
        self._model, self._limits, self._settings = model, limits, settings
        self._law = make_law(method, model, settings)
        self._p_tool_tcp, self._T_goal = p_tool_tcp, forward(model, path[-1])
        self._obstacle = obstacle
        self._corridor = Corridor(path)
        self._progress = ProgressMonitor(settings.loop_patience)
        self._lag = ServoLag()
        self._ahead = round(settings.loop_ahead / CYCLE)
        self._stamp = 0.0
        self._wish, self._wish_until = np.zeros(6), 0.0
        self._reference: Reference | None = None
        self.method = method
        self.stop_reason = ''
        self.outcome: str | None = None
        """None on the way; then '' when the goal is reached and proved, else why not."""

    @property
    def q_planned(self) -> Array:
        """Where the arm should be now, joints (6,) [rad], as far as its servos are prompt."""
        assert self._reference is not None
        return self._reference.q_at(self._reference.time)

    def stop(self, reason: str) -> None:
        """Brake on the ramp that was sent; the outcome will be the reason."""
        self.stop_reason = self.stop_reason or reason

    def tick(
        self, stamp: float, q: Array, qd: Array, speed_scaling: float
    ) -> TrajectorySegment | None:
        """
        Take the measured joints (6,) [rad, rad/s] of a stamp [s]; return what to send.

        Nothing is sent for a stamp seen before, nor while the robot's slider is at zero.

        """
        if self._reference is None:
            self._set_out(stamp, q)
        elif stamp <= self._stamp:
            return None
        reference = self._reference
        assert reference is not None
        reference.advance((stamp - self._stamp) * speed_scaling, self._ahead)
        self._stamp = stamp
        self._lag.hear(reference, q)
        if not self.stop_reason:
            self._give_up(self._trouble(q))
        if not self.stop_reason and reference.room <= self._ahead:
            self._extend(reference, q)
        is_frozen = speed_scaling < _FROZEN
        self._judge(reference.is_still, is_frozen, q, qd)
        if is_frozen:
            return None
        trajectory, ago = reference.window()
        slowed = trajectory if speed_scaling == 1.0 else stretch(trajectory, 1.0 / speed_scaling)
        return TrajectorySegment(slowed, stamp - ago / speed_scaling)

    def _set_out(self, stamp: float, q: Array) -> None:
        self._stamp = stamp
        self._reference = Reference(q, self._limits)
        self._steering = LineFollower(
            self._law,
            self._model,
            self._reference.limits,
            self._p_tool_tcp,
            q,
            self._T_goal,
            self._settings,
        )
        self.stop(self._steering.obstacle(q))

    def _extend(self, reference: Reference, q: Array) -> None:
        """Settle one more cycle, unless its ramp could not be driven."""
        if reference.time >= self._wish_until:
            self._wish = self._steering.wish(
                reference.tail.q + q - reference.q_at(reference.time - self._lag.seconds)
            )
            self._wish_until = reference.time + self._settings.loop_hold
        state, ramp = reference.propose(self._wish)
        if obstacle := self._obstacle(np.stack([state.q, ramp.at(ramp.cycles).q])):
            self._give_up(obstacle)
        else:
            reference.extend(state, ramp)

    def _give_up(self, trouble: str) -> None:
        """Stop for our own trouble, if there is any; say too if the arm is late to follow."""
        lag, ahead = self._lag.seconds, self._settings.loop_ahead
        late = f'; the arm follows {lag:.2f} s late (loop_ahead {ahead} s): link, PC or servos'
        if trouble:
            self.stop(f'{self.method} stopped: {trouble}{late if lag > ahead else ""}')

    def _trouble(self, q: Array) -> str:
        """Say why the motion must end, or nothing."""
        assert self._reference is not None
        settings, reference = self._settings, self._reference
        for what, away, name, cause in (
            ('the corridor about its roll-out', self._corridor.away(q), 'loop_corridor', ''),
            ('its reference', np.abs(q - self.q_planned), 'loop_gap', _NOT_FOLLOWED),
        ):
            joint = int(away.argmax())
            if away[joint] > getattr(settings, name):
                return (
                    f'{JOINT_NAMES[joint]} is {away[joint]:.3f} rad from '
                    f'{what} (limit {getattr(settings, name)} rad, {name}){cause}'
                )
        if obstacle := self._obstacle(q[None]):
            return obstacle
        if self._progress.is_stalled(reference.time, self._steering.remaining):
            return (
                f'no nearer to the goal for {settings.loop_patience} s; '
                f'{stall_reason(self._model, q)}'
            )
        return ''

    def _judge(self, is_still: bool, is_frozen: bool, q: Array, qd: Array) -> None:
        """Find out whether the motion is over: reference or slider and arm at rest, and where."""
        if np.abs(qd).max() >= AT_REST:
            return
        if self.stop_reason and (is_still or is_frozen):
            self.outcome = self.stop_reason
        elif is_still and self._steering.is_there(q):
            self.outcome = ''
