# SPDX-License-Identifier: Apache-2.0
"""The stages that wait, and those that set an output other than the gripper's."""

from dataclasses import dataclass

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.task.cycle.stages import WAIT, Stage
from ur5_pick_place.task.job import Observation, SetOutput, Steps, perform

_SERVICE_TIMEOUT = 2.0  # [s]; the driver gives up on a pin after 0.55 s


class Wait:
    """
    One wait for time to pass or for an input, in ROS time; pauses do not count.

    `stage`: one that waits.

    `reason`: what is awaited, for the state and the event.

    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        is_bounded = stage.do != WAIT
        self.reason = stage.summary
        if is_bounded:
            self.reason += f', at most {stage.timeout:g} s'
        self._end = float((stage.timeout if is_bounded else stage.seconds) or 0.0)
        self._elapsed = 0.0
        self._latest: float | None = None

    def pause(self) -> None:
        """Let no time pass until the next observation."""
        self._latest = None

    def is_over(self, seen: Observation) -> bool:
        """
        Return whether the stage is done.

        Raises `ExecutionError`: the input does not have its level within the timeout, or io_states
        lacks it.

        """
        if self._latest is not None:
            self._elapsed += max(0.0, seen.t - self._latest)
        self._latest = seen.t
        stage = self._stage
        if stage.do == WAIT:
            return self._elapsed >= self._end
        level = seen.inputs.get(stage.pin) if stage.pin is not None else None
        if level is stage.value:
            return True
        if self._elapsed >= self._end:
            raise ExecutionError(self._timed_out(level))
        return False

    def _timed_out(self, level: bool | None) -> str:
        stage = self._stage
        if level is None:
            return f'stage {stage.name!r}: input {stage.pin} is not in io_states: check `pin`'
        wanted = 'on' if stage.value else 'off'
        return (
            f'stage {stage.name!r}: input {stage.pin} was not {wanted} within timeout = '
            f'{stage.timeout:g} s: check what switches it and its wiring, or increase the timeout'
        )


@dataclass(frozen=True)
class Outputs:
    """Sets outputs, each done when io_states shows it."""

    timeout: float = 1.0  # for io_states to show it [s]
    are_confirmed: bool = True  # False for mock hardware, whose io_states shows none

    def switch(self, stage: Stage) -> Steps[None]:
        """Set the output of a stage; raises `ExecutionError` if io_states does not show it."""
        assert stage.pin is not None and stage.value is not None, stage
        seen = yield from perform(SetOutput(stage.pin, stage.value), _SERVICE_TIMEOUT)
        deadline = seen.t + self.timeout
        while self.are_confirmed and seen.outputs.get(stage.pin) is not stage.value:
            if seen.t > deadline:
                raise ExecutionError(
                    f'stage {stage.name!r}: output {stage.pin} was set '
                    f'{"on" if stage.value else "off"} but io_states has not shown it within '
                    f'pin_timeout = {self.timeout:g} s: check that the robot lets ROS set it'
                )
            seen = yield None
