# SPDX-License-Identifier: Apache-2.0
"""
Clients' objects around the arm and in its gripper, by their ids; frame `base_link`.

Worlds are immutable: every edit returns a new one. The ids are the clients' own, but for
`OWN_PART`; none names a body of the arm or of the scene file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.shapes import POSITION_RANGE, Mesh, Plane, Shape

T = TypeVar('T')

MAX_SHAPES = 256  # of all objects; with more, a check does not fit into a control cycle
MAX_ALL_TRIANGLES = 10_000
MAX_WEIGHT = 100.0  # of an attached object [kg]; no arm of the family carries a quarter of it
_SHOWN = 64  # characters of an id in a message

OWN_PART = 'ur5_pick_place/part'
"""The id of the task's part in the planning scene, among the objects of clients."""


@dataclass(frozen=True, eq=False)
class PlacedShape:
    """A shape and its pose in the frame of its object."""

    shape: Shape
    T_object_shape: Array  # (4, 4)


@dataclass(frozen=True, eq=False)
class SceneObject:
    """A static object of a client."""

    id: str  # any text
    T_base_link_object: Array  # (4, 4)
    shapes: tuple[PlacedShape, ...]

    def __post_init__(self) -> None:
        if not self.shapes:
            raise InvalidInput('it has no shapes: give primitives, meshes or planes')
        check_position(self.T_base_link_object[:3, 3])
        for T, placed in zip(self.poses(), self.shapes, strict=True):
            check_position(T[:3, :3] @ placed.shape.middle + T[:3, 3])

    def poses(self) -> list[Array]:
        """Return T_base_link_shape (4, 4) of each shape."""
        return [self.T_base_link_object @ placed.T_object_shape for placed in self.shapes]

    def extended(self, other: 'SceneObject') -> 'SceneObject':
        """Return the object with the shapes of another one added, which keep their poses."""
        T = inverse_transform(self.T_base_link_object) @ other.T_base_link_object
        more = (replace(p, T_object_shape=T @ p.T_object_shape) for p in other.shapes)
        return replace(self, shapes=(*self.shapes, *more))


@dataclass(frozen=True, eq=False)
class AttachedObject:
    """A client's object that is fixed to the tool."""

    id: str
    T_tool_object: Array  # (4, 4)
    shapes: tuple[PlacedShape, ...]  # at least one, no planes
    mass: float = 0.0  # [kg], at most `MAX_WEIGHT`
    may_touch: frozenset[str] = frozenset()  # links of the arm that are not checked against it

    def __post_init__(self) -> None:
        if any(isinstance(placed.shape, Plane) for placed in self.shapes):
            raise InvalidInput('a plane cannot be carried: give primitives or meshes')
        for point in (self.T_tool_object[:3, 3], *self.middles()):
            check_position(point)
        if not 0.0 <= self.mass <= MAX_WEIGHT:
            raise InvalidInput(f'weight = {self.mass} kg: must be 0 to {MAX_WEIGHT:g} kg')

    @property
    def load(self) -> Load:
        """Its load in tool0: a point mass at the mean of the middles of its shapes."""
        return Load(self.mass, np.mean(self.middles(), axis=0))

    def middles(self) -> list[Array]:
        """Return the middle of each shape in tool0, (3,) [m]."""
        poses = [self.T_tool_object @ placed.T_object_shape for placed in self.shapes]
        return [
            T[:3, :3] @ placed.shape.middle + T[:3, 3]
            for T, placed in zip(poses, self.shapes, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class World:
    """All objects of clients."""

    objects: Mapping[str, SceneObject] = field(default_factory=lambda: MappingProxyType({}))
    attached: Mapping[str, AttachedObject] = field(default_factory=lambda: MappingProxyType({}))
    # objects of clients that could not be accepted, by '<topic> <id>', with the reason and what to
    # do; while there is any, motion is refused
    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.shape_count > MAX_SHAPES:
            raise InvalidInput(
                f'{self.shape_count} shapes in all objects together: at most {MAX_SHAPES}; join '
                'or remove some'
            )
        triangles = sum(
            len(p.shape.triangles) for p in self._placed() if isinstance(p.shape, Mesh)
        )
        if triangles > MAX_ALL_TRIANGLES:
            raise InvalidInput(
                f'{triangles} triangles in all objects together: at most {MAX_ALL_TRIANGLES}; '
                'decimate or remove some'
            )

    @property
    def shape_count(self) -> int:
        """Number of shapes of all objects."""
        return sum(1 for _ in self._placed())

    @property
    def refusal(self) -> str:
        """Why motion is refused; empty if it is not."""
        if not self.refused:
            return ''
        first, *others = self.refused.values()
        return first + (f' ({len(others)} more)' if others else '')

    def with_object(self, thing: SceneObject) -> 'World':
        """Return the world with an object added; it replaces the one of the same id."""
        return replace(self, objects={**self.objects, thing.id: thing})

    def without_objects(self, ids: Iterable[str]) -> 'World':
        return replace(self, objects=_without(self.objects, ids))

    def with_attached(self, thing: AttachedObject) -> 'World':
        """Return the world with an attached object; it replaces the one of the same id."""
        return replace(self, attached={**self.attached, thing.id: thing})

    def without_attached(self, ids: Iterable[str]) -> 'World':
        return replace(self, attached=_without(self.attached, ids))

    def _placed(self) -> Iterable[PlacedShape]:
        for thing in self.objects.values():
            yield from thing.shapes
        for held in self.attached.values():
            yield from held.shapes


def shown(id: str) -> str:
    """Return an id as messages show it: quoted, escaped and shortened."""
    return repr(id if len(id) <= _SHOWN else f'{id[:_SHOWN]}…')


def check_position(point: Array) -> None:
    """Refuse a point (3,) with a coordinate beyond `POSITION_RANGE`."""
    for axis, value in zip('xyz', point, strict=True):
        if not abs(value) <= POSITION_RANGE:
            raise InvalidInput(
                f'{axis} = {value:g} m: must lie in {-POSITION_RANGE:g} to {POSITION_RANGE:g} m'
            )


def _without(things: Mapping[str, T], ids: Iterable[str]) -> dict[str, T]:
    gone = set(ids)
    return {name: thing for name, thing in things.items() if name not in gone}
