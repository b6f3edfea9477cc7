# SPDX-License-Identifier: Apache-2.0
"""
A cycle step by step: each stage, with what is in the gripper and in the payload around it.

This is the only place that knows what the stages mean for the part: planner, pattern and run read
it from the steps, and a cycle is checked here as a whole.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.cycle.stages import SET_OUTPUT, Stage
from ur5_pick_place.task.places.names import TARGET, above, is_part_place, near_miss, taught_place


@dataclass(frozen=True)
class Hand:
    """What is in the gripper, and in the payload, between two stages."""

    place: str = ''  # where the arm is; empty before the first move
    # the stage that closed the gripper; None = it is open, or as it was before the cycle
    closed: Stage | None = None
    closed_at: str = ''  # the place where that was
    picked: Stage | None = None  # that stage, if the gripper may hold a part
    payload: Stage | None = None  # the stage that added the part to the payload

    @property
    def is_at_part(self) -> bool:
        """Whether it is at a place where a part may lie."""
        return is_part_place(self.place)

    @property
    def gripped_at(self) -> str:
        """The place of the part that it has gripped; empty if it has gripped none at a place."""
        return self.closed_at if is_part_place(self.closed_at) else ''

    def after(self, stage: Stage) -> 'Hand':
        if stage.is_move:
            return replace(self, place=stage.to)
        if stage.do == 'close':
            picked = stage if self.is_at_part else None
            return replace(self, closed=stage, closed_at=self.place, picked=picked)
        if stage.do == 'open':
            return replace(self, closed=None, closed_at='', picked=None)
        if stage.do == 'payload_tool':
            return replace(self, payload=None)
        if stage.do in ('expect_part', 'payload_part'):  # a part was handed to it, at any place
            payload = stage if stage.do == 'payload_part' else self.payload
            return replace(self, picked=self.closed, payload=payload)
        return self


@dataclass(frozen=True)
class Step:
    """A stage of a cycle."""

    stage: Stage
    before: Hand = Hand()
    after: Hand = Hand()
    released: int = 0  # how many parts of this cycle were released before
    # whether the payload that is set before the next move has the part; None = none is set
    payload: bool | None = None
    # whether a later stage looks for the part before the gripper moves again
    is_part_checked: bool = False
    # whether it releases a part into a position of a pattern: at target, or the last part
    fills: bool = False

    @property
    def is_carrying(self) -> bool:
        """Whether the gripper counts as holding a part when the stage begins."""
        return self.before.closed is not None


class Transfer(NamedTuple):
    """
    One part that a cycle moves.

    `pick`, `release`: the places where it is gripped and released; empty if it is not.
    """

    pick: str
    release: str


def check_cycle(
    stages: Sequence[Stage], places: Collection[str], gripper_outputs: Collection[int]
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
            _refuse(_problem(stage, hand), number, stage)


def _refuse(problem: str, number: int, stage: Stage) -> None:
    if problem:
        key = f'stages[{number}].do'
        raise InvalidInput(f'{key} = {stage.do!r} at stage {stage.name!r}: {problem}', key)


def _problem(stage: Stage, hand: Hand) -> str:
    """Return why a stage cannot follow, and what to do instead; '' if it can."""
    closed, picked, payload = hand.closed, hand.picked, hand.payload
    if stage.is_move and payload and not closed:
        return (
            'the part was released, and the payload is still that of stage '
            f'{payload.name!r}: must come after {{do: payload_tool}}'
        )
    match stage.do:
        case 'close' if closed:
            return (
                f'the gripper was closed by stage {closed.name!r} already: must come after a '
                'release, {do: open}'
            )
        case 'open':
            return _open(hand)
        case 'expect_part' if not closed:
            return 'the gripper is open: must come after {do: close}'
        case 'expect_no_part' if closed:
            return f'stage {closed.name!r} closed the gripper: must come after {{do: open}}'
        case 'payload_part' if not closed:
            return 'nothing is held: must come after {do: close}'
        case 'payload_tool' if picked and payload:
            return f'the part of stage {picked.name!r} is held: must come after {{do: open}}'
    return ''


def _problem_at_end(hand: Hand) -> str:
    """Return what a cycle must not leave behind, or ''."""
    if hand.payload and not hand.closed:
        return f'the payload is still that of {hand.payload.name!r}: add {{do: payload_tool}}'
    if hand.payload:
        return f'{hand.payload.name!r} adds a part: release it at a place with {{do: open}}'
    if hand.picked:
        return f'{hand.picked.name!r} gripped a part: release it at a place with {{do: open}}'
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


def annotate(stages: Sequence[Stage]) -> tuple[Step, ...]:
    hands = list(accumulate(stages, Hand.after, initial=Hand()))
    releases = [i for i, around in enumerate(pairwise(hands)) if _releases(*around)]
    at_places = [i for i in releases if hands[i].is_at_part]
    return tuple(
        Step(
            stage,
            before=hands[i],
            after=hands[i + 1],
            released=sum(k < i for k in releases),
            payload=_payload_before_move(stages[i + 1 :]),
            is_part_checked=_is_part_expected(stages[i + 1 :]),
            fills=i in at_places and (i == at_places[-1] or hands[i].place == TARGET),
        )
        for i, stage in enumerate(stages)
    )


def _releases(before: Hand, after: Hand) -> bool:
    return bool(before.gripped_at) and not after.gripped_at


def _payload_before_move(ahead: Iterable[Stage]) -> bool | None:
    for stage in ahead:
        if stage.is_move:
            return None
        if stage.do.startswith('payload_'):
            return stage.do == 'payload_part'
    return None


def _is_part_expected(ahead: Iterable[Stage]) -> bool:
    acts = (stage.do for stage in ahead if stage.do in ('expect_part', 'open', 'close'))
    return next(acts, '') == 'expect_part'


def transfers(steps: Sequence[Step]) -> tuple[Transfer, ...]:
    """Return the parts that a cycle moves, in order."""
    found = [
        Transfer(step.before.gripped_at, step.after.place if step.after.is_at_part else '')
        for step in steps
        if _releases(step.before, step.after)
    ]
    kept = steps[-1].after.gripped_at if steps else ''
    return (*found, Transfer(kept, '')) if kept else tuple(found)


def first_grip(steps: Iterable[Step]) -> str:
    """Return the place that a cycle grips at before it opens the gripper; '' if there is none."""
    step = next((step for step in steps if step.stage.do in ('open', 'close')), None)
    return step.after.gripped_at if step else ''


def blended_groups(steps: Iterable[Step]) -> list[tuple[Step, ...]]:
    """Return the steps in groups: moves that blend into each other, else one alone."""
    groups: list[tuple[Step, ...]] = []
    for step in steps:
        if groups and step.stage.is_move and groups[-1][-1].stage.blend:
            groups[-1] = (*groups[-1], step)
        else:
            groups.append((step,))
    return groups
