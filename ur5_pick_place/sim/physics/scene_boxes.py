# SPDX-License-Identifier: Apache-2.0
"""The boxes of a scene file, which are solid in the simulated cell; read independently."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.config_files import load_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array, make_transform, matrix_from_rpy
from ur5_pick_place.settings import REQUIRED, Settings, setting


@dataclass(frozen=True, kw_only=True)
class SolidBox(Settings):
    """A box that stands in the cell; `position` is that of its centre in `base_link`."""

    name: str = setting(REQUIRED, 'in messages of the planner', kind=str)
    position: Sequence[float] = setting(REQUIRED, 'centre', unit='m', length=3, kind=tuple)
    rpy: Sequence[float] = setting((0.0, 0.0, 0.0), 'about fixed axes', unit='deg', length=3)
    size: Sequence[float] = setting(REQUIRED, 'full edges', unit='m', length=3, kind=tuple)

    @property
    def T_base_link_box(self) -> Array:
        """The pose of its centre, (4, 4)."""
        return make_transform(matrix_from_rpy(np.deg2rad(self.rpy)), self.position)


def load_table_height(path: str | Path) -> float:
    """Return the height of a scene file's table over the base [m]; errors as `load_boxes`."""
    return load_yaml(path, 'scene file', lambda scene: float(scene['table_height']))


def load_boxes(path: str | Path) -> tuple[SolidBox, ...]:
    """
    Return the boxes of a scene file.

    Raises `InvalidInput`: the file cannot be read, or has no list of boxes where they belong.
    """
    return load_yaml(path, 'scene file', _boxes)


def _boxes(scene: Any) -> tuple[SolidBox, ...]:
    boxes = scene.get('boxes', []) if isinstance(scene, dict) else None
    if not isinstance(boxes, list):
        raise InvalidInput('boxes: must be a list')
    return tuple(SolidBox.from_dict(box) for box in boxes)
