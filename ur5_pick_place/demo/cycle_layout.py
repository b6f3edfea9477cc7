# SPDX-License-Identifier: Apache-2.0
"""Any cycle file on the simulated cell: where its places lie, and who presses its buttons."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.config_files import user_path
from ur5_pick_place.demo.configuration import CONFIG, CellSetup, Configuration
from ur5_pick_place.demo.spots import Displacement, Spot
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    T_BASE_LINK_BASE,
    Array,
    rpy_from_matrix,
    tool_down,
)
from ur5_pick_place.sim.layouts import LAYOUTS
from ur5_pick_place.sim.physics.cell import MAX_PARTS, upright
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.file import Cycle, load_cycle
from ur5_pick_place.task.cycle.pattern import PatternSettings, poses_by_cycle
from ur5_pick_place.task.cycle.stages import WAIT_INPUT, Stage
from ur5_pick_place.task.cycle.steps import annotate, transfers
from ur5_pick_place.task.grippers.registry import gripper_type
from ur5_pick_place.task.places.names import DEFAULT_PLACES, HOME, TARGET
from ur5_pick_place.task.places.poses import Provenance, TaughtPose, numbers_from_matrix

DEFAULT_CYCLE = 'cycle.yaml'
_PITCH = (0.06, 0.09, 0.0452)  # [m] of a pattern of cubes
_WALL_LENGTH, _WALL_THICKNESS = 0.36, 0.02  # [m]
_REACTION = 0.5  # [s] from the start of a wait for an input to the press of its button
_NOBODY = Provenance('', '', (0.0,) * 7, 0.0)


@dataclass(frozen=True)
class Task:
    """What a run does with the cubes."""

    spots: Mapping[str, Spot]  # where the places of the cycle are taught, by name
    # by cube of one cycle: the place where it lies at first, and where it ends
    moves: tuple[tuple[str, str], ...]
    # (4, 4) where each cube of the run must lie at the end, in `base_link`, in order of feeding
    ends: tuple[Array, ...] = field(compare=False)
    displacement: Displacement | None = None  # how the only cube is moved after teaching

    @property
    def start(self) -> Spot | None:
        """Where the first cube lies; None without a cube."""
        return self.spots[self.moves[0][0]] if self.moves else None

    @property
    def target(self) -> Spot | None:
        """Where the first cube is put down; None without a cube."""
        return self.spots[self.moves[0][1]] if self.moves else None

    @property
    def cycles(self) -> int:
        """Number of cycles of the run."""
        return len(self.ends) // len(self.moves) if self.moves else 1

    def facts(self) -> dict[str, Any]:
        """Return as JSON values what `report.evaluation` needs; spots in metres and degrees."""
        spots = {'start': self.start, 'target': self.target}
        moved = self.displacement
        return {
            'ends': [T.tolist() for T in self.ends],
            **{
                name: {'x': spot.x, 'y': spot.y, 'yaw': round(math.degrees(spot.yaw), 6)}
                for name, spot in spots.items()
                if spot
            },
            'displacement': moved
            and {
                'dx': round(1e3 * moved.dx, 6),
                'dy': round(1e3 * moved.dy, 6),
                'dyaw': round(math.degrees(moved.dyaw), 6),
            },
        }


def transfer(start: Spot, target: Spot, displacement: Displacement | None = None) -> Task:
    """Return the task of moving one cube from start to target."""
    spots = {'start': start, 'target': target}
    return Task(spots, (('start', 'target'),), (target.T_base_link_part,), displacement)


def read_cycle(name: str, gripper: str) -> tuple[Path, Cycle]:
    """
    Return the path of a cycle file, and its cycle.

    Without a name it is that of config/; a bare file name that is not in the current folder is
    looked up there.

    Raises `InvalidInput`: the file is missing or invalid, or sets an output that this kind of
    gripper uses.
    """
    given = user_path(name)
    is_own = bool(name) and (given.name != name or os.path.lexists(given))
    path = (given if is_own else CONFIG / (name or DEFAULT_CYCLE)).absolute()
    kind, own = gripper_type(gripper), Configuration({'gripper': gripper})
    return path, load_cycle(path, kind(own.read(kind.settings_type), None).pins)


def layout(cycle: Cycle, setup: CellSetup = CellSetup()) -> dict[str, Spot]:
    """
    Return a spot on the table for each place of a cycle but home and those read from a frame.

    Raises `InvalidInput`: there are too many.
    """
    taught = [n for n, place in cycle.places.items() if n != HOME and not place.from_frame]
    picks = {t.pick for t in transfers(annotate(cycle))}
    found: dict[str, Spot] = {}
    of_type = LAYOUTS[setup.ur_type]
    for is_pick, spots in ((True, of_type.picks), (False, of_type.releases)):
        names = [n for n in taught if (n in picks) is is_pick]
        names.sort(key=lambda name: name not in DEFAULT_PLACES)
        if len(names) > len(spots):
            raise InvalidInput(
                f'{len(names)} places {"to pick from" if is_pick else "without a pick"}: at most '
                f'{len(spots)} fit on the table of the simulated cell'
            )
        found |= {name: Spot(*spot, setup) for name, spot in zip(names, spots, strict=False)}
    return found


def pattern(grid: tuple[int, ...] | None) -> dict[str, Any]:
    """Return the parameters of a pattern of cubes at target; none without a grid."""
    if grid is None:
        return {}
    return {'target_grid': list(grid), 'target_pitch': list(_PITCH)}


def task_of(
    cycle: Cycle,
    spots: Mapping[str, Spot],
    grid: tuple[int, ...] | None = None,
    displacement: Displacement | None = None,
) -> Task:
    """
    Return what a cycle does with cubes at these spots.

    Raises `InvalidInput`: it reads a place from a TF frame, which nobody publishes here, or does
    not go with that grid or displacement.
    """
    for name, place in cycle.places.items():
        if place.from_frame:
            raise InvalidInput(
                f'place {name!r} is read from the TF frame {place.from_frame!r}, which the demo '
                'does not publish: use make cell CYCLE=… and examples/tag_broadcaster.py'
            )
    moves = tuple(moves_of(cycle).items())
    if grid and (len(moves) != 1 or TARGET not in spots):
        raise InvalidInput(
            '--grid needs a cycle that picks from one place and has a place named target'
        )
    ends = _ends(moves, spots, grid)
    if len(ends) > MAX_PARTS:
        raise InvalidInput(
            f'--grid {" ".join(map(str, grid or ()))}: the cycle needs {len(ends)} cubes, the '
            f'simulated cell holds at most {MAX_PARTS}: fill fewer cells'
        )
    if displacement and len(ends) != 1:
        raise InvalidInput(
            f'--displace needs a run that moves one cube, this one moves {len(ends)}: leave it out'
        )
    return Task(spots, moves, ends, displacement)


def moves_of(cycle: Cycle) -> dict[str, str]:
    """
    Return where each part must lie at first, in order, and where it ends.

    A place at which an earlier transfer puts a part down needs none.
    """
    found: dict[str, str] = {}
    laid: set[str] = set()
    for transfer in transfers(annotate(cycle)):
        for first, at in found.items():
            if at == transfer.pick:
                found[first] = transfer.release
        if transfer.pick not in laid:
            found.setdefault(transfer.pick, transfer.release)
        laid.add(transfer.release)
    return found


def _ends(
    moves: Sequence[tuple[str, str]], spots: Mapping[str, Spot], grid: tuple[int, ...] | None
) -> tuple[Array, ...]:
    """Return where each cube must lie at the end, (4, 4) in `base_link`, in order of feeding."""
    poses = {
        name: TaughtPose(numbers_from_matrix(T_BASE_BASE_LINK @ s.T_base_link_grip), _NOBODY, '')
        for name, s in spots.items()
    }
    T_grip_part = tool_down(0.0, 0.0, 0.0, 0.0)
    return tuple(
        np.asarray(T_BASE_LINK_BASE @ cycle_poses[release].T_base_tcp @ T_grip_part)
        for cycle_poses in poses_by_cycle(PatternSettings.from_dict(pattern(grid)), poses)
        for _, release in moves
    )


def wall_across(start: Spot, target: Spot, height: float) -> dict[str, Any]:
    """Return the box of a scene file: a wall of `height` [m] across the straight path."""
    across = math.atan2(target.y - start.y, target.x - start.x) + math.pi / 2
    x, y = (start.x + target.x) / 2, (start.y + target.y) / 2
    T = start.setup.T_base_link_table @ upright(x, y, height / 2, math.remainder(across, math.pi))
    return {
        'name': 'wall',
        'position': T[:3, 3].tolist(),
        'rpy': np.rad2deg(rpy_from_matrix(T[:3, :3])).tolist(),
        'size': [_WALL_LENGTH, _WALL_THICKNESS, height],
    }


class Attendant:
    """
    Somebody at the cell: brings parts, and presses the buttons that a cycle waits for.

    An input that it has switched on is switched off when the next stage begins.

    `switch`: takes an input and its level. `feed`: brings the next part. `cycles`: of the run; the
    next part is brought after each of them but the last.
    """

    def __init__(
        self,
        cycle: Sequence[Stage],
        switch: Callable[[int, bool], object],
        feed: Callable[[], object],
        cycles: int = 1,
    ) -> None:
        self._waits = {stage.name: stage for stage in cycle if stage.do == WAIT_INPUT}
        self._switch, self._feed, self._cycles = switch, feed, cycles
        self._due: tuple[float, int, bool] | None = None
        self._pressed: list[int] = []

    def react(self, now: float) -> None:
        """Press the button that is due at robot time [s]; call it often."""
        if self._due and now >= self._due[0]:
            _, pin, level = self._due
            self._due = None
            self._switch(pin, level)
            self._pressed += [pin] * level

    def take(self, event: Mapping[str, Any], now: float) -> None:
        """Take an event of the run at robot time [s]."""
        kind = event['event']
        if kind == events.STAGE:
            for pin in self._pressed:
                self._switch(pin, False)
            self._pressed.clear()
        elif kind == events.WAITING and event['stage'] in self._waits:
            stage = self._waits[event['stage']]
            assert stage.pin is not None
            self._due = now + _REACTION, stage.pin, bool(stage.value)
        elif kind == events.CYCLE_DONE and event['number'] < self._cycles:
            self._feed()
