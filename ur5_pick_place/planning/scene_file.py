# SPDX-License-Identifier: Apache-2.0
"""Read a scene from a YAML file such as `config/scene_sim.yaml`; frame `base_link`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.config_files import load_yaml
from ur5_pick_place.kinematics.transforms import Array, make_transform, matrix_from_rpy
from ur5_pick_place.planning.scene import (
    HEIGHT_RANGE,
    MARGIN_RANGE,
    Box,
    Part,
    Scene,
    Tool,
    ToolBox,
)
from ur5_pick_place.settings import REQUIRED, Settings, setting

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

    Raises
    ------
    InvalidInput
        The file cannot be read, a key is missing or unknown, or a value is out of bounds.

    """
    return load_yaml(path, 'scene file', scene_from_dict)


def scene_from_dict(data: Any) -> Scene:
    """Return the scene of nested mappings: positions and sizes in metres, `rpy` in degrees."""
    given = _Scene.from_dict(data)
    shapes = (ToolBox(box.name, box.T, np.array(box.size)) for box in given.tool.boxes)
    return Scene(
        table_height=given.table_height,
        tool=Tool(given.tool.tcp.T, tuple(shapes)),
        boxes=tuple(Box(box.name, box.T, np.array(box.size)) for box in given.boxes),
        part=Part(given.part.T, np.array(given.part.size)) if given.part else None,
        margin=given.margin,
    )
