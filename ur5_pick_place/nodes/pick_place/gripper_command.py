# SPDX-License-Identifier: Apache-2.0
"""
The action `gripper_command`: a width from any client opens or closes the gripper.

Most grippers report no width, so that a result repeats the position of its goal. A position may
exceed what these jaws open: clients of larger grippers may send more, or the whole width of both
jaws. What cannot be the width of any gripper is refused.

"""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from control_msgs.action import GripperCommand
from rclpy.action import ActionServer
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.refusals import reason_of
from ur5_pick_place.nodes.ros.steady_expiry import steady_expiry
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.task.job import Steps
from ur5_pick_place.task.run import CycleRun

NAME = 'gripper_action_controller/gripper_command'
_LOWEST, _HIGHEST = -0.001, 1.0  # [m]; rounding, and wider than any gripper of such an arm


class GripperCommands:
    """
    Offers the action.

    Parameters
    ----------
    node : Node
    run : CycleRun
        Opens and closes the gripper.
    threshold : float
        Position above which a command means open [m].
    job : callable
        Runs steps as the job of a name; returns how it ended.
    group : CallbackGroup

    """

    def __init__(
        self,
        node: Node,
        run: CycleRun,
        threshold: float,
        job: Callable[[str, Steps[None]], Awaitable[Outcome]],
        group: CallbackGroup,
    ) -> None:
        self._node = node
        self._run, self._threshold, self._job = run, threshold, job
        self._server: ActionServer[Any, Any, Any] = ActionServer(
            steady_expiry(node), GripperCommand, NAME, self._execute, callback_group=group
        )

    async def _execute(self, goal: Any) -> GripperCommand.Result:
        position = goal.request.command.position
        result = GripperCommand.Result(position=position)
        try:
            outcome = await self._job('gripper', self._steps(position))
        except Exception as error:  # whatever it is, the client is told
            outcome = Outcome.failed(reason_of(self._node, error))
        if not outcome.ok:
            self._node.get_logger().error(f'gripper_command: {outcome.reason}')
            goal.abort()
        else:
            result.reached_goal, result.stalled = True, self._run.is_carrying
            goal.succeed()
        return result

    def _steps(self, position: float) -> Steps[None]:
        if not math.isfinite(position):
            raise InvalidInput(f'position = {position} m: must be a finite number')
        if not _LOWEST <= position <= _HIGHEST:
            raise InvalidInput(
                f'position = {position:g} m: must be {_LOWEST:g} to {_HIGHEST:g} m per jaw; above '
                f'gripper_threshold = {self._threshold:g} m it opens, else it closes'
            )
        is_open = position > self._threshold
        return self._run.open() if is_open else self._run.close()
