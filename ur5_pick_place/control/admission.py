# SPDX-License-Identifier: Apache-2.0
"""Admit a motion: the robot, its controller, the latch, the joints and the gate must allow it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ur5_pick_place.control.controller import Controller, StopProgress
from ur5_pick_place.control.foreign_motion import ForeignMotion
from ur5_pick_place.control.motion_state import MotionState, motion_state_text
from ur5_pick_place.control.own_goals import OwnGoals
from ur5_pick_place.control.reduced_mode import ReducedMode
from ur5_pick_place.control.robot_status import (
    HealthSettings,
    RobotStatus,
    find_fault,
    mode_fault,
)
from ur5_pick_place.control.stop_latch import StopLatch
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.planning.gate import GateReport
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

T = TypeVar('T')
IsWanted = Callable[[], bool]


@dataclass(eq=False)
class Admission:
    """
    The conditions under which a motion begins.

    Attributes
    ----------
    planner : MotionPlanner
        Its gate checks every motion.
    controller : Controller
    status : RobotStatus
    health : HealthSettings
    unset_parameters : str
        Which parameters the user must set; not empty refuses all motion.
    latch : StopLatch
        Holds the reason of a stop until it is rearmed.
    is_moving : callable
        Returns whether a motion is running.
    lock : RLock
        Held while a motion begins.
    clock : callable
        Returns the steady time [s].
    foreign_motion : ForeignMotion
        Detects motion of the arm that this node did not command.
    own_goals : OwnGoals
        Distinguishes the goals of this node from those of other clients.

    """

    planner: MotionPlanner
    controller: Controller
    status: RobotStatus
    health: HealthSettings
    unset_parameters: str
    latch: StopLatch
    is_moving: Callable[[], bool]
    lock: Any  # threading.RLock is a function, not a type
    clock: Callable[[], float]
    foreign_motion: ForeignMotion = field(default_factory=ForeignMotion)
    own_goals: OwnGoals = field(default_factory=OwnGoals)
    _gating: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Create the check of motions against the speed limit of the robot's reduced mode."""
        self.reduced = ReducedMode(self.planner, self.status)

    @property
    def has_goals(self) -> bool:
        """Whether the controller has a goal that has not ended, or may still receive ours."""
        return bool(self.own_goals.are_open or self.controller.goals)

    @property
    def foreign_goal(self) -> str:
        """A fault if the controller has a goal that is not ours; empty if it has none."""
        return self.own_goals.foreign(self.controller.goals)

    @property
    def knows_joints(self) -> bool:
        """Whether the joints are valid and recent."""
        return self.status.is_recent(self.clock())

    @property
    def is_possibly_moving(self) -> bool:
        """Whether the controller may be moving the arm; true without recent joints."""
        by_pendant = mode_fault(self.status, self.health.check_modes)
        if self.status.is_in_freedrive or by_pendant:
            return False
        return not (self.knows_joints and self.foreign_motion.stillness.is_at_rest)

    def stop(self, reason: str) -> None:
        """
        Latch a stop that was requested.

        Clears `is_in_freedrive` until the task node reports freedrive again: that node ends
        freedrive when the latch is first set, but not at a repeated stop.

        """
        self.latch.set(reason)
        self.status.is_in_freedrive = False

    def stop_progress(self, seconds: float) -> StopProgress:
        """Return how far a stop that began `seconds` ago has come, by the measured joints."""
        if not self.latch.reason:
            return StopProgress.OVER
        if not self.knows_joints:
            return StopProgress.UNSEEN
        moves_on = self.foreign_motion.stillness.moves_on(seconds)
        return StopProgress.MOVING_ON if moves_on else StopProgress.BRAKING

    def foreign_motion_fault(self, fault: str | None) -> str:
        """Return the fault of motion from another source; empty if there is none."""
        if self.unset_parameters:
            return ''
        stamp = self.status.stamp
        if self.latch.reason or self.is_moving() or self.status.is_in_freedrive or fault:
            self.foreign_motion.expect_motion(stamp)
            return '' if self.latch.reason else self.foreign_goal
        q = self.status.q if self.knows_joints else None
        foreign_goal = self.foreign_goal
        if foreign_goal or q is None:
            return foreign_goal
        return self.foreign_motion.motion(q, stamp)

    def fault(self, is_streamed: bool = False) -> str | None:
        """Return why the robot must not move now, or None; `is_streamed` as in `find_fault`."""
        status, now = self.status, self.clock()
        return self.controller.conflict or find_fault(status, now, self.health, is_streamed)

    def why_not_ready(self) -> str:
        """Return why robot or controller do not allow a motion to start; empty if they do."""
        if reason := self.fault() or self.controller.why_unavailable:
            return reason
        if self.has_goals:
            still = 'the controller still has a goal, which is being canceled'
            return self.controller.why_not_canceled or still
        if self.status.is_in_freedrive:
            return ''
        return self.foreign_motion.stillness.why_not_at_rest or self.status.why_inactive

    def state(self) -> tuple[MotionState, str]:
        """Return the motion state and the reason of a stop."""
        if self.latch.reason:
            return MotionState.STOPPED, self.latch.reason
        if self.latch.has_never_been_ready:
            reason = self.unset_parameters or self.why_not_ready() or 'checking the robot'
            return MotionState.STOPPED, reason
        return (MotionState.MOVING if self.is_moving() else MotionState.READY), ''

    def check(self, is_wanted: IsWanted = lambda: True) -> None:
        """
        Check that a motion may begin now.

        Raises
        ------
        ExecutionError
            It may not; gives the reason and what to do.

        """
        if not is_wanted():
            raise ExecutionError('motion refused: it was stopped before it began')
        state, reason = self.state()
        if state is not MotionState.READY:
            advice = '; call ~/rearm once the cause is gone' if self.latch.reason else ''
            text = motion_state_text(state, reason)
            raise ExecutionError(f'motion refused: the planner is {text}{advice}')
        if self.status.is_in_freedrive:
            raise ExecutionError('motion refused: the arm is in freedrive')
        if fault := self.fault() or self.controller.why_unavailable:
            raise ExecutionError(f'motion refused: {fault}')
        age = self.status.age(self.clock())
        if age > self.health.joint_state_timeout:
            raise ExecutionError(
                f'motion refused: the latest joint_states are {age:.2f} s old (limit '
                f'joint_state_timeout = {self.health.joint_state_timeout} s); check the driver '
                'and the link to it'
            )

    def admit(
        self,
        trajectory: Trajectory,
        is_wanted: IsWanted,
        prepare: Callable[[GateReport], T],
        begin: Callable[[T], object],
    ) -> bool:
        """
        Check a motion with the gate and begin it; one motion at a time.

        Parameters
        ----------
        is_wanted : callable
            Returns whether the motion is still requested; called when it has passed the gate.
        prepare : callable
            Takes the gate's report and returns what `begin` needs; may take long.
        begin : callable
            Takes that and sends the motion; called with `lock` held, so it must be quick.

        Returns
        -------
        bool
            Whether the scene changed during the check, so that the path must be checked again.

        Raises
        ------
        GateRefusal, ExecutionError
            The motion does not begin; gives the reason.

        """
        with self._gating:
            self.check()
            scene = self.planner.scene
            # Outside the lock: the gate takes about 50 ms, in which joint_states must be read.
            q = self.status.q
            assert q is not None  # it is ready
            prepared = prepare(self.reduced.check(trajectory, q))
            with self.lock:
                self.check(is_wanted)
                self.latch.stop_holding()
                begin(prepared)
            return self.planner.scene is not scene
