# SPDX-License-Identifier: Apache-2.0
"""Scenes made by hand."""

from dataclasses import replace

import numpy as np

from ur5_pick_place.planning.scene.scene import Box, Part, Scene, Tool, ToolBox


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    T = np.eye(4)
    T[:3, 3] = x, y, z
    return T


def crate(name: str = 'crate', x: float = 0.5, size: float = 0.1) -> Box:
    return Box(name, pose(x), (size, size, size))


def with_boxes(scene: Scene, *boxes: Box) -> Scene:
    return replace(scene, boxes=(*scene.boxes, *boxes))


def scene() -> Scene:
    tool = Tool(pose(z=0.145), (ToolBox('gripper', pose(z=0.05), (0.08, 0.08, 0.1)),))
    return Scene(0.0, tool, part=Part(np.eye(4), (0.04, 0.04, 0.04)))
