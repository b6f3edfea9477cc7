# SPDX-License-Identifier: Apache-2.0
"""What robot, controller and joints show, and whether they allow a motion to begin or to go on."""

from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass, field

import numpy as np

from ur5_pick_place.control.controller import REPLY_TIMEOUT, Controller, Goal
from ur5_pick_place.control.loops.stream import Stream
from ur5_pick_place.control.path_position import first_pass
from ur5_pick_place.control.robot_status import (
    SAFETY_REDUCED,
    HealthSettings,
    RobotStatus,
    find_fault,
    mode_fault,
)
from ur5_pick_place.control.stillness import ForeignMotion, Stillness
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

_KEPT = 64  # ids of goals: the controller reports one for a while after its end
_FOREIGN = (
    'foreign motion: the controller has a goal that this node did not send; end the client that '
    'sent it'
)
_STEP = 0.01  # [s] between samples: a check must not delay the processing of joint_states
_SLACK = 1.005  # the gate samples at other times, and admits a little more than the limit


class OwnGoals:
    """
    The ids of the goals that this node has sent.

    - `open`: those that the controller may still have or receive, and when they were sent [s,
      steady clock]
    """

    def __init__(self) -> None:
        self.sent: deque[bytes] = deque(maxlen=_KEPT)
        self.open: dict[bytes, float] = {}

    def record_sent(self, goal: bytes, now: float) -> None:
        """Record the id of a goal that is sent at time `now` [s, steady clock]."""
        self.sent.append(goal)
        self.open[goal] = now

    def forget_lost(self, reported: Set[bytes], current: bytes | None, now: float) -> None:
        """
        Drop goals whose end was not reported.

        A goal is delivered within `REPLY_TIMEOUT`; one that the controller does not report at
        twice that time has ended, unless it is the `current` one. `now` as in `record_sent`.
        """
        last = now - 2.0 * REPLY_TIMEOUT
        for goal, sent in list(self.open.items()):
            if sent < last and goal not in reported and goal != current:
                del self.open[goal]


@dataclass(frozen=True)
class Conditions:
    """The conditions under which a motion begins."""

    controller: Controller
    status: RobotStatus
    health: HealthSettings
    unset_parameters: str  # which the user must set; not empty, it refuses all motion
    clock: Callable[[], float]  # returns the steady time [s]
    foreign_motion: ForeignMotion = field(default_factory=ForeignMotion)
    own_goals: OwnGoals = field(default_factory=OwnGoals)

    @property
    def has_goals(self) -> bool:
        """Whether the controller has a goal that has not ended, or may still receive ours."""
        return bool(self.own_goals.open or self.controller.goals)

    @property
    def foreign_goal(self) -> str:
        """A fault if the controller has a goal that is not ours; empty if it has none."""
        return '' if self.controller.goals <= set(self.own_goals.sent) else _FOREIGN

    @property
    def knows_joints(self) -> bool:
        """Whether the joints are valid and recent."""
        return self.status.is_recent(self.clock())

    @property
    def recent_stillness(self) -> Stillness | None:
        """Whether the arm is at rest, by recent joints; None without them."""
        return self.foreign_motion.stillness if self.knows_joints else None

    @property
    def is_possibly_moving(self) -> bool:
        """Whether the controller may be moving the arm; true without recent joints."""
        by_pendant = mode_fault(self.status, self.health.check_modes)
        if self.status.is_in_freedrive or by_pendant:
            return False
        return not (self.knows_joints and self.foreign_motion.stillness.is_at_rest)

    def fault(self, is_streamed: bool = False) -> str | None:
        """Return why the robot must not move now, or None; `is_streamed` as in `find_fault`."""
        fault = find_fault(self.status, self.clock(), self.health, is_streamed)
        return self.controller.conflict or fault

    @property
    def why_unusable(self) -> str:
        """Why robot or controller cannot move the arm now; empty if they can."""
        return self.fault() or self.controller.why_unavailable

    @property
    def why_not_ready(self) -> str:
        """Why robot or controller do not allow a motion to start; empty if they do."""
        if reason := self.why_unusable:
            return reason
        if self.has_goals:
            still = 'the controller still has a goal, which is being canceled'
            return self.controller.why_not_canceled or still
        if self.status.is_in_freedrive:
            return ''
        return self.foreign_motion.stillness.why_not_at_rest or self.status.why_inactive

    @property
    def why_too_old(self) -> str:
        """Why the joints are too old to begin a motion; empty if they are not."""
        age, limit = self.status.age(self.clock()), self.health.joint_state_timeout
        if age <= limit:
            return ''
        return (
            f'the latest joint_states are {age:.2f} s old (limit joint_state_timeout = {limit} '
            's); check the driver and the link to it'
        )


@dataclass(eq=False)
class ReducedMode:
    """Compares motions with the limit of the reduced mode, while the robot is in it."""

    planner: MotionPlanner
    status: RobotStatus
    _seen: Goal | Stream | None = None  # compared already, since the mode changed

    @property
    def is_on(self) -> bool:
        return self.status.safety_mode == SAFETY_REDUCED

    def objection(self, motion: Goal | Stream | None) -> str:
        """Return why a running motion must stop, once per motion and mode, or an empty text."""
        if not self.is_on:
            self._seen = None
        if not self.is_on or motion is self._seen:
            return ''
        self._seen = motion
        q = self.status.q
        if motion is None or motion.stop_reason or q is None:
            return ''
        if (trajectory := motion.trajectory) is None:
            return ''  # a jog keeps the limits of the present mode by itself
        excess = self._excess(trajectory, first_pass(trajectory, q, motion.within))
        return excess and f'the safety mode is now reduced, but {excess}: plan a slower motion'

    def _excess(self, trajectory: Trajectory, begin: float) -> str:
        """Return what is too fast from time `begin` [s] on; empty if nothing is."""
        planner, limits = self.planner, self.planner.limits_in(True)
        if limits is planner.limits:
            return ''  # max_speed is the limit in this mode too
        limit, t = limits.speed, np.arange(begin, trajectory.duration, _STEP)
        q, qd, _, _ = trajectory.sample(np.append(t, trajectory.duration))
        speed = tcp_and_elbow_speed(planner.model, q, qd, planner.scene.tool.p_tool_tcp)
        i, which = np.unravel_index(speed.argmax(), speed.shape)
        if speed[i, which] <= limit * _SLACK:
            return ''
        return (
            f'{("TCP", "elbow")[which]} moves at {speed[i, which]:.3f} m/s, limit {limit:.3f} m/s '
            'in this mode (reduced_speed)'
        )
