# SPDX-License-Identifier: Apache-2.0
"""
Several cycles in one run: the same places each time, or the cells of a pallet.

Parts at other cells are obstacles to the arm and the open gripper; the carried part may touch but
not penetrate them. The pitch must therefore leave room for the gripper. The plan, the rest of a
paused motion and the motion home after a stop respect them; the planner node's own check knows
table and boxes only.

"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.poses import TaughtPose, numbers_from_matrix

MAX_CYCLES = 1000

_GRID = 'rows along x and columns along y of the taught TCP, and layers against its z'
_PITCH = 'distance between rows, between columns and between layers'


@dataclass(frozen=True)
class PatternSettings(Settings):
    """The number of cycles in a run, and where each picks and places its part."""

    cycles: int = setting(
        0, 'cycles in a run; 0 = one for every cell of the larger pattern', low=0, high=MAX_CYCLES
    )
    start_grid: tuple[int, ...] = setting(
        (1, 1, 1), f'{_GRID}; start is its first cell', low=1, high=50, length=3
    )
    start_pitch: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), f'{_PITCH} at start', unit='m', low=-1.0, high=1.0, length=3
    )
    target_grid: tuple[int, ...] = setting(
        (1, 1, 1), f'{_GRID}; target is its first cell', low=1, high=50, length=3
    )
    target_pitch: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), f'{_PITCH} at target', unit='m', low=-1.0, high=1.0, length=3
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in ('start', 'target'):
            grid, pitch = getattr(self, f'{place}_grid'), getattr(self, f'{place}_pitch')
            if any(n > 1 and d == 0.0 for n, d in zip(grid, pitch, strict=True)):
                raise InvalidInput(
                    f'{place}_grid = {list(grid)} with {place}_pitch = {list(pitch)} m: cells '
                    'would coincide; set a pitch other than 0 for each repeated direction'
                )
        starts, targets = np.prod(self.start_grid), np.prod(self.target_grid)
        if min(starts, targets) > 1 and starts != targets:
            raise InvalidInput(
                f'{starts} cells at start and {targets} at target: must be equal, or one of them 1'
            )
        cells = max(starts, targets)
        if cells > MAX_CYCLES or (cells > 1 and self.cycles > cells):
            raise InvalidInput(
                f'{self.cycles} cycles for {cells} cells: at most 1 per cell, {MAX_CYCLES} in all'
            )


def cells(
    settings: PatternSettings, poses: Mapping[str, TaughtPose]
) -> list[Mapping[str, TaughtPose]]:
    """
    Return the poses for each cycle of a run.

    A pattern at start is emptied from its last layer down, one at target filled from its first
    layer up, rows before columns.

    """
    if not {'start', 'target'} <= poses.keys():
        return [poses] * (settings.cycles or 1)
    starts = _cells_at(poses['start'], settings.start_grid, settings.start_pitch)[::-1]
    targets = _cells_at(poses['target'], settings.target_grid, settings.target_pitch)
    n = settings.cycles or max(len(starts), len(targets))
    return [
        {**poses, 'start': starts[i % len(starts)], 'target': targets[i % len(targets)]}
        for i in range(n)
    ]


def others(runs: Sequence[Mapping[str, TaughtPose]], i: int) -> tuple[TaughtPose, ...]:
    """
    Return where other parts are during cycle `i`: placed before, or not yet picked.

    The places of cycle `i` itself hold none: a feeder brings and removes the parts there.

    """
    own = [runs[i].get(place) for place in ('start', 'target')]
    laid = [run['target'] for run in runs[:i] if 'target' in run]
    waiting = [run['start'] for run in runs[i + 1 :] if 'start' in run]
    return tuple(pose for pose in dict.fromkeys(laid + waiting) if pose not in own)


def _cells_at(
    first: TaughtPose, grid: tuple[int, ...], pitch: tuple[float, ...]
) -> list[TaughtPose]:
    """Return the poses of a pattern, layer by layer, beginning with `first` itself."""
    found = []
    for layer, column, row in product(*(range(n) for n in reversed(grid))):
        T = first.T_base_tcp
        T[:3, 3] += T[:3, :3] @ (np.array(pitch) * [row, column, -layer])
        found.append(replace(first, pose=numbers_from_matrix(T)))
    found[0] = first
    return found
