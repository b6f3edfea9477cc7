# SPDX-License-Identifier: Apache-2.0
"""A wall between start and target, for the simulated cell and for the planner's scene."""

import math
from collections.abc import Mapping
from pathlib import Path

import yaml

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.sim.cell import WALL_LENGTH, WALL_THICKNESS, Wall
from ur5_pick_place.trials.record import Task


def wall_settings(task: Task, height: float) -> dict[str, float]:
    """
    Return the cell's settings for a wall of `height` [m] halfway, across the straight path.

    Empty for height 0.

    """
    if height == 0.0:
        return {}
    start, target = task.start, task.target
    across = math.atan2(target.y - start.y, target.x - start.x) + math.pi / 2
    return {
        'wall_height': height,
        'wall_x': (start.x + target.x) / 2,
        'wall_y': (start.y + target.y) / 2,
        'wall_yaw': math.degrees(math.remainder(across, math.pi)),
    }


def cell_wall(wall: Mapping[str, float]) -> Wall | None:
    """Return the wall of `wall_settings`, None if there is none."""
    if not wall:
        return None
    yaw = math.radians(wall['wall_yaw'])
    return Wall(wall['wall_x'], wall['wall_y'], yaw, wall['wall_height'])


def write_scene_with_wall(scene_file: Path, wall: Mapping[str, float], path: Path) -> None:
    """Write a scene file with the wall of `wall_settings` added as a box."""
    scene = read_yaml(scene_file, 'scene file')
    height = wall['wall_height']
    box = {
        'name': 'wall',
        'position': [wall['wall_x'], wall['wall_y'], height / 2],
        'rpy': [0.0, 0.0, wall['wall_yaw']],
        'size': [WALL_LENGTH, WALL_THICKNESS, height],
    }
    content = {**scene, 'boxes': [*scene.get('boxes', []), box]}
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
