# SPDX-License-Identifier: Apache-2.0
"""The stages that wait."""

from collections.abc import Callable

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.task.cycle.stages import WAIT, WAIT_INPUT, Stage
from ur5_pick_place.task.grippers.signals import Stable
from ur5_pick_place.task.job import Observation


def _input(stage: Stage, seen: Observation) -> str:
    level = None if stage.pin is None else seen.inputs.get(stage.pin)
    if level is stage.value:
        return ''
    if level is None:
        return f'input {stage.pin} is not in io_states: check `pin`'
    return (
        f'input {stage.pin} was not {"on" if stage.value else "off"} within timeout = '
        f'{stage.timeout:g} s: check what switches it and its wiring, or increase the timeout'
    )


AWAITED: dict[str, Callable[[Stage, Observation], str]] = {WAIT_INPUT: _input}
"""What a stage with a timeout awaits: returns '' once it is so, else the error of the timeout."""
WAITS = (WAIT, *AWAITED)


class Wait:
    """
    One wait for time to pass or for what `AWAITED` tells, in ROS time; pauses do not count.

    What is awaited must be so for `SETTLING`: a button that is let go bounces, as if pressed anew.

    `stage`: one that waits.

    `reason`: what is awaited, for the state and the event.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._awaited, self._is_so = AWAITED.get(stage.do), Stable()
        self.reason = stage.summary
        if self._awaited:
            self.reason += f', at most {stage.timeout:g} s'
        self._end = float((stage.timeout if self._awaited else stage.seconds) or 0.0)
        self._elapsed = 0.0
        self._latest: float | None = None

    def pause(self) -> None:
        """Let no time pass until the next observation."""
        self._latest = None

    def is_over(self, seen: Observation) -> bool:
        """
        Return whether the stage is done.

        Raises `ExecutionError`: what is awaited is not so within the timeout.
        """
        if self._latest is not None:
            self._elapsed += max(0.0, seen.t - self._latest)
        self._latest = seen.t
        is_late = self._elapsed >= self._end
        if not self._awaited:
            return is_late
        problem = self._awaited(self._stage, seen)
        if problem and is_late:
            raise ExecutionError(f'stage {self._stage.name!r}: {problem}')
        return bool(self._is_so.update(seen.t, not problem))
