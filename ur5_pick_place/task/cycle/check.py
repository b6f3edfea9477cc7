# SPDX-License-Identifier: Apache-2.0
"""A cycle checked as a whole: whether each stage can follow what the gripper then holds."""

from collections.abc import Collection, Sequence
from itertools import accumulate

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.cycle.stages import SET_OUTPUT, Stage
from ur5_pick_place.task.cycle.steps import Hand
from ur5_pick_place.task.places.names import above, is_part_place, near_miss, taught_place


def check_cycle(
    stages: Sequence[Stage], places: Collection[str], gripper_outputs: Collection[int] = ()
) -> None:
    """
    Refuse an impossible sequence of stages, an unknown place, or an output of the gripper.

    - `places`: without the points above them, which each place has
    - `gripper_outputs`: the outputs that only the gripper may set

    Raises `InvalidInput`: with the `key` of the stage, such as 'stages[3].to'.

    """
    known = (*places, *map(above, places))
    hands = list(accumulate((*stages, *stages), Hand.after, initial=Hand()))
    for number, (stage, hand) in enumerate(zip(stages, hands, strict=False)):
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
        _refuse(_problem(stage, hand), number, stage)
    last = len(stages) - 1
    if problem := _problem_at_end(hands[len(stages)]):
        raise InvalidInput(
            f'stages[{last}] = {stages[last].name!r} ends the cycle, but {problem}',
            f'stages[{last}]',
        )
    for number, stage in enumerate(stages):  # the next cycle, with the gripper as this one left it
        hand = hands[len(stages) + number]
        if hand.is_at_part and stage.do == 'close':
            _refuse(_close(hand), number, stage)


def _refuse(problem: str, number: int, stage: Stage) -> None:
    if problem:
        key = f'stages[{number}].do'
        raise InvalidInput(f'{key} = {stage.do!r} at stage {stage.name!r}: {problem}', key)


def _problem(stage: Stage, hand: Hand) -> str:
    """Return why a stage cannot follow, and what to do instead; '' if it can."""
    checks = {
        'close': _close,
        'open': _open,
        'expect_part': _expect_part,
        'expect_no_part': _expect_no_part,
        'payload_part': _payload_part,
        'payload_tool': _payload_tool,
    }
    check = _move if stage.is_move else checks.get(stage.do)
    return check(hand) if check else ''


def _problem_at_end(hand: Hand) -> str:
    """Return what a cycle must not leave behind, or ''."""
    if hand.payload and not hand.closed:
        return f'the payload is still that of {hand.payload.name!r}: add {{do: payload_tool}}'
    if hand.payload:
        return f'{hand.payload.name!r} adds a part: release it at a place with {{do: open}}'
    if hand.picked:
        return f'{hand.picked.name!r} gripped a part: release it at a place with {{do: open}}'
    return ''


def _move(hand: Hand) -> str:
    if hand.payload and not hand.closed:
        return (
            f'the part was released, and the payload is still that of stage '
            f'{hand.payload.name!r}: must come after {{do: payload_tool}}'
        )
    return ''


def _close(hand: Hand) -> str:
    if hand.closed:
        return (
            f'the gripper was closed by stage {hand.closed.name!r} already: must come after a '
            'release, {do: open}'
        )
    return ''


def _open(hand: Hand) -> str:
    if hand.picked and not hand.is_at_part:
        below = taught_place(hand.place)
        such = f', such as {{do: lin, to: {below}}}' if is_part_place(below) else ''
        at = f' at {hand.place}' if hand.place else ''
        return (
            f'the part of stage {hand.picked.name!r} would fall'
            f'{at}: must come after a move to a place{such}'
        )
    if hand.is_at_part and not hand.closed:
        return (
            f'nothing is held at {hand.place}: must come after {{do: close}}, or before the '
            'move to that place'
        )
    return ''


def _expect_part(hand: Hand) -> str:
    return '' if hand.closed else 'the gripper is open: must come after {do: close}'


def _expect_no_part(hand: Hand) -> str:
    if hand.closed:
        return f'stage {hand.closed.name!r} closed the gripper: must come after {{do: open}}'
    return ''


def _payload_part(hand: Hand) -> str:
    return '' if hand.closed else 'nothing is held: must come after {do: close}'


def _payload_tool(hand: Hand) -> str:
    if hand.picked and hand.payload:
        return f'the part of stage {hand.picked.name!r} is held: must come after {{do: open}}'
    return ''
