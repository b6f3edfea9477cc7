# SPDX-License-Identifier: Apache-2.0
"""
Several cycles in one run: the same places each time, or the positions on a pallet.

A cycle moves one part, or several one after the other; each such `Transfer` has a place where the
part is gripped and one where it is released.

Parts at other positions are obstacles to the arm and the open gripper; the carried part may touch
but not penetrate them. The pitch must therefore leave room for the gripper. The plan, the rest of
a paused motion and the motion home after a stop respect them; the gate of
`trajectory_planner` checks its own scene, which does not contain these parts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.planning.scene.scene import Part
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.cycle.steps import Transfer
from ur5_pick_place.task.places.names import START, TARGET, is_part_place, taught_place
from ur5_pick_place.task.places.poses import TaughtPose, numbers_from_matrix

MAX_CYCLES = 1000
PATTERNED = START, TARGET
"""The places that may have a grid: the one that is emptied and the one that is filled."""

_GRID = 'number of positions along x and along y of the taught TCP, and of layers against its z'
_PITCH = 'distance between positions along x and along y, and between layers'


@dataclass(frozen=True)
class PatternSettings(Settings):
    """The number of cycles in a run, and where each picks and places its part."""

    cycles: int = setting(
        0, 'cycles in a run; 0 = one per position of the larger pattern', low=0, high=MAX_CYCLES
    )
    start_grid: tuple[int, ...] = setting(
        (1, 1, 1), f'{_GRID}; start is its first position', low=1, high=50, length=3
    )
    start_pitch: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), f'{_PITCH} at start', unit='m', low=-1.0, high=1.0, length=3
    )
    target_grid: tuple[int, ...] = setting(
        (1, 1, 1), f'{_GRID}; target is its first position', low=1, high=50, length=3
    )
    target_pitch: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0), f'{_PITCH} at target', unit='m', low=-1.0, high=1.0, length=3
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for place in PATTERNED:
            grid, pitch = self.pattern(place)
            if any(n > 1 and d == 0.0 for n, d in zip(grid, pitch, strict=True)):
                raise InvalidInput(
                    f'{place}_grid = {list(grid)} with {place}_pitch = {list(pitch)} m: positions '
                    'would coincide; set a pitch other than 0 for each repeated direction'
                )
        starts, targets = np.prod(self.start_grid), np.prod(self.target_grid)
        if min(starts, targets) > 1 and starts != targets:
            raise InvalidInput(
                f'{starts} positions at start and {targets} at target: must be equal, or one of '
                'them 1'
            )
        positions = max(starts, targets)
        if positions > MAX_CYCLES:
            larger = START if starts == positions else TARGET
            raise InvalidInput(
                f'{larger}_grid = {list(self.pattern(larger)[0])}: {positions} positions: must be '
                f'at most {MAX_CYCLES}; use a smaller grid'
            )
        if 1 < positions < self.cycles:
            raise InvalidInput(
                f'cycles = {self.cycles} with {positions} positions: must be at most {positions}; '
                '0 = one cycle per position'
            )

    @property
    def gridded(self) -> tuple[str, ...]:
        """The places that have more than one position."""
        return tuple(place for place in PATTERNED if max(self.pattern(place)[0]) > 1)

    def pattern(self, place: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return the grid and the pitch [m] at one of `PATTERNED`."""
        return getattr(self, f'{place}_grid'), getattr(self, f'{place}_pitch')


def check_pattern(settings: PatternSettings, poses: Mapping[str, TaughtPose]) -> None:
    """Raise `InvalidInput` if a place with a pattern is not among the poses of a cycle."""
    for place in settings.gridded:
        if place not in poses:
            grid = list(settings.pattern(place)[0])
            raise InvalidInput(
                f'{place}_grid = {grid}: the cycle does not move to a place {place!r}: must be '
                '[1, 1, 1], or one of its places must have that name'
            )


@dataclass
class PatternProgress:
    """
    How many cycles of a pattern are done; the next run continues there.

    A cycle counts as soon as its part may fall, as a run may be stopped before the fingers are
    open, and the next part must not be laid on this one.
    """

    done: int = 0
    _is_unconfirmed: bool = False

    def begin(self, done: int = 0) -> None:
        """Begin after `done` cycles."""
        self.done, self._is_unconfirmed = done, False

    def release(self, number: int) -> None:
        """Count cycle `number`, whose release begins now."""
        if number != self.done:  # else an earlier release of the same cycle has counted it
            self.done, self._is_unconfirmed = number, True

    def settle(self, is_held: bool) -> None:
        """Take the count of the release back if its part is still held; else it is final."""
        if self._is_unconfirmed and is_held:
            self.done -= 1
        self._is_unconfirmed = False


def poses_by_cycle(
    settings: PatternSettings, poses: Mapping[str, TaughtPose]
) -> list[Mapping[str, TaughtPose]]:
    """
    Return the poses for each cycle of a run.

    A pattern at target is filled layer by layer, in each layer along x first, then along y. One
    at start is emptied in the reverse order, from its last position. A pattern at a place without
    a pose is left out.
    """
    patterns: dict[str, list[TaughtPose]] = {}
    for place in PATTERNED:
        if place in poses:
            found = _grid_poses(poses[place], *settings.pattern(place))
            patterns[place] = found[::-1] if place == START else found
    n = settings.cycles or max(map(len, patterns.values()), default=1)
    return [
        {**poses, **{place: found[i % len(found)] for place, found in patterns.items()}}
        for i in range(n)
    ]


class PlacedPart(NamedTuple):
    """
    A part at another place.

    - `pose`: the TCP at the place where it was put, or where it waits
    - `transfer`: index of the transfer that put it there; -1 if it was brought
    """

    pose: TaughtPose
    transfer: int = -1


def shared_spots(
    poses: Mapping[str, TaughtPose], gridded: Collection[str], part: Part
) -> dict[str, str]:
    """
    Return, by place, the first place at which the same part would lie: where two would overlap.

    A part may be put down at one of them and gripped at another, with the hand turned or shifted.
    A place with a grid is a spot of its own.
    """
    spots: dict[str, str] = {}
    centres: dict[str, Array] = {}
    for name in filter(is_part_place, poses):
        centre = (poses[name].T_base_tcp @ part.T_tcp_part)[:3, 3]
        spots[name] = name
        if name not in gridded:
            near = (k for k, c in centres.items() if np.linalg.norm(c - centre) < min(part.size))
            spots[name] = next(near, name)
            centres.setdefault(spots[name], centre)
    return spots


def others(
    cycle_poses: Sequence[Mapping[str, TaughtPose]],
    i: int,
    moved: Sequence[Transfer],
    released: int = 0,
    near: Iterable[str] = (),
    spots: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PlacedPart, ...]:
    """
    Return where other parts are during cycle `i`: placed before, or not yet picked.

    The places of the part that is being moved hold none: a feeder brings and removes the parts
    there. A part that one transfer lays down and a later one picks up is there in between.

    - `cycle_poses`: the poses of each cycle
    - `i`: index of the cycle
    - `moved`: the parts that each cycle moves
    - `released`: how many of its parts the cycle has released
    - `near`: places that the arm leaves or reaches: their parts are no obstacles
    - `spots`: see `shared_spots`; a place that is missing is its own
    """
    if not moved:
        return ()

    def spot(poses: Mapping[str, TaughtPose], place: str) -> Any:
        """Return a key of where a part lies, equal for all places at which it would be that."""
        first = spots.get(place, place)
        return (first, poses[first].pose) if first in poses else None

    now = min(released, len(moved) - 1)
    poses, present = cycle_poses[i], moved[now]
    done = [(past, k) for past in cycle_poses[:i] for k in range(len(moved))]
    done += [(poses, k) for k in range(released)]
    coming = [(poses, t) for t in moved[now + 1 :]]
    coming += [(later, t) for later in cycle_poses[i + 1 :] for t in moved]
    own = {spot(poses, taught_place(name)) for name in (present.pick, present.release, *near)}
    parts: dict[Any, PlacedPart] = {}
    for past, k in done:
        t = moved[k]
        parts.pop(spot(past, t.pick), None)
        if key := spot(past, t.release):
            parts[key] = PlacedPart(past[t.release], k)
    brought = {spot(poses, present.release)}
    for later, t in coming:
        if (key := spot(later, t.pick)) and key not in brought:
            parts.setdefault(key, PlacedPart(later[t.pick]))  # else it is where it was put
        brought.add(spot(later, t.release))
    return tuple(part for key, part in parts.items() if key not in own)


def grasps(
    poses: Mapping[str, TaughtPose],
    moved: Sequence[Transfer],
    spots: Mapping[str, str],
    part: Part,
) -> tuple[Array, ...]:
    """
    Return T_tcp_part, (4, 4), of each transfer of a cycle.

    A part that an earlier transfer put down is where that one put it, however the hand comes.
    """
    found: list[Array] = []
    put: dict[str, Array] = {}  # T_base_part by spot
    for t in moved:
        T_base_part = put.pop(spots.get(t.pick, t.pick), None)
        T_tcp_part = part.T_tcp_part
        if T_base_part is not None:
            T_tcp_part = inverse_transform(poses[t.pick].T_base_tcp) @ T_base_part
        found.append(T_tcp_part)
        if t.release:
            put[spots.get(t.release, t.release)] = poses[t.release].T_base_tcp @ T_tcp_part
    return tuple(found)


def _grid_poses(
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
