# SPDX-License-Identifier: Apache-2.0
"""
What is done about an arm that is to stop and does not: the one policy, of both nodes that stop it.

A stop concerns the arm, not only our own goals: it may be moved by an unknown client, or by a goal
whose sender has died.
"""

import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from ur5_pick_place.control.stillness import Stillness

# Steady times [s] since the arm was to stop. A canceled arm comes to rest in 0.15 s, and is
# observed for another 0.15 s before it counts as at rest; until then nothing else is done.
_CANCEL_ALONE = 0.3
# Half a second later holding has had the same time, also if commands were lost, and a planner that
# began its stop late has braked. Without a planner nobody holds, so that there is no such wait.
_DEACTIVATE_AFTER = 0.8
_PERIOD = 0.1  # [s] between repetitions, but for the cancel requests


class StopProgress(Enum):
    """How far a stop of the arm has come, by the measured joints."""

    OVER = 'the arm is at rest without a goal, brakes by itself, or may move'
    UNSEEN = 'no recent joint_states show the arm'
    BRAKING = 'the arm is at rest or slows down'
    MOVING_ON = 'the arm does not slow down, or has moved for longer than any braking takes'


class Controllers(Protocol):
    """The robot's controllers, as far as they are stopped."""

    def cancel(self) -> None:
        """Request the cancellation of every goal, from any client."""

    def stop_other_motion(self, stop_progress: Callable[[], StopProgress]) -> None:
        """
        Deactivate the other controllers that move the arm.

        If none is active, stop the trajectory that our controller follows.

        `stop_progress`: returns how far the stop has come; called when the controller manager has
        answered, which may be late.
        """


class Escalation:
    """
    Stops an arm by ever stronger measures: cancels, hold commands, deactivation of controllers.

    `stillness`: returns that of the arm; None without recent joints. `hold`: commands the arm to
    hold its joints on the topic of our controller; the planner alone does.
    """

    def __init__(
        self,
        controllers: Controllers,
        stillness: Callable[[], Stillness | None],
        hold: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controllers, self._stillness = controllers, stillness
        self._hold, self._clock = hold, clock
        self.begin_again()

    def begin_again(self) -> None:
        """Begin with the weakest measure when `advance` is called next."""
        self._since: float | None = None
        self._next = 0.0

    def advance(self, has_goals: bool, is_moving: bool, has_planner: bool = True) -> bool:
        """
        Do what is due; return False if the arm has stopped. To be called repeatedly.

        `has_goals`: whether a controller has, or may still receive, a goal. `is_moving`: whether
        the arm may be moving, as it may be without recent joints. `has_planner`: whether the
        planner may hold or brake the arm meanwhile.
        """
        if not (has_goals or is_moving):
            self.begin_again()
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        self._controllers.cancel()
        lasts = now - self._since
        if lasts > _CANCEL_ALONE and now >= self._next:
            self._next = now + _PERIOD
            if not has_goals:
                self._hold()
            if lasts > _DEACTIVATE_AFTER or not has_planner:
                self._controllers.stop_other_motion(self._progress)
        return True

    def _progress(self) -> StopProgress:
        if self._since is None:
            return StopProgress.OVER
        stillness = self._stillness()
        if stillness is None:
            return StopProgress.UNSEEN
        moves_on = stillness.moves_on(self._clock() - self._since)
        return StopProgress.MOVING_ON if moves_on else StopProgress.BRAKING
