# SPDX-License-Identifier: Apache-2.0
"""
The state machine of the task: its requests, its ticks and its events.

It owns no clock, thread or ROS; its owner calls `tick` and provides a `Port` to the robot.
"""

import functools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ur5_pick_place.control.locking import locked
from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError, text_of
from ur5_pick_place.outcome import OnOutcome, Outcome
from ur5_pick_place.planning.cancellation import cancelable
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.pattern import PATTERNED
from ur5_pick_place.task.cycle.steps import first_grip
from ur5_pick_place.task.grippers.signals import Stable
from ur5_pick_place.task.job import Carry, Command, Job, Observation, Steps
from ur5_pick_place.task.places.poses import TaughtPose
from ur5_pick_place.task.plan import SAME_POSE_IN_VAIN, CyclePlan
from ur5_pick_place.task.plan_report import plan_rows
from ur5_pick_place.task.run import CycleRun

Poses = Mapping[str, TaughtPose]

RUN = 'run'
"""The job that carries out a plan."""
_IDLE_TICKS = 3  # of which one is observed without a job, to save the processor's time
PLANNER_GONE = 'the planner node has gone: start it again, then ~/rearm'


class Port(Protocol):
    """The robot and the planner, as the task uses them."""

    @property
    def why_not_ready(self) -> str:
        """Why no job can begin now; empty if one can."""

    def observe(self) -> Observation:
        """Return the present observation, without a reply, which the machine adds."""

    def send(self, command: Command, on_reply: OnOutcome) -> None:
        """Send a command; `on_reply` takes how it ended."""

    def cancel_motion(self) -> None:
        """Brake the present motion, if there is one, along its path."""


@dataclass(eq=False)
class Machine:
    """
    Plans, runs, pauses, stops and rearms; one job at a time.

    Ticks, replies and requests may come from different threads.
    """

    run: CycleRun
    port: Port
    plan: CyclePlan | None = None  # what `start_run` runs
    stop_reason: str = ''  # why no job may start before `rearmed`; empty if one may
    is_in_freedrive: bool = False  # set by the owner
    # how often `stop` was called: a request that takes time compares it before it acts
    stops: int = 0
    _job: Job | None = None
    _taught_since: str = ''  # the place for which a plan was dropped
    _is_planning: bool = False
    _is_pattern_new: bool = False  # its place was taught during the job
    _is_part_known: bool = False
    _idle_ticks: int = 0
    _was_stopped: bool = False  # whether the planner was seen stopped since it was rearmed
    _is_carried: bool | None = None  # as last sent to the planner; None = nothing was

    def __post_init__(self) -> None:
        self.planner, self.emit = self.run.planner, self.run.emit
        self._lock = threading.RLock()
        self._part_held = Stable()
        self._on_end: OnOutcome = lambda _outcome: None

    @property
    def job_name(self) -> str:
        """Name of the running job; empty if there is none."""
        job = self._job
        return job.name if job else ''

    @property
    def state(self) -> str:
        """One line for display, as published on `~/state`."""
        if self.stop_reason:
            return f'stopped: {self.stop_reason}'
        job = self.job_name
        if not job:
            if self.is_in_freedrive:  # first: the planner node reads `freedrive` from this
                return 'freedrive'
            if self._is_planning:
                return 'planning'
            return 'planned' if self.plan else 'idle'
        if job != RUN:
            return f'busy: {job}'
        waits = f' ({self.run.waits_for})' if self.run.waits_for else ''
        return f'{"paused" if self.run.is_paused else "running"}: {self.run.stage}{waits}'

    # -- requests: each returns a message or raises an error -----------------------------------

    def make_plan(self, poses: Poses) -> str:
        """
        Plan a run from the present joints.

        Raises `ExecutionError`: the arm is in freedrive, a job runs, another plan is being made,
        or there are no joint_states yet. `PlanningCanceled`: a stop was requested meanwhile.
        `InvalidInput`, `PlanningError`: as `CyclePlanner.plan`.
        """
        with self._planning():
            self.plan, self._taught_since = None, ''
            self._update_part()
            first = self.run.progress.done if self.planner.pattern.gridded else 0
            plan = self.planner.plan(poses, self._joints(), self._report_progress, first)
        self.plan = plan
        stages = [stage.name for stage in self.planner.cycle]
        n = len(plan.cycles)
        self.emit(
            events.PLANNED,
            branch=plan.branch,
            motion_time=plan.motion_time,
            stages=stages,
            cycles=n,
        )
        self.emit(events.PLAN_REPORT, rows=plan_rows(plan))
        what = f'{f"{n} cycles of " if n > 1 else ""}{len(stages)} stages'
        text = f'{what} on {plan.branch}, {plan.motion_time:.1f} s of motion'
        for planned in plan.cycles[0]:
            if planned.remark and not planned.motion:
                text += f'; {planned.name}: {planned.remark}'
        if plan.first:
            text += (
                f'; {plan.first} of {plan.first + n} cycles were done before the stop: the run '
                'continues with the next position; teach start or target again to begin with the '
                f'first ({SAME_POSE_IN_VAIN})'
            )
        return text

    def start_run(self, poses: Poses) -> str:
        """Start the run that was planned."""
        self._check_can_start()
        plan = self.plan
        if plan is None:
            place = self._taught_since
            why = f', as {place} was taught elsewhere since' if place else ''
            cure = f'; poses that keep coming: give {place} a from_frame in the cycle file'
            raise ExecutionError(f'no plan{why}: call ~/plan first{cure if place else ""}')
        self.planner.check_unchanged(plan, poses)
        away = float(np.abs(self._joints() - plan.q_start).max())
        if away > self.planner.planner.settings.start_tolerance:
            raise ExecutionError(
                f'the arm is {away:.3f} rad from the start of the plan: plan again or ~/go_home'
            )
        self._check_first_grip()
        if self.plan is not plan:
            raise ExecutionError('the plan was dropped while it was checked: call ~/plan again')
        grips = any(step.stage.do == 'close' for step in self.planner.steps)
        stage = plan.cycles[0][0].stages[0].name
        return self.start(RUN, self.run.cycle(plan), stage=stage, closes=grips or None)

    def go_home(self, poses: Poses) -> str:
        """Plan motions home from the present joints, with what the gripper holds; start them."""
        self._check_can_start()
        self._update_part()
        run = self.run
        with self._planning():
            motions = self.planner.motions_home(poses, self._joints(), run.held, run.placed_parts)
        return self.start('go_home', self.run.home(motions))

    @locked
    def pause(self) -> str:
        """Bring the arm to rest on its path and wait for `resume`."""
        if self.job_name != RUN:
            raise ExecutionError('nothing to pause: no cycle is running')
        self.run.pause()
        self.port.cancel_motion()
        return f'pausing at stage {self.run.stage!r}'

    @locked
    def resume(self) -> str:
        """Continue the paused cycle."""
        if not self.run.is_paused:
            raise ExecutionError('not paused')
        self.run.resume()
        return f'resuming stage {self.run.stage!r}'

    @locked
    def start(
        self,
        name: str,
        steps: Steps[None],
        on_end: OnOutcome = lambda _outcome: None,
        stage: str = '',
        closes: bool | None = None,
    ) -> str:
        """
        Start a job.

        `on_end`: takes how the job ended: done, or early with a reason. `stage`: its first one.
        `closes`: whether it closes the gripper, else opens it; None if it need not be able to.
        """
        self._check_can_start()
        if self.port.why_not_ready:
            raise ExecutionError(self.port.why_not_ready)
        if closes is not None:
            with _driver_errors():
                if reason := self.run.gripper.why_not(closes, self.port.observe()):
                    raise ExecutionError(reason)
        self.run.resume()
        self._update_part()
        if self.run.is_carrying:
            self._send_carried(True)
        self._job, self._on_end, self.run.stage = Job(name, steps), on_end, stage
        self.emit(events.STARTED, job=name)
        return f'{name} started'

    @locked
    def stop(self, reason: str, is_fault: bool = False) -> None:
        """End the present job, if there is one, and accept no other before `rearmed`."""
        self.stops += 1
        is_new, self.stop_reason = not self.stop_reason, self.stop_reason or reason
        if self._job:
            self._end(reason)
        elif is_new and is_fault:  # not requested, so it is an event
            self.plan = None
            self.emit(events.STOPPED, job='', stage='', reason=reason)

    @locked
    def forget_plan(self, place: str) -> None:
        """Forget the plan, as a place was taught; a pattern there begins anew after the job."""
        if place in self.planner.needed:
            self._taught_since = place if self.plan else self._taught_since
            self.plan = None
        self.renew_pattern(place)

    @locked
    def renew_pattern(self, place: str) -> None:
        """Begin a pattern at a place anew, after the job if one runs."""
        if place in PATTERNED:
            if self.plan and self.plan.first:
                self.plan = None
            self._is_pattern_new = True
            self._begin_new_pattern()

    @locked
    def rearmed(self) -> None:
        """Accept jobs again; the next run needs a new plan if there was a stop."""
        if self.stop_reason or self._was_stopped:
            self.stop_reason, self.plan, self._was_stopped = '', None, False
            self.emit(events.REARMED)

    # -- ticks ---------------------------------------------------------------------------------

    @locked
    def tick(self) -> None:
        """Observe the robot and issue the next command of the job, if there is one."""
        if self._job is None:
            self._watch_part()
            return
        seen, job = self._observe(), self._job
        while command := job.tick(seen):
            if isinstance(command, Carry):
                self._is_carried = command.load is not None
            self.port.send(command, functools.partial(self._take_reply, job, command))
            if not isinstance(command, Carry):
                return  # only a Carry, which moves nothing and is answered at once, takes no tick
        if job.is_done:
            self._end(job.error)

    def _observe(self) -> Observation:
        """Observe the robot; after a stop its payload is unknown: a program's start resets it."""
        seen = self.port.observe()
        if seen.stop_reason:
            self._was_stopped = True
            self.run.payload.forget()
        return seen

    @locked
    def _take_reply(self, job: Job, command: Command, reply: Outcome) -> None:
        job.answer(command, reply)

    def _watch_part(self) -> None:
        """
        Send the planner what the gripper holds, without a job, whenever that changes.

        When first observed, a closed gripper without feedback counts as one with a part.
        """
        self._idle_ticks += 1
        if self._is_part_known and self._idle_ticks % _IDLE_TICKS:
            return
        seen, was_known = self._observe(), self._is_part_known
        try:
            self._is_part_known = was_known or self.run.gripper.is_known(seen)
            is_held = self._part_held.update(seen.t, self.run.gripper.proves(seen))
            if not was_known and self.run.gripper.counts_as_holding(seen):
                self.emit(events.PART_IN_HAND)  # the next job treats it as carried, and emits too
                self._send_carried(True)
            elif is_held is not None and is_held is not self._is_carried:
                self.run.update_part(seen)
                self._send_carried(is_held)
        except Exception:  # the gripper's driver may raise anything; the next job reports it
            return

    def _send_carried(self, is_held: bool) -> None:
        """Send the planner whether the gripper holds the part, unless that was sent before."""
        if is_held is not self._is_carried:
            self._is_carried = is_held
            self.port.send(Carry(self.run.part if is_held else None), lambda _reply: None)

    @locked
    def _update_part(self) -> None:
        with _driver_errors():
            seen = self.port.observe()
            is_held = self._part_held.update(seen.t, self.run.gripper.proves(seen))
            self.run.update_part(seen, is_held is not None)

    def _check_first_grip(self) -> None:
        """Refuse a run that would push closed fingers onto the part that it is to grip."""
        place = first_grip(self.planner.steps)
        with _driver_errors():
            is_shut = bool(place) and self.run.gripper.is_closed(self.port.observe())
        if is_shut:
            raise ExecutionError(
                f'the gripper is closed, and the cycle grips at {place} before any '
                '{do: open}: hold the part, if there is one, and call ~/open_gripper, then ~/run'
            )

    def _end(self, error: str) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        if not job.is_done:
            job.abandon(error)
        self.port.cancel_motion()
        self.run.resume()
        self.run.waits_for = ''
        reason = job.error
        if reason:
            with suppress(Exception):  # of a gripper's own driver: the stop is latched anyhow
                reason += self.run.register_loss(self.port.observe())
            self.stop_reason, self.plan = self.stop_reason or reason, None
            self.emit(events.STOPPED, job=job.name, stage=self.run.stage, reason=reason)
        else:
            if job.name == RUN and self.plan and self.plan.first:
                self.plan = None  # the next run begins with the first position again
            self.emit(events.DONE, job=job.name)
        self._begin_new_pattern()
        self._on_end(Outcome.from_reason(reason))

    def _begin_new_pattern(self) -> None:
        if self._is_pattern_new and not self._job:
            self.run.progress.begin()
            self._is_pattern_new = False

    @contextmanager
    def _planning(self) -> Iterator[None]:
        """Show the state `planning`, and cancel the plan when a stop is requested."""
        with self._lock:
            self._check_free()
            self._is_planning, stops = True, self.stops
        try:
            with cancelable(lambda: self.stops != stops):
                yield
        finally:
            self._is_planning = False

    def _report_progress(self, branch: str, stage: str, share: float) -> None:
        self.emit(events.PLANNING, branch=branch, stage=stage, share=round(share, 3))

    def _check_can_start(self) -> None:
        """Refuse a job during a stop, in freedrive or while another job runs."""
        if self.stop_reason:
            raise ExecutionError(f'stopped: {self.stop_reason}; call ~/rearm first')
        self._check_free()

    def _check_free(self) -> None:
        if self.is_in_freedrive:
            raise ExecutionError('the arm is in freedrive: call ~/freedrive with false first')
        if self._job:
            raise ExecutionError(f'busy with {self._job.name}: wait or call ~/stop')
        if self._is_planning:
            raise ExecutionError('busy planning: wait or call ~/stop')

    def _joints(self) -> Any:
        q = self.port.observe().q
        if not np.isfinite(q).all():
            raise ExecutionError('no joint_states yet: check that the driver is running')
        return q


@contextmanager
def _driver_errors() -> Iterator[None]:
    """Turn any other error of a gripper's own driver into an ExecutionError."""
    try:
        yield
    except Ur5PickPlaceError:
        raise
    except Exception as error:
        raise ExecutionError(f'the gripper: {text_of(error)}') from error
