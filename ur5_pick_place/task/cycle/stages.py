# SPDX-License-Identifier: Apache-2.0
"""One stage of a cycle, as a line of a cycle file gives it, and when one that waits is over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.settings import REQUIRED, Settings, setting
from ur5_pick_place.task.grippers.signals import Stable
from ur5_pick_place.task.job import DIGITAL_PINS, Observation

MOVES = ('ptp', 'lin', 'lin_or_ptp')
ACTIONS = ('open', 'close', 'expect_part', 'expect_no_part', 'payload_part', 'payload_tool')
WAIT, WAIT_INPUT, SET_OUTPUT = 'wait', 'wait_input', 'set_output'
PACES = ('travel', 'approach')
MAX_BLEND = 0.2  # [m]
_LONGEST_WAIT = 3600.0  # [s]

_MOVE_KEYS = ('to', 'pace', 'blend')  # besides name and do; all but the first may be left out
# Of each stage that waits or sets an output the keys that it needs, and its summary of them.
WAITS_AND_PINS: dict[str, tuple[tuple[str, ...], str]] = {
    WAIT: (('seconds',), 'wait {seconds:g} s'),
    WAIT_INPUT: (('pin', 'value', 'timeout'), 'wait for input {pin} {level}'),
    SET_OUTPUT: (('pin', 'value'), 'output {pin} {level}'),
}
_NO_KEYS: tuple[tuple[str, ...], str] = (), '{do}'

Kind = TypeVar('Kind', bound='Stage')


@dataclass(frozen=True)
class Stage(Settings):
    """One step of a cycle: a move, an action of the gripper, a wait or an output."""

    name: str = setting(REQUIRED, 'as displayed and logged', kind=str)
    do: str = setting(
        REQUIRED, 'the move or action', kind=str, choices=(*MOVES, *ACTIONS, *WAITS_AND_PINS)
    )
    to: str = setting('', 'the place that a move leads to')
    pace: str = setting('travel', 'the speed of a move', choices=PACES)
    blend: float = setting(
        0.0,
        'the corner to the next move is rounded from this distance before the pose to this '
        'distance after it (on the longer of the two moves up to twice as far); 0 = stop',
        unit='m',
        low=0.0,
        high=MAX_BLEND,
    )
    seconds: float | None = setting(
        None, 'how long to wait', unit='s', low=0.0, high=_LONGEST_WAIT, kind=float
    )
    pin: int | None = setting(
        None, 'the digital input or output', low=0, high=DIGITAL_PINS - 1, kind=int
    )
    value: bool | None = setting(
        None, 'the level that is awaited or set: true is on', kind=bool
    )
    timeout: float | None = setting(
        None, 'the longest wait', unit='s', low=0.0, high=_LONGEST_WAIT, kind=float
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in WAITS_AND_PINS.get(self.do, _NO_KEYS)[0]:
            if getattr(self, key) is None:
                raise InvalidInput(f'{self._title}: {self.do} lacks the key {key!r}')
        if not self.name and self.do in WAITS_AND_PINS:
            object.__setattr__(self, 'name', self.summary)

    @classmethod
    def from_dict(cls: type[Kind], values: Any, where: str = '') -> Kind:
        """
        Return a stage as `Settings.from_dict` does; a move or an action must have a name.

        A key that this stage does not take is refused, whatever its value.
        """
        if isinstance(values, Mapping) and values.get('do') not in (*MOVES, *ACTIONS):
            values = {'name': '', **values}
        stage = super().from_dict(values, where)
        allowed = _MOVE_KEYS if stage.is_move else WAITS_AND_PINS.get(stage.do, _NO_KEYS)[0]
        extra = [key for key in values if key not in ('name', 'do', *allowed)]
        if extra:
            takes = f'it takes {", ".join(allowed)}' if allowed else 'it takes none: remove it'
            no = ' and '.join(f'no "{key}"' for key in extra)
            raise InvalidInput(
                f'{where and where + ": "}{stage._title}: {stage.do} takes {no}; {takes}',
                f'{where and where + "."}{extra[0]}',
            )
        return stage

    @property
    def is_move(self) -> bool:
        return self.do in MOVES

    @property
    def summary(self) -> str:
        """What is awaited or set, such as 'wait for input 3 on'; else what is done."""
        text = WAITS_AND_PINS.get(self.do, _NO_KEYS)[1]
        return text.format(level='on' if self.value else 'off', **vars(self))

    @property
    def _title(self) -> str:
        return f'stage {self.name or self.do!r}'


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
