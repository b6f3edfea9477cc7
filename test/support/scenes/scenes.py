# SPDX-License-Identifier: Apache-2.0
"""Scenes made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ur5_pick_place.planning.scene.scene import Box, Part, Scene, Tool, ToolBox
from ur5_pick_place.planning.scene.shapes import Shape
from ur5_pick_place.planning.scene.world import PlacedShape, SceneObject


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def box_at(name: str, at: Sequence[float], size: Sequence[float], **options: Any) -> Box:
    return Box(name, pose(*at), size, **options)


def crate(name: str = 'crate', x: float = 0.5, size: float = 0.1) -> Box:
    return box_at(name, (x, 0.0, 0.0), (size, size, size))


def thing_at(name: str, shape: Shape, at: Sequence[float] = ()) -> SceneObject:
    """Return a client's object of one shape."""
    return SceneObject(name, pose(*at), (PlacedShape(shape, np.eye(4)),))


def with_boxes(scene: Scene, *boxes: Box) -> Scene:
    return replace(scene, boxes=(*scene.boxes, *boxes))


def scene() -> Scene:
    tool = Tool(pose(z=0.145), (ToolBox('gripper', pose(z=0.05), (0.08, 0.08, 0.1)),))
    return Scene(0.0, tool, part=Part(np.eye(4), (0.04, 0.04, 0.04)))
