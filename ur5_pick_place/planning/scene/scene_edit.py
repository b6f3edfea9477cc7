# SPDX-License-Identifier: Apache-2.0
"""Change measured values in a scene file; comments and everything else stay as they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ur5_pick_place.config_files import (
    MAX_BYTES,
    parse_yaml,
    read_bytes,
    user_path,
    write_atomically,
)
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import scene_from_dict

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
        if len(changed) > MAX_BYTES:
            raise OSError(f'larger than {MAX_BYTES} bytes')
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
