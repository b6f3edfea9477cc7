# SPDX-License-Identifier: Apache-2.0
"""The jobs of the task node (gripper, plan, run, home), and its stop and rearm."""

import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from std_srvs.srv import SetBool

from ur5_pick_place.client import requests
from ur5_pick_place.client.cell_reader import CellReader
from ur5_pick_place.client.link import TASK
from ur5_pick_place.client.received import Event
from ur5_pick_place.client.results import PlanReport, RunResult, run_result
from ur5_pick_place.errors import (
    ExecutionError,
    InvalidInput,
    PlanningError,
    Ur5PickPlaceError,
    quoted,
)
from ur5_pick_place.nodes.messages.conversions import to_seconds
from ur5_pick_place.task import events
from ur5_pick_place.task.machine import RUN

_LOST = 5.0  # [s] to wait for the outcome of a job on which the task node no longer works
_TRY_AGAIN = 5.0  # [s] for which `rearm` repeats while the node advises to
_PAUSE = 0.1  # [s]
_SAME_TIME = 0.5  # [s of robot time] by which the task node's time may lag behind ours
_ENDS = (events.DONE, events.STOPPED)
_WORKING = ('busy', 'running', 'paused')  # how the task's state begins during a job

OnEvent = Callable[[Event], object]


class Jobs(CellReader):
    """Asks for jobs and waits for their outcome."""

    def init_gripper(self) -> None:
        """Switch the gripper's supply on."""
        self._job('init_gripper')

    def open_gripper(self) -> None:
        """Open the gripper; a part in it falls."""
        self._job('open_gripper')

    def close_gripper(self) -> None:
        """Close the gripper."""
        self._job('close_gripper')

    def freedrive(self, on: bool = True) -> None:
        """Let the arm be guided by hand, or end that."""
        request = SetBool.Request(data=requests.flag('on', on))
        reply = self._link.call(SetBool, f'{TASK}/freedrive', request)
        if not reply.success:
            raise ExecutionError(reply.message)

    def plan(self) -> PlanReport:
        """
        Plan and check the whole run; nothing moves.

        Raises
        ------
        PlanningError
            Gives the node's reason, with the stage and the place.

        """
        with self._link.received.listening() as collected:
            is_planned, message = self._trigger('plan')
            if not is_planned:
                raise PlanningError(f'plan: {message}')
            self._await_state('planned')
            planned, rows = self._link.wait(
                lambda: _report(collected, message), 'the report on the plan'
            )
        return PlanReport(
            message, planned['branch'], planned['motion_time'], planned['cycles'], tuple(rows)
        )

    def run(self, on_event: OnEvent | None = None) -> RunResult:
        """
        Run the plan to its end.

        Parameters
        ----------
        on_event : callable, optional
            Takes each event of the run, as a dictionary, in this thread.

        Raises
        ------
        ExecutionError
            The run was refused, or stopped early; gives the node's reason.

        """
        return run_result(self._job('run', on_event))

    def pause(self) -> None:
        """
        Bring a running cycle to rest on its path; call it from another thread than `run`.

        Raises
        ------
        ExecutionError
            No cycle is running.
        TimedOut
            The arm does not come to rest.

        """
        self._request('pause')
        self._link.wait_for_rest()

    def resume(self) -> None:
        """Continue a paused cycle."""
        self._request('resume')

    def stop(self) -> None:
        """
        Stop the arm, whoever moves it, and return once it is at rest; call it from any thread.

        Raises
        ------
        ExecutionError
            No node has accepted the stop, or the arm does not come to rest.

        """
        self._link.stop()
        with suppress(ExecutionError):  # a node has died, and the arm is at rest
            self._await_state('stopped')

    def rearm(self) -> None:
        """Allow motion again after a stop; `ExecutionError` gives what is still missing."""
        deadline = time.monotonic() + _TRY_AGAIN
        while True:
            is_armed, message = self._trigger('rearm')
            if is_armed:
                self._await_state('stopped', is_wanted=False)
                return
            if not message.endswith('try again') or time.monotonic() > deadline:
                raise ExecutionError(f'rearm refused: {message}')
            time.sleep(_PAUSE)

    def go_home(self) -> None:
        """Move to the taught home, planned from where the arm is."""
        self._job('go_home')

    def _request(self, name: str) -> None:
        is_done, message = self._trigger(name)
        if not is_done:
            raise ExecutionError(f'{name} refused: {message}')

    def _job(self, name: str, on_event: OnEvent | None = None) -> list[Event]:
        """
        Run a job of the task node to its end; return its events.

        Raises
        ------
        ExecutionError
            It was refused, or stopped early.

        """
        if on_event is not None and not callable(on_event):
            raise InvalidInput(f'on_event = {quoted(on_event)}: must be a function of one event')
        seen: list[Event] = []
        is_over = False
        with self._link.received.listening() as collected:
            earliest = to_seconds(self._link.received.joints()[1].header.stamp) - _SAME_TIME
            try:
                is_accepted, message = self._trigger(name)
                if not is_accepted:
                    is_over = True
                    raise ExecutionError(f'{name} refused: {message}')
                while not is_over:
                    event = self._next(collected, name)
                    if not seen and not _begins(event, name, earliest):
                        continue  # of an earlier job, maybe another client's
                    seen.append(event)
                    is_over = event['event'] in _ENDS and event['job'] == name
                    if on_event:
                        on_event(event)
            finally:
                if not is_over:
                    self._stop_on_leaving()
        self._await_state(*_WORKING, is_wanted=False)
        if event['event'] == events.STOPPED:
            where = f' at stage {event["stage"]!r}' if event['stage'] else ''
            done = f'; until then: {run_result(seen)}' if name == RUN else ''
            raise ExecutionError(f'{name} stopped{where}: {event["reason"]}{done}')
        return seen

    def _next(self, collected: deque[Event], job: str) -> Event:
        """Return the next event of a job; there is no limit while the task node works on it."""
        self._link.wait(
            lambda: bool(collected),
            f'{job} to end',
            _LOST,
            lambda: self._task_state.startswith(_WORKING),
        )
        return collected.popleft()

    def _stop_on_leaving(self) -> None:
        """Stop the arm while an exception is in flight; a failure is printed and noted on it."""
        in_flight = sys.exc_info()[1]
        try:
            self.stop()
        except Ur5PickPlaceError as error:
            print(error, file=sys.stderr)
            if in_flight is not None and hasattr(in_flight, 'add_note'):  # Python 3.11
                in_flight.add_note(f'{error}')


def _begins(event: Event, job: str, earliest: float) -> bool:
    """Return whether an event reports that a job began, not before `earliest` [s of ROS time]."""
    is_of_job = event['event'] == events.STARTED and event.get('job') == job
    return is_of_job and event.get('time', 0.0) >= earliest


def _report(collected: deque[Event], message: str) -> tuple[Event, list[dict[str, Any]]] | None:
    """Return the event `planned` that a reply speaks of, and the rows of its report."""
    planned = None
    for event in collected:
        if event['event'] == events.PLANNED:
            words = f'on {event["branch"]}, {event["motion_time"]:.1f} s'
            planned = event if words in message else None
        elif event['event'] == events.PLAN_REPORT and planned:
            return planned, event['rows']
    return None
