# SPDX-License-Identifier: Apache-2.0
"""The steps of a cycle and of the motion home, for a `Job`."""

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from ur5_pick_place.errors import ExecutionError, MissedGrasp
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.inertias import Load, boxes_load, joined
from ur5_pick_place.planning.planner import PlannedMotion
from ur5_pick_place.planning.scene import Box
from ur5_pick_place.task import events
from ur5_pick_place.task.gripper import ANSWER_TIMEOUT, Gripper
from ur5_pick_place.task.job import (
    Carry,
    Compute,
    Observation,
    RunMotion,
    SetPayload,
    Steps,
    perform,
)
from ur5_pick_place.task.motions import PlannedStage, TaskSettings, touches
from ur5_pick_place.task.plan import CyclePlan, CyclePlanner

Emit = Callable[..., Any]
SLIDER_WAIT = 'the speed slider is at 0: raise it on the pendant or with set_speed_slider'
_SAMPLE_STEP = 0.02  # [s]
_LOOKAHEAD = 50  # samples ahead that are searched


class CycleRun:
    """
    Runs a planned cycle; may be paused between and within motions.

    Parameters
    ----------
    planner : CyclePlanner
        Replans the rest of a motion after a pause.
    gripper : Gripper
    settings : TaskSettings
    tool_payload : tuple
        Mass [kg] and centre of gravity in tool0 [m] of the empty tool.
    emit : callable
        Takes the name of an event of `events` and its fields.

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
        self._part = settings.part_load(planner.planner.scene.tool.T_tool_tcp)
        self._signal = gripper.signal()
        self.is_carrying = False
        """Whether a part was gripped and not released since."""
        self.is_paused = False
        """Whether a pause was requested and has not been ended."""
        self._pauses = 0
        self.placed_parts: tuple[Box, ...] = ()
        """Parts at other cells, as planned for the latest cycle that began."""
        self.stage = ''
        self.waits_for = ''
        """Why a motion waits without a fault; empty if it does not."""
        self._place = ''
        self._open_at = 0.0  # [s] when the fingers that are opening will be open; 0 = none are
        self._check: Steps[None] | None = None  # check during a motion that the gripper is empty
        self._payload_ahead: bool | None = None  # set, with or without part, before its stage

    def cycle(self, plan: CyclePlan) -> Steps[None]:
        """Run every stage of every cycle of `plan`."""
        cycles = zip(plan.cycles, plan.placed_parts, strict=True)
        for number, (stages, placed_parts) in enumerate(cycles, 1):
            self.placed_parts = placed_parts
            self._place, self._check, self._payload_ahead = '', None, None
            for i, planned in enumerate(stages):
                if self.is_paused:
                    yield from self._resumed()
                self._enter(planned, 0)
                yield from self._do(planned, _payload_before_move(stages[i + 1 :]))
            self._emit(events.CYCLE_DONE, number=number, of=len(plan.cycles))

    def home(self, motions: tuple[PlannedMotion, ...]) -> Steps[None]:
        """Follow the motions home; the gripper stays as it is."""
        yield from perform(Carry(self._part if self.is_carrying else None))
        self.stage = 'home'
        for motion in motions:
            yield from self._move(PlannedStage((), motion))

    def close(self) -> Steps[None]:
        """Close the gripper, outside a cycle; if it then holds a part, the part is carried."""
        yield from self._gripper.close()
        seen = yield None
        if self._gripper.holds_part(seen):
            self.look(seen)
            yield from perform(Carry(self._part))

    def open(self, payload: bool | None = None) -> Steps[None]:
        """
        Open the gripper; a part in it falls.

        Parameters
        ----------
        payload : bool, optional
            Whether the payload that is set meanwhile includes the part; None = it is not set.

        """
        was_carrying, self.is_carrying = self.is_carrying, False  # from here the part may fall
        yield from self._gripper.begin_opening(was_carrying)
        yield from perform(Carry(None))
        yield from self._await_fingers(payload)

    def look(self, seen: Observation) -> None:
        """Update whether a part is held, such as after a restart in the middle of a cycle."""
        is_held = self._gripper.holds_part(seen)
        if self.is_holding_part(seen) and not self.is_carrying:
            self.is_carrying, self._signal = True, self._gripper.signal()
            self._emit(events.PART_IN_HAND)
        elif is_held is False and self.is_carrying:  # it fell, as when the tool lost power
            self.is_carrying = False
            self._emit(events.PART_LOST, stage=self.stage)

    def is_holding_part(self, seen: Observation) -> bool:
        """Return whether the gripper is closed on a part, by this node or another client."""
        return bool(self._gripper.holds_part(seen)) and self._gripper.is_closed(seen)

    @property
    def part(self) -> Load:
        """The part as a load in tool0."""
        return self._part

    def loss(self, seen: Observation) -> str:
        """
        Return an addition to the reason of a stop if the part has just been lost; else ''.

        The arm may have hit the part: the robot then stops before the input is stable.

        """
        if not self.is_carrying or self._gripper.holds_part(seen) is not False:
            return ''
        self.is_carrying = False
        return f'; {self._lost}'

    def confirm_payload(self) -> Steps[None]:
        """Set the payload of the empty tool and wait for the robot to confirm it."""
        yield from perform(self._payload(with_part=False), ANSWER_TIMEOUT)

    def pause(self) -> None:
        """Hold the run; the caller also cancels the present motion."""
        self.is_paused = True
        self._pauses += 1

    def resume(self) -> None:
        """Continue, as soon as the arm is at rest."""
        self.is_paused = False

    def _enter(self, planned: PlannedStage, i: int) -> None:
        self.stage = planned.stages[i].name
        self._emit(events.STAGE, stage=self.stage, remark=planned.remark)

    def _do(self, planned: PlannedStage, payload: bool | None) -> Steps[None]:
        do = planned.stages[0].do
        if planned.motion:
            yield from self._open_enough(planned)
            yield from self._move(planned)
            self._place = planned.stages[-1].to
        elif do.startswith('payload_'):
            with_part = do == 'payload_part'
            if self._payload_ahead is with_part:
                yield None  # one tick, so that the stage is seen, and can be paused in
            else:
                yield from perform(self._payload(with_part), ANSWER_TIMEOUT)
            self._payload_ahead = None
        elif do == 'close':
            yield from self._close(payload)
        elif do == 'open' and touches(self._place):
            yield from self.open(payload)
        elif do == 'open':
            yield from self._open_on_the_way()
        elif do == 'expect_part':
            yield from self._expect_part(planned, payload)
        else:
            yield from self._expect_no_part()

    def _close(self, payload: bool | None) -> Steps[None]:
        yield from self._gripper.begin_closing()
        yield from perform(Carry(self._part))
        yield from self._await_fingers(payload)

    def _await_fingers(self, payload: bool | None) -> Steps[None]:
        """
        Wait for the fingers, and set the payload meanwhile.

        That is early enough: the table carries the part until the arm lifts it.

        """
        command = None if payload is None else self._payload(payload)
        was_issued = yield from self._gripper.await_fingers(command)
        self._payload_ahead = payload if was_issued else None

    def _open_on_the_way(self) -> Steps[None]:
        """Open while the arm moves, if the gripper is not open."""
        self.is_carrying = False
        if not self._gripper.is_open((yield None)):
            yield from self._gripper.begin_opening()
            self._open_at = self._gripper.fingers_end
        yield from perform(Carry(None))

    def _open_enough(self, planned: PlannedStage) -> Steps[None]:
        """Wait until the fingers will be open when the arm comes near a part."""
        if not self._open_at:
            return
        ends = [*planned.passes, planned.moved.trajectory.duration]
        near = [touches(stage.to) for stage in planned.stages]
        free = ([0.0, *ends])[near.index(True) if True in near else -1]
        while (yield None).t < self._open_at - free:
            pass
        if True in near:
            self._open_at = 0.0

    def _expect_no_part(self) -> Steps[None]:
        """Check that no part is held; during the next motion if the open gripper shows none."""
        seen = yield None
        is_away = not touches(self._place)
        if is_away and self._gripper.is_open(seen) and self._gripper.holds_part(seen) is False:
            self._check = self._gripper.stays_empty()
            next(self._check)
        else:
            yield from self._gripper.expect_no_part()

    def _go_on_checking(self, seen: Observation) -> None:
        if self._check:
            try:
                self._check.send(seen)
            except StopIteration:
                self._check = None

    def _expect_part(self, planned: PlannedStage, payload: bool | None) -> Steps[None]:
        tries = self._settings.grasp_retries if planned.retry else 0
        while True:
            try:
                yield from self._gripper.expect_part()
                break
            except MissedGrasp as missed:
                ahead = None if self._payload_ahead is None else False
                if not tries:
                    if ahead is False:
                        yield from perform(self._payload(with_part=False), ANSWER_TIMEOUT)
                    raise
                tries -= 1
                self._emit(events.GRASP_MISSED, reason=str(missed), tries_left=tries)
            yield from self.open(ahead)
            for motion in planned.retry:
                yield from self._move(PlannedStage(planned.stages, motion))
            yield from self._close(payload)
        self.is_carrying, self._signal = True, self._gripper.signal()
        verified = self._gripper.holds_part((yield None))
        self._emit(events.GRASP_UNVERIFIED if verified is None else events.GRASP_VERIFIED)

    def _move(self, planned: PlannedStage) -> Steps[None]:
        motion, tracker, i = planned.moved, _StageTracker(planned), 0
        while True:
            if self.is_paused:  # since the stage began, or while the rest was planned
                yield from self._resumed()
            pauses = self._pauses
            seen = yield RunMotion(motion.trajectory, planned.method)
            while seen.reply is None:
                self._check_carried(seen)
                self._go_on_checking(seen)
                self._report_wait(seen)
                if tracker.stage_at(seen.q) > i:
                    i += 1
                    self._enter(planned, i)
                seen = yield None
            if not seen.reply:
                while self._check:
                    self._go_on_checking((yield None))
                for passed in range(i + 1, len(planned.stages)):
                    self._enter(planned, passed)
                return
            # A pause that ended before the arm was at rest has canceled the motion too.
            if pauses == self._pauses:
                raise ExecutionError(seen.reply)
            seen = yield from self._resumed()
            motion = yield from self._rest_of(planned, seen.q)

    def _rest_of(self, planned: PlannedStage, q: Array) -> Steps[PlannedMotion]:
        """Return the rest of a motion from joints (6,) [rad]; planning takes more than a tick."""
        found: list[PlannedMotion] = []

        def plan() -> None:
            found.append(
                self._planner.replan_rest(planned, q, self.is_carrying, self.placed_parts)
            )

        yield from perform(Compute(plan))
        return found[0]

    def _resumed(self) -> Steps[Observation]:
        self._emit(events.PAUSED, stage=self.stage)
        seen = yield None
        while self.is_paused or not seen.is_at_rest:
            self._check_carried(seen)
            seen = yield None
        self._emit(events.RESUMED, stage=self.stage)
        return seen

    def _report_wait(self, seen: Observation) -> None:
        wait = SLIDER_WAIT if seen.speed_scaling == 0.0 else ''
        if wait and not self.waits_for:
            self._emit(events.WAITING, stage=self.stage, reason=wait)
        self.waits_for = wait

    def _check_carried(self, seen: Observation) -> None:
        if not self.is_carrying:
            return
        if self._signal.update(seen.t, self._gripper.holds_part(seen)) is False:
            self.is_carrying = False
            raise ExecutionError(self._lost)

    @property
    def _lost(self) -> str:
        return (
            f'the part was lost at stage {self.stage!r}: the part-present input went off; find '
            'the part, then call ~/rearm'
        )

    def _payload(self, with_part: bool) -> SetPayload:
        """Return the payload: masses and centres as configured, inertia from the scene's boxes."""
        scene = self._planner.planner.scene
        mass, centre = self._tool_payload
        load = boxes_load(
            mass, np.array(centre), [(s.T_tool_box, s.size) for s in scene.tool.shapes]
        )
        if with_part:
            part = scene.part
            boxes = [(scene.tool.T_tool_tcp @ part.T_tcp_part, part.size)] if part else []
            load = joined([load, boxes_load(self._part.mass, self._part.centre, boxes)])
        x, y, z = map(float, load.centre)
        xx, yy, zz, xy, xz, yz = map(float, load.inertia[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)])
        return SetPayload(load.mass, (x, y, z), (xx, yy, zz, xy, xz, yz))


def _payload_before_move(stages: Sequence[PlannedStage]) -> bool | None:
    """Return whether the payload set before the next move has the part; None = none is set."""
    for planned in takewhile(lambda planned: not planned.motion, stages):
        if planned.stages[0].do.startswith('payload_'):
            return planned.stages[0].do == 'payload_part'
    return None


class _StageTracker:
    """Finds which move of a blended motion the arm follows, from its joints alone."""

    def __init__(self, planned: PlannedStage) -> None:
        trajectory = planned.moved.trajectory
        self._passes = planned.passes
        self._t = np.arange(0.0, trajectory.duration + _SAMPLE_STEP, _SAMPLE_STEP)
        self._q = trajectory.sample(self._t)[0]
        self._i = 0

    def stage_at(self, q: Array) -> int:
        """Return the index of the move at joints (6,) [rad]; calls must follow the motion."""
        ahead = self._q[self._i : self._i + _LOOKAHEAD]
        self._i += int(np.abs(ahead - q).max(axis=1).argmin())
        return bisect(self._passes, self._t[self._i])
