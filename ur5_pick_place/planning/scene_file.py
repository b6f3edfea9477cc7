# SPDX-License-Identifier: Apache-2.0
"""Read a scene from a YAML file such as `config/scene_sim.yaml`; frame `base_link`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array, make_transform, matrix_from_rpy
from ur5_pick_place.planning.scene import (
    HEIGHT_RANGE,
    MARGIN_RANGE,
    Box,
    Part,
    Scene,
    Tool,
    ToolBox,
    check_number,
)


def load_scene(path: str | Path) -> Scene:
    """
    Return the scene of a file.

    Raises
    ------
    InvalidInput
        The file cannot be read, a key is missing or unknown, or a value is out of bounds.

    """
    data = read_yaml(path, 'scene file')
    try:
        return scene_from_dict(data)
    except InvalidInput as error:
        raise InvalidInput(f'scene file {path}: {error}') from error


def scene_from_dict(data: Any) -> Scene:
    """Return the scene of nested mappings: positions and sizes in metres, `rpy` in degrees."""
    top = _keys('scene', data, ('table_height', 'tool'), ('boxes', 'part', 'margin'))
    tool = _keys('tool', top['tool'], ('tcp',), ('boxes',))
    tcp = _keys('tool.tcp', tool['tcp'], ('position',), ('rpy',))
    shapes = [
        ToolBox(*_named_box(f'tool.boxes[{i}]', entry))
        for i, entry in enumerate(_list('tool.boxes', tool.get('boxes', ())))
    ]
    boxes = [
        Box(*_named_box(f'boxes[{i}]', entry))
        for i, entry in enumerate(_list('boxes', top.get('boxes', ())))
    ]
    part = None
    if top.get('part') is not None:
        entry = _keys('part', top['part'], ('size',), ('position', 'rpy'))
        part = Part(_read_pose('part', entry), _vector('part.size', entry['size']))
    return Scene(
        table_height=check_number('table_height', top['table_height'], HEIGHT_RANGE),
        tool=Tool(_read_pose('tool.tcp', tcp), tuple(shapes)),
        boxes=tuple(boxes),
        part=part,
        margin=check_number('margin', top.get('margin', Scene.margin), MARGIN_RANGE),
    )


def _named_box(where: str, entry: Any) -> tuple[str, Array, Array]:
    keys = _keys(where, entry, ('name', 'position', 'size'), ('rpy',))
    if not isinstance(keys['name'], str):
        raise InvalidInput(f'{where}.name = {keys["name"]!r}: must be text')
    return keys['name'], _read_pose(where, keys), _vector(f'{where}.size', keys['size'])


def _read_pose(where: str, entry: Mapping[str, Any]) -> Array:
    position = _vector(f'{where}.position', entry.get('position', (0.0, 0.0, 0.0)))
    rpy = _vector(f'{where}.rpy', entry.get('rpy', (0.0, 0.0, 0.0)))
    return make_transform(matrix_from_rpy(np.deg2rad(rpy)), position)


def _vector(where: str, value: Any) -> Array:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 3:
        raise InvalidInput(f'{where} = {value!r}: must be a list of three numbers')
    return np.array([check_number(f'{where}[{i}]', v) for i, v in enumerate(value)])


def _keys(
    where: str, entry: Any, required: tuple[str, ...], optional: tuple[str, ...]
) -> Mapping[str, Any]:
    known = (*required, *optional)
    if not isinstance(entry, Mapping):
        raise InvalidInput(f'{where} = {entry!r}: must be a mapping with {", ".join(known)}')
    for key in entry:
        if key not in known:
            raise InvalidInput(f'{where} has the unknown key {key!r}; known are: '
                               f'{", ".join(known)}')
    for key in required:
        if key not in entry:
            raise InvalidInput(f'{where} lacks the key {key!r}')
    return entry


def _list(where: str, value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(f'{where} = {value!r}: must be a list of boxes')
    return value
