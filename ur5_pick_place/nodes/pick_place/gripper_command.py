# SPDX-License-Identifier: Apache-2.0
"""
The action `gripper_command`: a position from any client opens or closes the gripper.

A gripper that is an action server itself takes positions in its own unit. All others take metres
per jaw. Both can only open and close, so that what they cannot do is refused: a position between
the two, or beyond them, such as the width of both jaws. The result has what is known.
"""

import math
from functools import partial
from typing import Any

from control_msgs.action import GripperCommand

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.refusals import reason_of
from ur5_pick_place.nodes.pick_place.settings import GripperChoice
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.task.grippers.action import ActionSettings
from ur5_pick_place.task.station import Station

NAME = 'gripper_action_controller/gripper_command'
_LOWEST = -0.001  # [m]; rounding
_NEAR = 0.003  # [m] from the opening, which counts as open


class GripperCommands:
    """
    Offers the action.

    `choice`: what metres per jaw mean.
    """

    def __init__(self, node: SerialNode, station: Station, choice: GripperChoice) -> None:
        self._node, self._station, self._choice = node, station, choice
        self._server = node.create_action_server(GripperCommand, NAME, self._execute)

    async def _execute(self, goal: Any) -> GripperCommand.Result:
        position = goal.request.command.position
        try:
            opens = self._opens(position)
            run, machine = self._station.run, self._station.machine
            steps = run.open() if opens else run.close()
            begin = partial(machine.start, 'gripper', steps, closes=not opens)
            outcome = await self._node.ended(begin)
        except Exception as error:  # whatever it is, the client is told
            outcome = Outcome.failed(reason_of(self._node, error))
        result = self._result(position)
        if not outcome.ok:
            self._node.get_logger().error(f'gripper_command: {outcome.reason}')
            result.reached_goal = False
            goal.abort()
        else:
            goal.succeed()
        return result

    def _opens(self, position: float) -> bool:
        """Return whether a position opens the gripper, else closes it; refuse one that is none."""
        device, choice = self._station.gripper.settings, self._choice
        if not math.isfinite(position):
            raise InvalidInput(f'position = {position}: must be a finite number')
        if isinstance(device, ActionSettings):
            ends, near = (device.open_position, device.close_position), device.position_tolerance
            if not min(ends) - near <= position <= max(ends) + near:
                raise InvalidInput(
                    f'position = {position:g}: must lie between open_position = {ends[0]:g} and '
                    f'close_position = {ends[1]:g}, in the unit of {device.gripper_action}; the '
                    'nearer one is taken'
                )
            return abs(position - ends[0]) < abs(position - ends[1])
        if _LOWEST <= position <= choice.gripper_threshold:
            return False
        if abs(position - choice.gripper_opening) <= _NEAR:
            return True
        raise InvalidInput(
            f'position = {position:g} m: must be {_LOWEST:g} to gripper_threshold = '
            f'{choice.gripper_threshold:g} m, which closes, or within {_NEAR:g} m of '
            f'gripper_opening = {choice.gripper_opening:g} m, which opens, in metres per jaw; if '
            'it is the width of both jaws, send half of it'
        )

    def _result(self, goal: float) -> GripperCommand.Result:
        """Return what is known of the fingers, however they came there."""
        gripper, seen = self._station.gripper, self._station.port.observe()
        position, near, view = math.nan, _NEAR, seen.gripper
        holds, report = gripper.part_signal(seen), view.report
        if isinstance(gripper.settings, ActionSettings):
            near = gripper.settings.position_tolerance
            if view.position is not None:  # the joint: a report may be old, or a mere echo
                position = view.position
            elif report and report.ended:
                position = report.position
            if holds is None and report:
                holds = report.stalled
        elif gripper.is_open(seen):
            position = self._choice.gripper_opening
        elif gripper.is_closed(seen) and holds is False:
            position = 0.0
        return GripperCommand.Result(
            position=position, stalled=bool(holds), reached_goal=abs(position - goal) <= near
        )
