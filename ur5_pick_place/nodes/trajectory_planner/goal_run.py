# SPDX-License-Identifier: Apache-2.0
"""The goals of an action that moves the arm: from acceptance to MoveIt's code and status."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from moveit_msgs.msg import MoveItErrorCodes
from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.nodes.messages.conversions import code_with_message, success
from ur5_pick_place.nodes.messages.refusals import refusal
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.outcome import OnOutcome, Outcome

_CANCELED = 'canceled by the client'
STOP_EVENT = 'stop on trajectory_execution_event'
# States in the feedback of MoveIt's actions.
PLANNING, MONITOR, IDLE = 'PLANNING', 'MONITOR', 'IDLE'


class GoalRun:
    """
    A goal from its acceptance on.

    - `goal`: as rclpy hands it over
    """

    def __init__(self, node: SerialNode, manager: ExecutionManager, goal: Any) -> None:
        self._node, self._manager, self.goal = node, manager, goal
        self._interruptions = manager.interruptions
        self._is_canceled = self._is_moving = False

    def is_wanted(self) -> bool:
        """Return whether neither the goal nor the arm was stopped since the acceptance."""
        is_canceled = self.goal.is_cancel_requested or self._is_canceled
        return self._manager.interruptions == self._interruptions and not is_canceled

    def cancel(self) -> None:
        """Brake if this goal moves the arm; otherwise keep it from ever doing so."""
        self._is_canceled = True  # rclpy marks the goal only after this callback
        if self._is_moving:
            self._manager.stop(_CANCELED, latch=False)

    def end_without_success(self) -> None:
        """End the goal without success: canceled if that was requested, else aborted."""
        if self.goal.is_cancel_requested:
            self.goal.canceled()
        else:
            self.goal.abort()

    async def move(
        self, start: Callable[[OnOutcome], None], feedback: Callable[..., Any]
    ) -> MoveItErrorCodes:
        """
        Run a motion to its end and set the goal's status.

        `start`: starts the motion, or raises; takes what takes its outcome. `feedback`: the type
        of the action's feedback, which has a `state`.
        """
        ended: Future[Outcome] = Future()
        try:
            await self._node.in_pool(start, partial(self._node.finish, ended))
        except Exception as error:
            if isinstance(error, Ur5PickPlaceError):
                self._node.get_logger().error(f'not executed: {error}')
            code = refusal(self._node, error)
            if not self.is_wanted():
                code = code_with_message(MoveItErrorCodes.PREEMPTED, str(error))
            self.end_without_success()
            return code
        self._is_moving = True
        if self._is_canceled:  # while it began
            self._manager.stop(_CANCELED, latch=False)
        self.goal.publish_feedback(feedback(state=MONITOR))
        outcome = await ended
        assert outcome is not None  # the future has it once it is done
        self._is_moving = False
        self.goal.publish_feedback(feedback(state=IDLE))
        if outcome.ok:
            self.goal.succeed()
            return success()
        is_preempted = self.goal.is_cancel_requested or outcome.reason == STOP_EVENT
        self.end_without_success()
        code = MoveItErrorCodes.PREEMPTED if is_preempted else MoveItErrorCodes.CONTROL_FAILED
        return code_with_message(code, outcome.reason)


def serve_goals(
    node: SerialNode,
    manager: ExecutionManager,
    kind: type,
    name: str,
    execute: Callable[[GoalRun], Awaitable[Any]],
) -> 'ActionServer[Any, Any, Any]':
    """Return the server of an action; `execute` returns the result of a goal."""
    runs: dict[bytes, GoalRun] = {}

    def accept(goal: Any) -> None:
        runs[bytes(goal.goal_id.uuid)] = GoalRun(node, manager, goal)
        goal.execute()

    async def run(goal: Any) -> Any:
        name = bytes(goal.goal_id.uuid)
        try:
            return await execute(runs[name])
        finally:
            del runs[name]

    def cancel(goal: Any) -> CancelResponse:
        if known := runs.get(bytes(goal.goal_id.uuid)):
            known.cancel()
        return CancelResponse.ACCEPT

    return node.create_action_server(
        kind, name, run, handle_accepted_callback=accept, cancel_callback=cancel
    )
