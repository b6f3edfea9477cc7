# SPDX-License-Identifier: Apache-2.0
"""The stages of a cycle as data, read from a file that a user can change."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ur5_pick_place.config_files import load_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import REQUIRED, Settings, setting

MOVES = ('ptp', 'lin', 'lin_or_ptp')
ACTIONS = ('open', 'close', 'expect_part', 'expect_no_part', 'payload_part', 'payload_tool')
PLACES = ('home', 'start', 'target', 'above_start', 'above_target')
PACES = ('travel', 'approach')
MAX_BLEND = 0.2  # [m]
_MAX_STAGES = 100


@dataclass(frozen=True)
class Stage(Settings):
    """One step of a cycle: a move or an action."""

    name: str = setting(REQUIRED, 'as displayed and logged', kind=str)
    do: str = setting(REQUIRED, 'the move or action', kind=str, choices=(*MOVES, *ACTIONS))
    to: str = setting('', 'the place that a move leads to, one of `PLACES`')
    pace: str = setting('travel', 'the speeds of a move', choices=PACES)
    blend: float = setting(
        0.0,
        'radius about the place of a move within which the next one may begin without a stop',
        unit='m',
        low=0.0,
        high=MAX_BLEND,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_move and self.to not in PLACES:
            raise InvalidInput(
                f'stage {self.name!r}: to = {self.to!r}: must be one of {", ".join(PLACES)}'
            )
        if not self.is_move and (self.to or self.blend):
            raise InvalidInput(f'stage {self.name!r}: {self.do} takes no "to" and no "blend"')

    @property
    def is_move(self) -> bool:
        """Whether the arm moves."""
        return self.do in MOVES


@dataclass(frozen=True)
class _CycleFile(Settings):
    title = 'cycle'

    stages: tuple[Stage, ...] = setting(REQUIRED, 'in order', kind=tuple, of=Stage)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.stages) <= _MAX_STAGES:
            raise InvalidInput(f'{len(self.stages)} stages: must be a list of 1 to {_MAX_STAGES}')


def load_cycle(path: Path) -> tuple[Stage, ...]:
    """
    Return the stages of a cycle, read from a file.

    Raises
    ------
    InvalidInput
        The file is missing or malformed; names the stage, the key and the values allowed.

    """
    return load_yaml(path, 'cycle file', _CycleFile.from_dict).stages


def without_stops(cycle: Sequence[Stage]) -> list[tuple[Stage, ...]]:
    """Return the stages in groups: moves that blend into each other, else one stage alone."""
    groups: list[tuple[Stage, ...]] = []
    for stage in cycle:
        if groups and stage.is_move and groups[-1][-1].blend:
            groups[-1] = (*groups[-1], stage)
        else:
            groups.append((stage,))
    return groups
