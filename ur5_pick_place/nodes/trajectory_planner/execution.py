# SPDX-License-Identifier: Apache-2.0
"""Runs a motion for the goal of an action, and sets MoveIt's code and the goal's status."""

from collections.abc import Callable
from typing import Any

from builtin_interfaces.msg import Time
from moveit_msgs.msg import MoveItErrorCodes
from rclpy.task import Future

from ur5_pick_place.control.execution_manager import IsWanted
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.nodes.driver.trajectory_client import TrajectoryClient
from ur5_pick_place.nodes.messages.conversions import code_with_message, success, to_seconds
from ur5_pick_place.nodes.messages.refusals import refusal
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.outcome import Outcome

_CANCELED = 'canceled by the client'
STOP_EVENT = 'stop on trajectory_execution_event'
# States in the feedback of MoveIt's actions.
PLANNING, MONITOR, IDLE = 'PLANNING', 'MONITOR', 'IDLE'
_AT_ONCE = 1.0  # [s] by which a client's clock may be ahead of ours


class Execution:
    """
    Runs motions for goals.

    Parameters
    ----------
    node : Node
        For its log.

    """

    def __init__(self, client: TrajectoryClient, node: SerialNode) -> None:
        self._client, self._node = client, node
        # Number of interruptions before each waiting goal.
        self._interruptions: dict[bytes, int] = {}
        self._current: Any = None  # the goal whose motion is under way
        self._canceled: set[bytes] = set()  # goals, until they end

    def accept(self, goal: Any) -> None:
        """Execute a goal, unless a stop comes before its turn; a handle_accepted callback."""
        self._interruptions[_id(goal)] = self._client.manager.interruptions
        goal.execute()

    def cancel(self, goal: Any) -> None:
        """Brake if this goal moves the arm; otherwise keep it from ever doing so."""
        self._canceled.add(_id(goal))
        if self._current is goal:
            self._client.manager.stop(_CANCELED, latch=False)

    def forget(self, goal: Any) -> None:
        """Drop what is kept of a goal that has ended."""
        self._canceled.discard(_id(goal))

    def is_wanted(self, goal: Any) -> IsWanted:
        """Return a check that neither the goal nor the arm was stopped since `accept`."""
        manager, name = self._client.manager, _id(goal)
        before = self._interruptions.pop(name, manager.interruptions)
        return lambda: manager.interruptions == before and not (
            goal.is_cancel_requested or name in self._canceled
        )

    async def run(
        self,
        goal: Any,
        begin: 'Callable[[], Future[Outcome]]',
        is_wanted: IsWanted,
        feedback: Callable[..., Any],
    ) -> MoveItErrorCodes:
        """
        Run a motion to its end and set the goal's status.

        Parameters
        ----------
        begin : callable
            Starts the motion and returns the future of its outcome; may raise.
        is_wanted : callable
            As returned by `is_wanted` for this goal.
        feedback : type
            Of the action's feedback, which has a `state`.

        """
        try:
            arrival = await self._node.in_pool(begin)
        except Exception as error:
            if isinstance(error, Ur5PickPlaceError):
                self._node.get_logger().error(f'not executed: {error}')
            self._canceled.discard(_id(goal))
            code = refusal(self._node, error)
            if not is_wanted():
                code = code_with_message(MoveItErrorCodes.PREEMPTED, str(error))
            end_without_success(goal)
            return code
        self._current = goal
        if _id(goal) in self._canceled:  # while it began
            self._client.manager.stop(_CANCELED, latch=False)
        goal.publish_feedback(feedback(state=MONITOR))
        outcome = await arrival
        assert outcome is not None  # the future has it once it is done
        if self._current is goal:
            self._current = None
        self._canceled.discard(_id(goal))
        goal.publish_feedback(feedback(state=IDLE))
        if outcome.ok:
            goal.succeed()
            return success()
        is_preempted = goal.is_cancel_requested or outcome.reason == STOP_EVENT
        end_without_success(goal)
        code = MoveItErrorCodes.PREEMPTED if is_preempted else MoveItErrorCodes.CONTROL_FAILED
        return code_with_message(code, outcome.reason)


def _id(goal: Any) -> bytes:
    return bytes(goal.goal_id.uuid)


def end_without_success(goal: Any) -> None:
    """End a goal without success: canceled if that was requested, else aborted."""
    if goal.is_cancel_requested:
        goal.canceled()
    else:
        goal.abort()


def check_begins_now(stamp: Time, now: Time) -> None:
    """Refuse a trajectory that begins later: the gate checks it against the present joints."""
    ahead = to_seconds(stamp) - to_seconds(now)
    if ahead > _AT_ONCE:
        raise InvalidInput(
            f'trajectory header.stamp is {ahead:.3f} s from now: a motion begins at once, leave '
            'it 0, and send the motion when it is due'
        )
