# SPDX-License-Identifier: Apache-2.0
"""The stages of a cycle as data, read from a file that a user can change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.planning.scene import check_number

MOVES = ('ptp', 'lin', 'lin_or_ptp')
ACTIONS = ('open', 'close', 'expect_part', 'expect_no_part', 'payload_part', 'payload_tool')
PLACES = ('home', 'start', 'target', 'above_start', 'above_target')
PACES = ('travel', 'approach')
MAX_BLEND = 0.2  # [m]
_MAX_STAGES = 100


@dataclass(frozen=True)
class Stage:
    """
    One step of a cycle: a move or an action.

    Attributes
    ----------
    name : str
        As displayed and logged.
    do : str
        One of `MOVES` or `ACTIONS`.
    to : str
        One of `PLACES`, for a move.
    pace : str
        One of `PACES`, for a move.
    blend : float
        Radius about its place within which the next move may begin without a stop [m].

    """

    name: str
    do: str
    to: str = ''
    pace: str = 'travel'
    blend: float = 0.0

    def __post_init__(self) -> None:
        _check_choice(self.name, 'do', self.do, (*MOVES, *ACTIONS))
        _check_choice(self.name, 'pace', self.pace, PACES)
        if self.is_move:
            _check_choice(self.name, 'to', self.to, PLACES)
        elif self.to or self.blend:
            raise InvalidInput(f'stage {self.name!r}: {self.do} takes no "to" and no "blend"')
        if not 0.0 <= self.blend <= MAX_BLEND:
            raise InvalidInput(
                f'stage {self.name!r}: blend = {self.blend} m: must lie in 0 to {MAX_BLEND} m'
            )

    @property
    def is_move(self) -> bool:
        """Whether the arm moves."""
        return self.do in MOVES


def load_cycle(path: Path) -> tuple[Stage, ...]:
    """
    Return the stages of a cycle, read from a file.

    Raises
    ------
    InvalidInput
        The file is missing or malformed; names the stage, the key and the values allowed.

    """
    content = read_yaml(path, 'cycle file')
    stages = content.get('stages') if isinstance(content, Mapping) else None
    if not isinstance(stages, list) or not 1 <= len(stages) <= _MAX_STAGES:
        raise InvalidInput(f'cycle file {path}: needs "stages:", a list of 1 to {_MAX_STAGES}')
    try:
        return tuple(_stage(entry, i) for i, entry in enumerate(stages))
    except InvalidInput as error:
        raise InvalidInput(f'cycle file {path}: {error}') from error


def _stage(entry: Any, i: int) -> Stage:
    known = Stage.__dataclass_fields__
    if not isinstance(entry, Mapping) or not {'name', 'do'} <= entry.keys() <= known.keys():
        raise InvalidInput(
            f'stage {i + 1}: {entry!r} must have name, do and, for a move, to, pace, blend'
        )
    for key, value in entry.items():
        if key != 'blend' and not isinstance(value, str):
            raise InvalidInput(f'stage {i + 1}: {key} = {value!r} must be text')
    return Stage(**{**entry, 'blend': check_number('blend', entry.get('blend', 0.0))})


def without_stops(cycle: Sequence[Stage]) -> list[tuple[Stage, ...]]:
    """Return the stages in groups: moves that blend into each other, else one stage alone."""
    groups: list[tuple[Stage, ...]] = []
    for stage in cycle:
        if groups and stage.is_move and groups[-1][-1].blend:
            groups[-1] = (*groups[-1], stage)
        else:
            groups.append((stage,))
    return groups


def _check_choice(stage: str, key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidInput(f'stage {stage!r}: {key} = {value!r}, must be one of {choices}')
