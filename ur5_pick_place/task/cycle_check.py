# SPDX-License-Identifier: Apache-2.0
"""A cycle checked as a whole: what the gripper holds and the robot's payload, stage by stage."""

from collections.abc import Collection, Sequence

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.place_names import above, is_part_place, near_miss, taught_place
from ur5_pick_place.task.stages import SET_OUTPUT, Stage


def check_cycle(
    stages: Sequence[Stage], places: Collection[str], gripper_outputs: Collection[int] = ()
) -> None:
    """
    Refuse an impossible sequence of stages, an unknown place, or an output of the gripper.

    Parameters
    ----------
    places : collection of str
        Without the points above them, which each place has.
    gripper_outputs : collection of int
        The outputs that only the gripper may set.

    Raises
    ------
    InvalidInput
        With the `key` of the stage, such as 'stages[3].to'.

    """
    known = (*places, *map(above, places))
    hand = _Hand()
    for number, stage in enumerate(stages):
        where = f'stages[{number}]'
        if stage.is_move and stage.to not in known:
            raise InvalidInput(
                f'{where}.to = {stage.to!r}: must be one of {", ".join(known)}'
                f'{near_miss(stage.to, known)}',
                f'{where}.to',
            )
        if stage.do == SET_OUTPUT and stage.pin in gripper_outputs:
            raise InvalidInput(
                f'{where}.pin = {stage.pin}: is an output of the gripper, which must be switched '
                'by {do: open} and {do: close} alone',
                f'{where}.pin',
            )
        _refuse(hand.problem(stage), number, stage)
        hand.apply(stage)
    if problem := hand.problem_at_end():
        last = len(stages) - 1
        raise InvalidInput(
            f'stages[{last}] = {stages[last].name!r} ends the cycle, but {problem}',
            f'stages[{last}]',
        )
    for number, stage in enumerate(stages):  # the next cycle, with the gripper as this one left it
        if hand.is_at_part:
            _refuse(hand.second_close(stage), number, stage)
        hand.apply(stage)


def first_grip(stages: Sequence[Stage]) -> str:
    """Return the place that a cycle grips at before it opens the gripper; '' if there is none."""
    place = ''
    for stage in stages:
        if stage.do == 'close' and is_part_place(place):
            return place
        if stage.do in ('open', 'close'):
            return ''
        place = stage.to or place
    return ''


def _refuse(problem: str, number: int, stage: Stage) -> None:
    if problem:
        key = f'stages[{number}].do'
        raise InvalidInput(f'{key} = {stage.do!r} at stage {stage.name!r}: {problem}', key)


class _Hand:
    """What is in the gripper before the next stage; names of stages, '' where there is none."""

    def __init__(self) -> None:
        self._place = ''
        self._closed = ''  # the stage that closed the gripper
        self._picked = ''  # that stage, if the gripper may now hold a part
        self._payload = ''  # the stage that added the part to the payload

    @property
    def is_at_part(self) -> bool:
        """Whether it is at a place where a part may lie."""
        return is_part_place(self._place)

    def problem(self, stage: Stage) -> str:
        """Return why a stage cannot follow, and what to do instead; '' if it can."""
        if stage.is_move:
            return self._move()
        checks = {
            'open': self._open,
            'expect_part': self._expect_part,
            'expect_no_part': self._expect_no_part,
            'payload_part': self._payload_part,
            'payload_tool': self._payload_tool,
        }
        check = checks.get(stage.do)
        return self.second_close(stage) or (check() if check else '')

    def second_close(self, stage: Stage) -> str:
        """Return why a stage must not close the gripper: it is closed already; '' if it is not."""
        if stage.do == 'close' and self._closed:
            return (
                f'the gripper was closed by stage {self._closed!r} already: must come after a '
                'release, {do: open}'
            )
        return ''

    def apply(self, stage: Stage) -> None:
        """Update the state of the gripper and the payload for a stage that is done."""
        if stage.is_move:
            self._place = stage.to
        elif stage.do == 'close':
            self._closed = stage.name
            self._picked = stage.name if is_part_place(self._place) else ''
        elif stage.do == 'open':
            self._closed = self._picked = ''
        elif stage.do in ('expect_part', 'payload_part'):  # a part was handed to it, at any place
            self._picked = self._closed
        if stage.do.startswith('payload_'):
            self._payload = stage.name if stage.do == 'payload_part' else ''

    def problem_at_end(self) -> str:
        """Return what a cycle must not leave behind, or ''."""
        if self._payload and not self._closed:
            return f'the payload is still that of {self._payload!r}: add {{do: payload_tool}}'
        if self._payload:
            return f'{self._payload!r} adds a part: release it at a place with {{do: open}}'
        if self._picked:
            return f'{self._picked!r} gripped a part: release it at a place with {{do: open}}'
        return ''

    def _move(self) -> str:
        if self._payload and not self._closed:
            return (
                f'the part was released, and the payload is still that of stage '
                f'{self._payload!r}: must come after {{do: payload_tool}}'
            )
        return ''

    def _open(self) -> str:
        if self._picked and not is_part_place(self._place):
            below = taught_place(self._place)
            such = f', such as {{do: lin, to: {below}}}' if is_part_place(below) else ''
            at = f' at {self._place}' if self._place else ''
            return (
                f'the part of stage {self._picked!r} would fall'
                f'{at}: must come after a move to a place{such}'
            )
        if is_part_place(self._place) and not self._closed:
            return (
                f'nothing is held at {self._place}: must come after {{do: close}}, or before the '
                'move to that place'
            )
        return ''

    def _expect_part(self) -> str:
        return '' if self._closed else 'the gripper is open: must come after {do: close}'

    def _expect_no_part(self) -> str:
        if self._closed:
            return f'stage {self._closed!r} closed the gripper: must come after {{do: open}}'
        return ''

    def _payload_part(self) -> str:
        return '' if self._closed else 'nothing is held: must come after {do: close}'

    def _payload_tool(self) -> str:
        if self._picked and self._payload:
            return f'the part of stage {self._picked!r} is held: must come after {{do: open}}'
        return ''
