# SPDX-License-Identifier: Apache-2.0
"""Move the arm from a script, through the planner."""

from contextlib import suppress
from typing import Any

import numpy as np
from moveit_msgs.action import MoveGroup
from numpy.typing import ArrayLike

from ur5_pick_place.client import requests
from ur5_pick_place.client.jobs import Jobs
from ur5_pick_place.client.link import PLANNER
from ur5_pick_place.errors import ExecutionError, InvalidInput, TimedOut
from ur5_pick_place.kinematics.transforms import Array, log_so3
from ur5_pick_place.nodes.messages.conversions import numbers_to_matrix
from ur5_pick_place.task.places.names import HOME

_LISTENER = 2.0  # [s] for a topic's subscriber to be discovered
_LONGEST_JOG = 60.0  # [s]
_MOVED = 1e-4  # [rad]; less is no motion
_MIN_COVERED = 0.7  # share of the commanded jog; less is an error if the planner has logged why
_MAX_ANGLE = 2.5  # [rad]; a jog that may turn more is not judged: poses show at most half a turn
_BEGIN = 0.5  # [s] for the planner to begin a jog
_END = 2.0  # [s] for the planner to end a jog whose arm is at rest
_LOG = 1.0  # [s] for a reason to arrive on /rosout


class Motions(Jobs):
    """Moves to places, poses and joints, and jogs."""

    def move_to(
        self,
        place: str = '',
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
        joints: ArrayLike | None = None,
        scaling: float = 0.0,
    ) -> None:
        """
        Move to a taught place, a pose of the TCP, or joints, round obstacles if need be.

        Parameters
        ----------
        place : str
            One of `places`; `home` without a scaling is as `go_home`.
        xyz, yaw_deg, T, frame
            As for `teach`.
        joints : array_like, shape (6,)
            In controller order [rad].
        scaling : float
            Share of the limits on velocity and acceleration, 0 to 1; 0 = the planner's default.

        Raises
        ------
        Ur5PickPlaceError
            The motion was refused or ended early; gives the planner's reason.

        """
        scaling = requests.number('scaling', scaling, 0.0, 1.0)
        if not isinstance(place, str) or place:
            self._check_place(place)
        if sum((bool(place), xyz is not None or T is not None, joints is not None)) != 1:
            raise InvalidInput('give one of: a place, xyz (with yaw_deg) or T, joints')
        if place or joints is not None:
            given = f'place {place!r}' if place else 'joints'
            requests.refuse_beside(given, yaw_deg=yaw_deg, frame=frame)
        if joints is not None:
            q = requests.numbers('joints', joints, 6, 'rad')
            goal = requests.joint_goal(q, self._link.received.joint_names)
        elif place == HOME and not scaling:
            self.go_home()
            return
        elif place:
            goal = self._goal_of(place)
        else:
            pose = requests.stamped(requests.tcp_pose(xyz, yaw_deg, T), frame)
            goal = requests.pose_goal(pose)
        try:
            self._move(requests.motion_goal(goal, scaling))
        except InvalidInput as error:
            if not place or place in self._link.received.taught:
                raise
            raise InvalidInput(f'{place} is not taught: teach it first ({error})') from error

    def _goal_of(self, place: str) -> Any:
        taught = self._link.received.taught.get(place)
        # Home is defined by its joints, not by a pose.
        if place == HOME and not (taught and taught['joints']):
            raise InvalidInput(
                'scaling given for home, whose joints this client does not know, as it was taught '
                'earlier: leave scaling out, give joints, or teach home again'
            )
        if taught is None:  # before this client began: the task node publishes it as a frame
            frame = requests.stamped(np.eye(4), self._link.received.prefix + place)
            return requests.pose_goal(frame)
        if taught['joints']:
            return requests.joint_goal(np.array(taught['joints']), self._link.received.joint_names)
        pose = numbers_to_matrix(np.array(taught['pose']))
        return requests.pose_goal(requests.stamped(pose, f'{self._link.received.prefix}base'))

    def _move(self, goal: MoveGroup.Goal) -> None:
        action = self._link.action(MoveGroup, 'move_action')
        is_over = False
        try:
            handle = self._link.await_future(action.send_goal_async(goal), 'move_action to accept')
            if not handle.accepted:
                is_over = True
                raise ExecutionError('move_action rejected the goal: call rearm, or look at state')
            outcome = handle.get_result_async()
            # It may take as long as the speed slider makes it; the planner watches the arm.
            self._link.await_future(outcome, 'the motion to end', np.inf)
            is_over = True
        finally:
            if not is_over:
                self._stop_on_leaving()
        requests.check_code(outcome.result().result.error_code, 'move_to')

    def jog(
        self,
        twist: ArrayLike | None = None,
        *,
        joints: ArrayLike | None = None,
        seconds: float = 1.0,
        frame: str | None = None,
    ) -> None:
        """
        Jog the arm at a velocity, and return once it is at rest.

        Parameters
        ----------
        twist : array_like, shape (6,)
            Of the TCP in `frame`, linear first [m/s], [rad/s].
        joints : array_like, shape (6,)
            Velocities in controller order [rad/s], instead of a twist.
        seconds : float
            For how long.
        frame : str, optional
            Of the twist, `base_link` by default.

        Raises
        ------
        ExecutionError
            The planner does not subscribe, a jog was stopped, the arm does not move, or it covers
            less than 70 % of the path and the planner has logged why (an obstacle, a limit, a
            singularity, the speed slider); gives the planner's reason.

        """
        seconds = requests.number('seconds', seconds, 0.0, _LONGEST_JOG, 's')
        topic, velocity, message = self._jog_command(twist, joints, frame)
        try:
            publisher = self._link.publisher(type(message), topic, _LISTENER)
        except TimedOut as error:
            raise ExecutionError(f'jog: {error}') from error
        received = self._link.received
        self._check_not_stopped('jog refused', ': call rearm first')
        received.forget_errors()
        q, T = received.joints()[0], self.tcp if twist is not None else np.eye(4)
        elapsed = self._link.repeat(publisher, message, seconds)
        if velocity.any():
            self._wait_for_jog(q)
        self._wait_for_end_of_jog()
        if not velocity.any():
            return
        moved = received.joints()[0] - q
        if twist is not None:
            covered = _time_at_twist(T, self.tcp, velocity, elapsed)
        else:
            covered = float(moved @ velocity / (velocity @ velocity))
        if np.abs(moved).max() <= _MOVED:
            self._explain_jog('jog: the arm did not move', _LOG)
            raise ExecutionError(f'jog: the arm did not move; look at the log of {PLANNER}')
        if covered < _MIN_COVERED * elapsed:
            percent = 100.0 * covered / elapsed
            self._explain_jog(f'jog covered only {percent:.0f} % of its path', 0.0)

    def _wait_for_end_of_jog(self) -> None:
        states = self._link.received.states
        try:
            self._link.wait_for_rest()
        except TimedOut as error:
            self._check_not_stopped('jog ended', f'; {error}')
            raise
        with suppress(TimedOut):  # an arm that was halted is at rest before the jog ends
            self._link.wait(lambda: states[PLANNER] != 'moving', 'the jog to end', _END)
        self._check_not_stopped('jog ended')

    def _check_not_stopped(self, what: str, more: str = '') -> None:
        if (state := self._link.received.states[PLANNER]).startswith('stopped'):
            raise ExecutionError(f'{what}: {state}{more}')

    def _wait_for_jog(self, q: Array) -> None:
        """Give a busy planner time to begin: a short jog may be over before the arm moves."""
        received = self._link.received

        def has_begun() -> bool:
            is_away = np.abs(received.joints()[0] - q).max() > _MOVED
            return is_away or received.states[PLANNER] != 'ready'

        with suppress(TimedOut):
            self._link.wait(has_begun, 'the jog to begin', _BEGIN)

    def _jog_command(
        self, twist: ArrayLike | None, joints: ArrayLike | None, frame: str | None
    ) -> tuple[str, Array, Any]:
        """Return topic, velocity (6,) and message of a jog."""
        if (twist is None) == (joints is None):
            raise InvalidInput('give either twist or joints')
        if twist is not None:
            velocity = requests.numbers('twist', twist, 6, 'm/s, rad/s')
            return f'{PLANNER}/delta_twist_cmds', velocity, requests.twist(velocity, frame)
        requests.refuse_beside('joints', frame=frame)
        velocity = requests.numbers('joints', joints, 6, 'rad/s')
        message = requests.joint_jog(velocity, self._link.received.joint_names)
        return f'{PLANNER}/delta_joint_cmds', velocity, message

    def _explain_jog(self, what: str, timeout: float) -> None:
        """Raise `ExecutionError` with the planner's reason if one comes within `timeout` [s]."""
        with suppress(TimedOut):  # the topics have no answer but the log
            reason = self._link.wait(
                lambda: self._link.received.error('jog'), 'the reason', timeout
            )
            raise ExecutionError(f'{what}: {reason.removeprefix("jog: ")}')


def _time_at_twist(T_before: Array, T_after: Array, twist: Array, elapsed: float) -> float:
    """
    Return how long a motion at a twist takes from one pose (4, 4) of the TCP to another [s].

    `elapsed` [s] if it may turn by more than _MAX_ANGLE.

    """
    linear, angular = np.linalg.norm(twist[:3]), np.linalg.norm(twist[3:])
    if angular * elapsed > _MAX_ANGLE:
        return elapsed
    if linear > 0.0:
        return float(np.linalg.norm((T_after - T_before)[:3, 3]) / linear)
    return float(np.linalg.norm(log_so3(T_before[:3, :3].T @ T_after[:3, :3])) / angular)
