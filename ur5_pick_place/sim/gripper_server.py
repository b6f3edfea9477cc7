# SPDX-License-Identifier: Apache-2.0
"""
The action server of the simulated fingers, as a Robotiq's node offers it; without ROS.

Positions are the angle of the knuckle [rad], 0 open and 0.8 closed. As with `allow_stalling`, a
goal that ends on a part succeeds, stalled. A new goal replaces the one that runs.
"""

import math
from dataclasses import dataclass
from enum import Enum

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.grippers import GRIPPER_COMMAND
from ur5_pick_place.sim.physics.hand import FINGER_TRAVEL, OPEN_GAP, Fingers

CLOSED = 0.8
"""Angle of the knuckle with closed fingers [rad]."""
JOINT = 'robotiq_85_left_knuckle_joint'
_TOLERANCE = 0.01  # [rad]
_STALL_TIME = 0.25  # [s] without motion
_STALL_STEP = 0.002  # [rad] that counts as motion


class GripperFault(Enum):
    """What may be wrong with the server."""

    GONE = "the gripper's action server is missing"
    SILENT = "the gripper's goals are not answered"
    REJECTS = "the gripper's goals are rejected"
    ABORTS = "the gripper's goals are aborted"
    NEVER_ENDS = "the gripper's goals do not end"
    NAN = 'the gripper reports NaN as its position'
    WRONG_OBJECT = (
        'the gripper reports an object where there is none, and none where there is one'
    )
    JOINT_SILENT = "the gripper's joint is not on joint_states"


@dataclass
class GripperGoal:
    """A goal and its end: `ended` is '' while it runs."""

    position: float
    ended: str = ''
    final: float = 0.0
    stalled: bool = False
    reached_goal: bool = False


class GripperServer:
    """Moves the fingers by goals; `kind` is the type of the action that nodes offer."""

    def __init__(self, fingers: Fingers, kind: str = GRIPPER_COMMAND) -> None:
        self._fingers, self.kind = fingers, kind
        self._goal: GripperGoal | None = None
        self._moved = 0.0, 0.0  # position [rad] and time [s] of the latest motion
        self._now = 0.0
        self.faults: set[GripperFault] = set()

    @property
    def is_moving(self) -> bool:
        """Whether a goal runs."""
        return self._goal is not None

    @property
    def true_position(self) -> float:
        """Angle of the knuckle [rad], as its joint shows it."""
        return (OPEN_GAP - self._fingers.gap) / (2 * FINGER_TRAVEL) * CLOSED

    @property
    def position(self) -> float:
        """The angle as the server reports it [rad]."""
        return math.nan if GripperFault.NAN in self.faults else self.true_position

    def check(self, position: float) -> None:
        """Raise `InvalidInput` for a goal that is rejected."""
        if GripperFault.REJECTS in self.faults or not math.isfinite(position):
            raise InvalidInput(f'position {position}: rejected')

    def start(self, position: float) -> GripperGoal:
        """Begin to move to `position` [rad]; the goal that runs is aborted."""
        if self._goal is not None:
            self._end(self._goal, 'aborted')
        self._goal = GripperGoal(position)
        self._moved = self.true_position, self._now
        return self._goal

    def cancel(self, goal: GripperGoal) -> None:
        """Hold the fingers where they are."""
        if goal is self._goal:
            self._fingers.move_to(self._fingers.gap)
            self._end(goal, 'canceled')

    def update(self, now: float, powered: bool) -> None:
        """Run one cycle, at `now` [s]."""
        self._now = now
        goal, at = self._goal, self.true_position
        if goal is None:
            return
        if GripperFault.ABORTS in self.faults or not powered:
            self._end(goal, 'aborted')
            return
        share = min(max(goal.position / CLOSED, 0.0), 1.0)
        self._fingers.move_to(OPEN_GAP - 2 * FINGER_TRAVEL * share)
        if abs(at - self._moved[0]) > _STALL_STEP:
            self._moved = at, now
        if GripperFault.NEVER_ENDS in self.faults:
            return
        if abs(at - goal.position) <= _TOLERANCE:
            self._end(goal, 'succeeded', is_stalled=GripperFault.WRONG_OBJECT in self.faults)
        elif now - self._moved[1] >= _STALL_TIME:
            self._end(goal, 'succeeded', is_stalled=GripperFault.WRONG_OBJECT not in self.faults)

    def _end(self, goal: GripperGoal, how: str, is_stalled: bool = False) -> None:
        goal.ended, goal.final = how, self.position
        if how == 'succeeded':
            goal.stalled, goal.reached_goal = is_stalled, not is_stalled
            if GripperFault.WRONG_OBJECT in self.faults and goal.reached_goal:
                goal.final = goal.position
        self._goal = None
