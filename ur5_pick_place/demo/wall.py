# SPDX-License-Identifier: Apache-2.0
"""A wall between start and target: a box of the scene file of planner and simulated cell."""

import math
from pathlib import Path

import yaml

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.demo.spots import Spot

_LENGTH, _THICKNESS = 0.36, 0.02  # [m]


def write_scene_with_wall(
    scene_file: Path, start: Spot, target: Spot, height: float, path: Path
) -> None:
    """Write a scene file with a wall of `height` [m] halfway, across the straight path."""
    scene = read_yaml(scene_file, 'scene file')
    across = math.atan2(target.y - start.y, target.x - start.x) + math.pi / 2
    box = {
        'name': 'wall',
        'position': [(start.x + target.x) / 2, (start.y + target.y) / 2, height / 2],
        'rpy': [0.0, 0.0, math.degrees(math.remainder(across, math.pi))],
        'size': [_LENGTH, _THICKNESS, height],
    }
    content = {**scene, 'boxes': [*scene.get('boxes', []), box]}
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
