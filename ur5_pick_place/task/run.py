# SPDX-License-Identifier: Apache-2.0
"""The steps of a cycle and of the way home, for a `Job`."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.planning.planner import PlannedMotion
from ur5_pick_place.task.gripper import Gripper
from ur5_pick_place.task.job import Move, Observation, SetPayload, perform
from ur5_pick_place.task.plan import CyclePlan, CyclePlanner, PlannedStage, TaskSettings

Emit = Callable[..., Any]
_PAYLOAD_TIMEOUT = 5.0  # [s]; the driver waits for the robot to report the payload back


class CycleRun:
    """
    Runs a planned cycle; may be paused between and within motions.

    Parameters
    ----------
    planner : CyclePlanner
        Plans the rest of a motion anew after a pause.
    gripper : Gripper
    settings : TaskSettings
    tool_payload : tuple
        Mass [kg] and centre of gravity in tool0 [m] of the empty tool.
    emit : callable
        Takes an event's name and its data.

    """

    def __init__(
        self,
        planner: CyclePlanner,
        gripper: Gripper,
        settings: TaskSettings,
        tool_payload: tuple[float, tuple[float, float, float]],
        emit: Emit,
    ) -> None:
        self._planner, self._gripper, self._settings = planner, gripper, settings
        self._tool_payload, self._emit = tool_payload, emit
        self._is_carrying = False
        self.is_paused = False
        """Set and cleared by the owner, who also cancels the motion under way."""
        self.stage = ''

    def cycle(self, plan: CyclePlan) -> Generator:
        """Do every stage of `plan`."""
        for planned in plan.stages:
            if self.is_paused:
                yield from self._resumed()
            self.stage = planned.stage.name
            self._emit('stage', stage=self.stage, remark=planned.remark)
            yield from self._do(planned)
        self._emit('cycle_done')

    def home(self, motions: tuple[PlannedMotion, ...]) -> Generator:
        """Follow a way home; the gripper stays as it is."""
        self.stage = 'home'
        for motion in motions:
            yield from perform(Move(motion.trajectory))

    def confirm_payload(self) -> Generator:
        """Tell the robot the weight of the empty tool, and be told that it knows."""
        yield from perform(SetPayload(*self._payload(False)), _PAYLOAD_TIMEOUT)

    def _do(self, planned: PlannedStage) -> Generator:
        do = planned.stage.do
        if planned.motion:
            yield from self._move(planned)
        elif do.startswith('payload_'):
            yield from perform(SetPayload(*self._payload(do == 'payload_part')), _PAYLOAD_TIMEOUT)
        elif do == 'expect_part':
            yield from self._gripper.expect_part()
            self._is_carrying = True
            self._emit_grip((yield None))
        else:
            # From here the part may leave the hand.
            self._is_carrying = self._is_carrying and do != 'open'
            yield from getattr(self._gripper, do)()

    def _emit_grip(self, seen: Observation) -> None:
        verified = self._gripper.holds_part(seen)
        self._emit('grasp_unverified' if verified is None else 'grasp_verified')

    def _move(self, planned: PlannedStage) -> Generator:
        motion = planned.motion
        while True:
            seen = yield Move(motion.trajectory)
            while seen.reply is None:
                self._check_carried(seen)
                seen = yield None
            if not seen.reply:
                return
            if not self.is_paused:
                raise ExecutionError(seen.reply)
            seen = yield from self._resumed()
            motion = self._planner.again(planned, seen.q)

    def _resumed(self) -> Generator:
        self._emit('paused', stage=self.stage)
        seen = yield None
        while self.is_paused:
            self._check_carried(seen)
            seen = yield None
        self._emit('resumed', stage=self.stage)
        return seen

    def _check_carried(self, seen: Observation) -> None:
        if self._is_carrying and self._gripper.holds_part(seen) is False:
            raise ExecutionError(
                f'the part was lost at stage {self.stage!r}: the part-present input went off; '
                'find the part, then ~/rearm'
            )

    def _payload(self, with_part: bool) -> tuple[float, tuple[float, float, float]]:
        mass, centre = self._tool_payload
        if not with_part:
            return mass, centre
        T = self._planner.planner.scene.tool.T_tool_tcp
        part = T[:3, :3] @ np.array(self._settings.part_centre) + T[:3, 3]
        total = mass + self._settings.part_mass
        joint = (mass * np.array(centre) + self._settings.part_mass * part) / max(total, 1e-9)
        return total, (float(joint[0]), float(joint[1]), float(joint[2]))
