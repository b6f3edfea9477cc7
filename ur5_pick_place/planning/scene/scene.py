# SPDX-License-Identifier: Apache-2.0
"""
The scene of the arm: table, boxes, tool and carried part; frame `base_link`.

Scenes are immutable, so that a plan can name the scene in which it
was checked (`Scene.fingerprint`).
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.kinematics.model import LINKS
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.world import OWN_PART, AttachedObject, SceneObject, World

MAX_BOXES = 256  # with more, a check does not fit into a control cycle
SIZE_RANGE = (1e-3, 10.0)  # edge of a box [m]
POSITION_RANGE = (-10.0, 10.0)  # coordinate of a box [m]
HEIGHT_RANGE = (-2, 2)  # [m]
MARGIN_RANGE = (0, 0.02)  # [m]; the shoulder joint is only 29 mm above the UR5's table
# Names of other bodies in contacts; no box may have one of these names.
RESERVED_NAMES = (*LINKS, 'part', 'table')
_MAX_NAME = 64


@dataclass(frozen=True, eq=False)
class Box:
    """A static obstacle."""

    name: str
    T_base_link_box: Array  # (4, 4) pose of the box's centre
    size: Array  # (3,) full edge lengths [m]
    # whether it is another part, which the carried part may touch when it is placed
    is_part: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        _freeze_box(self, f'box {self.name!r}', 'T_base_link_box')


@dataclass(frozen=True, eq=False)
class ToolBox:
    """A box that is fixed to the tool."""

    name: str
    T_tool_box: Array  # (4, 4) pose of the box's centre in tool0
    size: Array  # (3,) full edge lengths [m]; the box of a moving finger covers its whole travel

    def __post_init__(self) -> None:
        _check_name(self.name)
        _freeze_box(self, f'tool box {self.name!r}', 'T_tool_box')


@dataclass(frozen=True, eq=False)
class Part:
    """The part that the gripper grips, a box."""

    T_tcp_part: Array  # (4, 4) pose of the part's centre in the TCP when gripped
    size: Array  # (3,) full edge lengths [m]

    def __post_init__(self) -> None:
        _freeze_box(self, 'part', 'T_tcp_part')


@dataclass(frozen=True, eq=False)
class Tool:
    T_tool_tcp: Array  # (4, 4) pose of the TCP in tool0
    shapes: tuple[ToolBox, ...] = ()  # the volume of the tool

    def __post_init__(self) -> None:
        object.__setattr__(self, 'T_tool_tcp', _pose('TCP', self.T_tool_tcp))
        object.__setattr__(self, 'shapes', tuple(self.shapes))
        _check_unique('tool box', [shape.name for shape in self.shapes])

    @property
    def p_tool_tcp(self) -> Array:
        """The TCP in tool0, shape (3,) [m]."""
        return self.T_tool_tcp[:3, 3]


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything that the arm can collide with, except itself."""

    # height of the table top over the origin of `base_link` [m]; everything below is solid
    table_height: float
    tool: Tool
    boxes: tuple[Box, ...] = ()  # at most `MAX_BOXES`, no name twice
    part: Part | None = None  # the part to grip, carried or not
    carried: bool = False  # whether the part is in the gripper
    margin: float = 0.005  # distance below which two bodies count as touching [m]
    # Clients' objects; their ids are separate from the names here
    world: World = field(default_factory=World)
    mounting: Mounting = FLOOR  # tells what is up and down

    def __post_init__(self) -> None:
        object.__setattr__(self, 'boxes', tuple(self.boxes))
        count = len(self.boxes) + self.world.shape_count
        if count > MAX_BOXES:
            what = 'boxes and shapes of objects' if self.world.shape_count else 'boxes'
            raise InvalidInput(f'{count} {what}: at most {MAX_BOXES}; join or remove some')
        names = [shape.name for shape in self.tool.shapes] + [box.name for box in self.boxes]
        _check_unique('box', names)
        if self.carried and self.part is None:
            raise InvalidInput('the scene file has no part to be carried: add the key part')

    @property
    def attached_ids(self) -> frozenset[str]:
        """The ids of the clients' attached objects, and of the part if it is carried."""
        return frozenset([*self.world.attached, *([OWN_PART] if self.carried else [])])

    def fingerprint(self) -> str:
        """
        Return a digest of everything a plan depends on, equal for equal scenes on any machine.

        The order of the boxes does not count, nor does `carried`, which a plan itself changes.
        Lengths are rounded to the nanometre.
        """
        digest = hashlib.sha256()

        def add(label: str, *numbers: ArrayLike) -> None:
            digest.update(label.encode() + b'\0')
            for value in numbers:
                # + 0.0 turns -0.0 into 0.0
                digest.update((np.round(np.asarray(value, dtype='<f8'), 9) + 0.0).tobytes())

        add('scene', self.table_height, self.margin, self.tool.T_tool_tcp)
        if self.mounting != FLOOR:
            add('mounting', self.mounting.up)
        for shape in sorted(self.tool.shapes, key=lambda s: s.name):
            add('tool ' + shape.name, shape.T_tool_box, shape.size)
        for box in sorted(self.boxes, key=lambda b: b.name):
            add('box ' + box.name, box.T_base_link_box, box.size)
        if self.part is not None:
            add('part', self.part.T_tcp_part, self.part.size)
        for label, thing, poses in _clients(self.world):
            for T, placed in zip(poses, thing.shapes, strict=True):
                kind = type(placed.shape).__name__
                add(f'{label} {thing.id!r} {kind}', T, *vars(placed.shape).values())
        for name, held in sorted(self.world.attached.items()):
            add(f'weight {name!r} {sorted(held.may_touch)}', held.mass)
        return digest.hexdigest()[:16]


def _clients(
    world: World,
) -> Iterator[tuple[str, SceneObject | AttachedObject, Sequence[Array]]]:
    """Yield clients' objects sorted by id, with the poses of their shapes."""
    for name in sorted(world.objects):
        thing = world.objects[name]
        yield 'object', thing, thing.poses()
    for name in sorted(world.attached):
        held = world.attached[name]
        yield 'attached', held, [held.T_tool_object @ p.T_object_shape for p in held.shapes]


def _freeze_box(box: Any, what: str, pose: str) -> None:
    """Check where a box is and how large, and replace both by read-only copies."""
    object.__setattr__(box, pose, _pose(what, getattr(box, pose)))
    size = np.array(box.size, dtype=np.float64)
    for i, edge in enumerate(size):
        _check_range(f'{what}: size[{i}]', edge, SIZE_RANGE)
    size.setflags(write=False)
    object.__setattr__(box, 'size', size)


def _pose(what: str, T: ArrayLike) -> Array:
    pose = np.array(T)
    for axis, value in zip('xyz', pose[:3, 3], strict=True):
        _check_range(f'{what}: {axis}', value, POSITION_RANGE)
    pose.setflags(write=False)
    return pose


def _check_range(what: str, value: float, bounds: tuple[float, float]) -> None:
    """Raise `InvalidInput` that names a value and its bounds [m] if it is beyond them."""
    if not bounds[0] <= value <= bounds[1]:
        raise InvalidInput(f'{what} = {value:g} m: must lie in {bounds[0]:g} to {bounds[1]:g} m')


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= _MAX_NAME or not name.isprintable():
        bounds = f'must be 1 to {_MAX_NAME} printable characters'
        raise InvalidInput(f'box name {quoted(name)}: {bounds}')
    if name in RESERVED_NAMES:
        reserved = ', '.join(RESERVED_NAMES)
        raise InvalidInput(f'box name {name!r} is taken; reserved names are: {reserved}')


def _check_unique(what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f'two pieces are called {name!r}: give each {what} its own name')
