# SPDX-License-Identifier: Apache-2.0
"""The steps of a cycle and of the motion home, for a `Job`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ur5_pick_place.errors import ExecutionError, MissedGrasp
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.planner import PlannedMotion
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.pattern import PatternProgress
from ur5_pick_place.task.cycle.stages import SET_OUTPUT, WAITS, Stage, Wait
from ur5_pick_place.task.cycle.steps import Step
from ur5_pick_place.task.grippers.base import NO_FEEDBACK, Gripper
from ur5_pick_place.task.grippers.signals import Stable
from ur5_pick_place.task.job import (
    OBSERVE_NOW,
    Carry,
    Compute,
    Observation,
    RunMotion,
    Steps,
    both,
    perform,
    watched,
)
from ur5_pick_place.task.motions import PlannedStage, StageTracker
from ur5_pick_place.task.payload import RobotPayload
from ur5_pick_place.task.places.names import HOME
from ur5_pick_place.task.plan import CyclePlan, CyclePlanner

Emit = Callable[..., Any]
SLIDER_WAIT = 'the speed slider is at 0: raise it on the pendant or with set_speed_slider'
_REPLAN_TIME = 120.0  # [s]
_MOVED_AWAY = 0.01  # [rad] from where the last motion ended; a settling arm moves a fifth of that


@dataclass(eq=False)
class CycleRun:
    """Runs a planned cycle; may be paused between and within motions."""

    planner: CyclePlanner  # plans the remaining motion after a pause
    gripper: Gripper
    # mass [kg] and centre of gravity in tool0 [m] of the empty tool
    tool_payload: tuple[float, tuple[float, float, float]]
    emit: Emit  # takes the name of an event of `events` and its fields
    is_carrying: bool = False  # whether a part was gripped and not released since
    is_paused: bool = False  # whether a pause was requested and has not been ended
    # parts at other places, as planned for the latest stage that began
    placed_parts: tuple[Box, ...] = ()
    stage: str = ''  # of the job; empty if it has none
    waits_for: str = ''  # what the cycle waits for without a fault; empty if it does not
    _pauses: int = 0
    _is_opening: bool = False  # the gripper opens during the move to a part
    _was_open: bool = False  # whether it was seen open since it was commanded last
    _empty_check: Steps[None] | None = None  # that the gripper is empty, to be done
    _q_end: Array | None = None  # where the last motion ended, until the next begins
    _number: int = 0  # of the cycle

    def __post_init__(self) -> None:
        planner = self.planner.planner
        self._as_given = self.part = self.planner.settings.part_load(planner.scene)
        """The part as a load in tool0, as it is gripped in the present stage."""
        self.payload = RobotPayload(lambda: planner.scene, self.tool_payload, lambda: self.part)
        self._signal, self._is_shut = self.gripper.signal(), Stable()
        self.progress = PatternProgress()

    @property
    def held(self) -> Load | None:
        """The part in the gripper; None if there is none."""
        return self.part if self.is_carrying else None

    def cycle(self, plan: CyclePlan) -> Steps[None]:
        """Run every stage of every cycle of `plan`."""
        self._is_opening = self._was_open = False
        self._q_end = plan.q_start
        self.progress.begin(plan.first)
        of = plan.first + len(plan.cycles)
        if self.payload.may_have_part and not self.is_carrying:  # as a part was lost
            yield from self.confirm_payload()
        for self._number, stages in enumerate(plan.cycles, plan.first + 1):
            self._empty_check = self.payload.confirmed_early = None
            for planned in stages:
                yield from self._while_paused()
                self.placed_parts, self.part = planned.placed_parts, planned.part or self.part
                self._enter(planned, 0)
                if planned.motion:
                    yield from self._wait_for_open_fingers(planned)
                    yield from both(self._move(planned), self._check_empty())
                else:
                    yield from watched(self._do_action(planned), self._check_in_place)
            self.progress.begin(self._number)
            self.emit(events.CYCLE_DONE, number=self._number, of=of)
        self.part = self._as_given
        self.progress.begin()

    def home(self, motions: tuple[PlannedMotion, ...]) -> Steps[None]:
        """Follow the motions home; the gripper stays as it is."""
        self._empty_check = None  # of a run that was stopped
        yield from self._settle_part()
        yield from perform(Carry(self.held))
        if self._required_payload is not self.payload.confirmed:
            yield from self.confirm_payload()
        self.stage = HOME
        for motion in motions:
            yield from self._move(PlannedStage((), motion))

    def close(self) -> Steps[None]:
        """Close the gripper, outside a cycle; if it then holds a part, the part is carried."""
        if not self.is_carrying:
            self.part = self._as_given
        yield from self.gripper.close()
        seen = yield None
        if self.gripper.counts_as_holding(seen):
            self.update_part(seen)
            yield from perform(Carry(self.part))

    def open(self, payload: bool | None = None) -> Steps[None]:
        """
        Open the gripper; a part in it falls.

        `payload`: payload to set while the gripper opens: True = with the part, False = without
        it; None = remove the part from it if it may be included, else leave it unchanged.
        """
        if payload is None and self.payload.may_have_part:
            payload = False
        was_carrying, falls_at_once = self.is_carrying, self.gripper.releases_at_once
        self.is_carrying = was_carrying and not falls_at_once  # from here the part may fall
        try:
            yield from self.gripper.begin_opening(was_carrying)
        except BaseException:  # a stop included
            self.is_carrying = was_carrying  # nothing shows that it fell
            raise
        if falls_at_once:
            yield from perform(Carry(None))
        yield from self.payload.set_during(self.gripper, payload)
        if not falls_at_once:
            self.is_carrying = False
            yield from perform(Carry(None))

    def update_part(self, seen: Observation, is_settled: bool = True) -> None:
        """
        Update whether a part is held, such as after a restart in the middle of a cycle.

        One that is carried still is, unless the signal `is_settled`: it may bounce.
        """
        is_held, is_holding = self.gripper.part_signal(seen), self.gripper.counts_as_holding(seen)
        if not (is_holding or is_settled):
            return
        self.progress.settle(is_holding)
        if is_holding and not self.is_carrying:
            self._mark_carried()
            self.emit(events.PART_IN_HAND)
        elif is_held is False and self.is_carrying and self.gripper.is_supplied(seen):  # it fell
            self.is_carrying = False
            self.emit(events.PART_LOST, stage=self.stage)

    def register_loss(self, seen: Observation) -> str:
        """
        Register a part that has just been lost; return an addition to a stop's reason, or ''.

        Not debounced: if the arm hits the dropped part, the robot stops before the signal settles.
        """
        if not self.is_carrying or self.gripper.part_signal(seen) is not False:
            return ''
        self.is_carrying = False
        return f'; {self._lost(self.gripper.loss_text)}'

    def _settle_part(self) -> Steps[None]:
        """Wait until it is known whether a part that is shown no more fell, as during a stop."""
        signal, seen = self.gripper.signal(), (yield OBSERVE_NOW)
        while self.is_carrying and self.gripper.part_signal(seen) is False:
            if signal.update(seen.t, False) is False:
                self.update_part(seen)
                return
            seen = yield None

    def confirm_payload(self) -> Steps[None]:
        """Set the payload as the gripper needs it, and wait for the robot to confirm it."""
        yield from self._settle_part()
        yield from self.payload.set(bool(self._required_payload))

    @property
    def _required_payload(self) -> bool | None:
        """Whether the payload must include the part; without feedback, as it was last set."""
        is_shown = self.gripper.settings.grip_feedback != NO_FEEDBACK
        return self.is_carrying if is_shown else self.is_carrying and self.payload.wanted

    def pause(self) -> None:
        """Hold the run; the caller also cancels the present motion."""
        self.is_paused = True
        self._pauses += 1

    def resume(self) -> None:
        """Continue, as soon as the arm is at rest."""
        self.is_paused = False

    def _enter(self, planned: PlannedStage, i: int) -> None:
        self.stage = planned.stages[i].name
        self.emit(events.STAGE, stage=self.stage, remark=planned.remark)

    def _check_in_place(self, seen: Observation) -> None:
        """Check that nobody else has moved the arm since the last motion."""
        away = 0.0 if self._q_end is None else float(np.abs(seen.q - self._q_end).max())
        if away > _MOVED_AWAY:
            raise ExecutionError(
                f'stage {self.stage!r}: another client moved the arm by {away:.3f} rad; end that '
                'client, then call ~/rearm'
            )

    def _do_action(self, planned: PlannedStage) -> Steps[None]:
        (step,) = planned.steps
        do = step.stage.do
        if do.startswith('payload_'):
            yield from self.payload.set_in_stage(do == 'payload_part')
        elif do == 'close':
            yield from self._close(step)
        elif do == 'open' and step.before.is_at_part:
            yield from self._release(step)
        elif do == 'open':
            yield from self._open_on_the_way()
        elif do == 'expect_part':
            yield from self._expect_part(planned)
        elif do in WAITS:
            yield from self._wait(step.stage)
        elif do == SET_OUTPUT:
            assert step.stage.pin is not None and step.stage.value is not None, step.stage
            yield from self.gripper.set_output(step.stage.pin, step.stage.value, step.stage.name)
        else:
            assert do == 'expect_no_part', do
            yield from self._expect_no_part(step)

    def _wait(self, stage: Stage) -> Steps[None]:
        yield from self._check_empty()  # a person may hand it a part during the wait
        wait = Wait(stage)
        self.waits_for = wait.reason
        self.emit(events.WAITING, stage=stage.name, reason=wait.reason)
        seen = yield None
        while self.is_paused or not wait.is_over(seen):
            self._check_carried(seen)
            if self.is_paused:
                wait.pause()
                yield from self._wait_until_resumed()
            seen = yield None
        self.waits_for = ''

    def _close(self, step: Step) -> Steps[None]:
        yield from self._check_empty()
        yield from self.gripper.begin_closing()
        yield from perform(Carry(self.part))
        yield from self.payload.set_during(self.gripper, step.payload)
        seen = yield OBSERVE_NOW
        is_unseen = self.gripper.part_signal(seen) is None and step.after.is_at_part
        if self.gripper.part_signal(seen) or (is_unseen and self.gripper.counts_as_holding(seen)):
            self._mark_carried()
        if is_unseen and self.is_carrying and not step.is_part_checked:
            self.emit(events.GRASP_UNVERIFIED)

    def _mark_carried(self) -> None:
        self.is_carrying, self._signal = True, self.gripper.signal()

    def _release(self, step: Step) -> Steps[None]:
        was_carrying = self.is_carrying
        if was_carrying and step.fills:
            self.progress.release(self._number)
        yield from self.open(step.payload)
        if self.gripper.part_signal((yield OBSERVE_NOW)):  # it sticks, or the input does
            self.is_carrying = was_carrying
            yield from perform(Carry(self.held))
            try:
                yield from self.gripper.expect_no_part()
            except BaseException:  # a stop included
                self.progress.settle(is_held=True)
                raise
            yield from perform(Carry(None))
            self.is_carrying = False
        self.progress.settle(is_held=False)  # the next part in the gripper is another one
        if was_carrying:
            self.emit(events.PLACED, place=step.after.place)

    def _open_on_the_way(self) -> Steps[None]:
        """Open the empty gripper while the arm moves, if it is not open."""
        seen, signal = (yield OBSERVE_NOW), self.gripper.signal()
        while (level := self.gripper.part_signal(seen)) and not signal.update(seen.t, level):
            seen = yield None
        if self.is_carrying or level:
            raise ExecutionError(
                f'the part in the gripper would fall at stage {self.stage!r}: hold it and call '
                '~/open_gripper, or release it at a place'
            )
        if not self.gripper.is_open(seen):
            yield from self.gripper.begin_opening(is_moving=True)
            self._is_opening, self._was_open = True, False
        yield from perform(Carry(None))

    def _wait_for_open_fingers(self, planned: PlannedStage) -> Steps[None]:
        """Wait until the fingers will be open when the arm comes near a part."""
        if not self._is_opening:
            return
        ends = [*planned.passes, planned.moved.trajectory.duration]
        near = [step.after.is_at_part for step in planned.steps]
        free = ([0.0, *ends])[near.index(True) if True in near else -1]
        while self.gripper.opens_in((yield None)) > free:
            pass
        if True in near:
            self._is_opening = False

    def _expect_no_part(self, step: Step) -> Steps[None]:
        """Check that no part is held, at once or during the next motion."""
        seen = yield None  # one tick, so that the stage is seen
        is_away = not step.before.is_at_part
        if is_away and self.gripper.is_open(seen) and self.gripper.part_signal(seen) is False:
            self._empty_check = self.gripper.await_empty()  # checked during the motion
        else:
            yield from self.gripper.expect_no_part()

    def _check_empty(self) -> Steps[None]:
        """Check that the gripper is empty, if a stage has left that to be done."""
        check, self._empty_check = self._empty_check, None
        if check:
            yield from check

    def _expect_part(self, planned: PlannedStage) -> Steps[None]:
        tries = self.planner.settings.grasp_retries if planned.retry else 0
        # Whether an earlier stage has set the payload with the part.
        had_part = bool(self.payload.wanted) and self.payload.confirmed_early is None
        while True:
            try:
                yield from self.gripper.expect_part()
                break
            except MissedGrasp as missed:
                self.emit(events.GRASP_MISSED, reason=str(missed), tries_left=tries)
                if not tries:
                    if self.payload.may_have_part:
                        yield from self.payload.set(with_part=False)
                    yield from perform(Carry(None))
                    raise
                tries -= 1
            yield from self._while_paused()
            yield from self.open()
            for motion in planned.retry:
                yield from self._move(PlannedStage(planned.steps, motion))
            yield from self._while_paused()
            yield from self._close(planned.steps[0])
        if had_part and not self.payload.wanted:  # a missed grasp removed the part from it
            yield from self.payload.set(with_part=True)
        self._mark_carried()
        verified = self.gripper.part_signal((yield None))  # one tick, so that the stage is seen
        self.emit(events.GRASP_UNVERIFIED if verified is None else events.GRASP_VERIFIED)

    def _move(self, planned: PlannedStage) -> Steps[None]:
        motion, tracker, i = planned.moved, StageTracker(planned), 0
        self._q_end = None
        while True:
            if self.is_paused:  # since the stage began, or while the rest was planned
                yield from self._wait_until_resumed()
            pauses = self._pauses
            seen = yield RunMotion(motion.trajectory, planned.method)
            while seen.reply is None:
                self._check_carried(seen)
                self._check_open(planned, seen)
                self._report_wait(seen)
                if tracker.stage_at(seen.q) > i:
                    i += 1
                    self._enter(planned, i)
                seen = yield None
            self.waits_for = ''
            if seen.reply.ok:
                self._q_end = seen.q
                for passed in range(i + 1, len(planned.stages)):
                    self._enter(planned, passed)
                return
            # A pause counts even if it was ended before the arm was at rest.
            if pauses == self._pauses:
                raise ExecutionError(seen.reply.reason)
            seen = yield from self._wait_until_resumed()
            motion = yield from self._rest_of(planned, seen.q, tracker.within(seen.q))

    def _rest_of(
        self, planned: PlannedStage, q: Array, within: tuple[float, float]
    ) -> Steps[PlannedMotion]:
        """Return the remaining motion from joints (6,) [rad]; planning takes more than a tick."""
        found: list[PlannedMotion] = []

        def plan() -> None:
            parts = self.placed_parts
            found.append(self.planner.replan_rest(planned, q, within, self.held, parts))

        yield from perform(Compute(plan, 'planning the remaining motion'), _REPLAN_TIME)
        return found[0]

    def _while_paused(self) -> Steps[None]:
        if self.is_paused:
            self._check_in_place((yield from self._wait_until_resumed()))

    def _wait_until_resumed(self) -> Steps[Observation]:
        self.emit(events.PAUSED, stage=self.stage)
        seen = yield None
        while self.is_paused or not seen.is_at_rest:
            self._check_carried(seen)
            seen = yield None
        self.emit(events.RESUMED, stage=self.stage)
        return seen

    def _report_wait(self, seen: Observation) -> None:
        wait = SLIDER_WAIT if seen.speed_scaling == 0.0 else ''
        if wait and not self.waits_for:
            self.emit(events.WAITING, stage=self.stage, reason=wait)
        self.waits_for = wait

    def _check_open(self, planned: PlannedStage, seen: Observation) -> None:
        """Check that nobody else closes the open gripper: near a part it would push or take it."""
        is_open = self.gripper.is_open(seen)
        self._was_open = is_open or (self._was_open and not planned.is_carrying)
        is_shut = self._was_open and not is_open and self.gripper.is_closed(seen)
        if self._is_shut.update(seen.t, is_shut) and planned.steps:
            raise ExecutionError(
                f'stage {self.stage!r}: someone else has closed the gripper; open it with '
                '~/open_gripper, after ~/rearm'
            )

    def _check_carried(self, seen: Observation) -> None:
        if not self.is_carrying:
            return
        if silence := self.gripper.silence(seen):
            raise ExecutionError(f'stage {self.stage!r}: {silence}')
        level, why = self.gripper.part_signal(seen), self.gripper.loss_text
        if level is None and self.gripper.is_open(seen):
            level, why = False, 'someone else has opened the gripper'
        if self._signal.update(seen.t, level) is False:
            self.is_carrying = False
            raise ExecutionError(self._lost(why))

    def _lost(self, why: str) -> str:
        where = f' at stage {self.stage!r}' if self.stage else ''
        return f'the part was lost{where}: {why}; find the part, then call ~/rearm'
