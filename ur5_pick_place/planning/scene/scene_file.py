# SPDX-License-Identifier: Apache-2.0
"""
Read a scene from a YAML file such as `config/scene_sim.yaml`; frame `base_link`.

Measured values are changed in such a file; comments and everything else stay as they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from ur5_pick_place.config_files import (
    load_yaml,
    parse_yaml,
    read_bytes,
    user_path,
    write_atomically,
)
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics.transforms import Array, make_transform, matrix_from_rpy
from ur5_pick_place.planning.scene.scene import (
    HEIGHT_RANGE,
    MARGIN_RANGE,
    Box,
    Part,
    Scene,
    Tool,
    ToolBox,
)
from ur5_pick_place.settings import REQUIRED, Settings, setting

T = TypeVar('T')

_ZERO = (0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class _Pose(Settings):
    position: tuple[float, ...] = setting(REQUIRED, 'origin', unit='m', length=3, kind=tuple)
    rpy: tuple[float, ...] = setting(_ZERO, 'about fixed axes', unit='deg', length=3)

    @property
    def T(self) -> Array:
        """The pose as (4, 4)."""
        return make_transform(matrix_from_rpy(np.deg2rad(self.rpy)), self.position)


@dataclass(frozen=True, kw_only=True)
class _Box(_Pose):
    name: str = setting(REQUIRED, 'name in collision messages', kind=str)
    size: tuple[float, ...] = setting(REQUIRED, 'full edges', unit='m', length=3, kind=tuple)


@dataclass(frozen=True, kw_only=True)
class _Part(_Pose):
    position: tuple[float, ...] = setting(_ZERO, 'of its centre', unit='m', length=3)
    size: tuple[float, ...] = setting(REQUIRED, 'full edges', unit='m', length=3, kind=tuple)


@dataclass(frozen=True)
class _Tool(Settings):
    tcp: _Pose = setting(REQUIRED, 'in tool0', kind=_Pose)
    boxes: tuple[_Box, ...] = setting((), 'volume of the tool in tool0', of=_Box)


@dataclass(frozen=True)
class _Scene(Settings):
    title = 'scene'

    table_height: float = setting(
        REQUIRED,
        'top of the table',
        unit='m',
        low=HEIGHT_RANGE[0],
        high=HEIGHT_RANGE[1],
        kind=float,
    )
    tool: _Tool = setting(REQUIRED, 'the tool on the flange', kind=_Tool)
    boxes: tuple[_Box, ...] = setting((), 'obstacles', of=_Box)
    part: _Part | None = setting(None, 'the carried part in the TCP', kind=_Part)
    margin: float = setting(
        Scene.margin, 'clearance', unit='m', low=MARGIN_RANGE[0], high=MARGIN_RANGE[1]
    )


def load_scene(path: str | Path) -> Scene:
    """
    Return the scene of a file.

    Raises `InvalidInput`: the file cannot be read, a key is missing or unknown, or a value is out
    of bounds.
    """
    return load_yaml(path, 'scene file', scene_from_dict)


def scene_from_dict(data: Any) -> Scene:
    """Return the scene of nested mappings: positions and sizes in metres, `rpy` in degrees."""
    given = _Scene.from_dict(data)
    part, pieces = given.part, _boxes('tool.boxes', ToolBox, given.tool.boxes)
    return _at(
        'boxes',
        Scene,
        table_height=given.table_height,
        tool=_at('tool', Tool, given.tool.tcp.T, pieces),
        boxes=_boxes('boxes', Box, given.boxes),
        part=_at('part', Part, part.T, np.array(part.size)) if part else None,
        margin=given.margin,
    )


def _boxes(key: str, kind: Callable[..., T], boxes: Sequence[_Box]) -> tuple[T, ...]:
    return tuple(
        _at(f'{key}[{i}]', kind, box.name, box.T, np.array(box.size))
        for i, box in enumerate(boxes)
    )


def _at(key: str, build: Callable[..., T], *content: Any, **named: Any) -> T:
    """Return what `build` makes of the content, or raise its `InvalidInput` with the key."""
    try:
        return build(*content, **named)
    except InvalidInput as error:
        raise InvalidInput(str(error), error.key or key) from error


_HEIGHT = ('table_height',)
_POSITION = ('tool', 'tcp', 'position')
_ROUNDING = 1e-6  # [m] of the numbers as they are written


def write_table_height(path: str | Path, height: float) -> None:
    """
    Write the table height [m] to a scene file, so that a reader sees the old file or the new one.

    Raises `InvalidInput`: the file is no scene, before or after the change; `ExecutionError`: it
    cannot be written.
    """
    _change(Path(path), _HEIGHT, [height])


def write_tcp(path: str | Path, position: Sequence[float]) -> None:
    """Write the TCP's position in tool0 (3,) [m] likewise; its orientation is kept."""
    _change(Path(path), _POSITION, position)


def _change(path: Path, keys: Sequence[str], numbers: Sequence[float]) -> None:
    path = user_path(path)
    try:
        content = read_bytes(path)
        scene_from_dict(parse_yaml(content))
        changed = _with_numbers(content.decode(), keys, numbers).encode()
        scene = scene_from_dict(parse_yaml(changed))
        _check_written(scene, keys, numbers)
    except (OSError, InvalidInput) as error:
        raise InvalidInput(f'scene file {path}: {error}; not changed') from error
    try:
        write_atomically(path, changed)
    except OSError as error:
        raise ExecutionError(f'scene file {path} cannot be written: {error}') from error


def _with_numbers(text: str, keys: Sequence[str], numbers: Sequence[float]) -> str:
    """Return the text with each number of a key, given by its path, replaced."""
    node: Any = yaml.compose(text, yaml.SafeLoader)
    for key in keys:
        node = next(entry for name, entry in node.value if name.value == key)
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for old, number in reversed(list(zip(nodes, numbers, strict=True))):  # the last one first
        text = f'{text[: old.start_mark.index]}{number:.6f}{text[old.end_mark.index :]}'
    return text


def _check_written(scene: Scene, keys: Sequence[str], numbers: Sequence[float]) -> None:
    found = scene.tool.T_tool_tcp[:3, 3] if keys == _POSITION else scene.table_height
    if not np.allclose(found, numbers, rtol=0.0, atol=_ROUNDING):
        raise InvalidInput(f'{".".join(keys)} reads {found} instead of {list(numbers)}')
