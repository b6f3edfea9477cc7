# SPDX-License-Identifier: Apache-2.0
"""Where things are on the table of the cell, for every UR type; home is the same for all."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    Array,
    pose_from_quat,
)
from ur5_pick_place.sim.physics.arm import link_frames, load_arm

SpotPose = tuple[float, float, float]
"""x and y of the cube's centre in `base_link` [m], its rotation about z [rad]."""

Box = Mapping[str, Any]
"""An entry of `boxes` in a scene file."""


class Layout(NamedTuple):
    """The spots of one type."""

    # where parts lie at first, and where they are put down; the first of each are start and target
    # of the demo. The open gripper fits between any two.
    picks: tuple[SpotPose, ...]
    releases: tuple[SpotPose, ...]
    # least and largest distance from the arm's axis at which a spot can be used at any bearing
    # [m]; on the way to a nearer one the tool would hit the arm
    radius: tuple[float, float]
    # the same for spots within 60 degrees of +x, any two of which can be start and target
    ahead: tuple[float, float]

    @property
    def start(self) -> SpotPose:
        return self.picks[0]

    @property
    def target(self) -> SpotPose:
        return self.releases[0]


_TURN = math.radians(30.0)
_SHORT = Layout(
    ((0.30, -0.15, 0.0), (0.19, -0.27, 0.0), (0.32, -0.03, 0.0)),
    ((0.27, 0.18, _TURN), (0.15, 0.29, 0.0), (0.32, 0.08, _TURN)),
    (0.22, 0.36),
    (0.26, 0.34),
)
_USUAL = Layout(
    ((0.45, -0.20, 0.0), (0.30, -0.30, 0.0), (0.55, -0.05, 0.0)),
    ((0.40, 0.25, _TURN), (0.28, 0.38, 0.0), (0.55, 0.10, _TURN)),
    (0.25, 0.70),
    (0.35, 0.55),
)
_LONG = Layout(
    ((0.60, -0.25, 0.0), (0.42, -0.38, 0.0), (0.60, -0.05, 0.0)),
    ((0.55, 0.30, _TURN), (0.38, 0.46, 0.0), (0.60, 0.12, _TURN)),
    (0.35, 0.80),
    (0.45, 0.62),
)
_NOT_NEAR = _USUAL._replace(radius=(0.35, 0.70), ahead=(0.44, 0.60))

LAYOUTS: Mapping[str, Layout] = {
    'ur3': _SHORT,
    'ur5': _USUAL,
    'ur10': _LONG,
    'ur3e': _SHORT,
    'ur5e': _USUAL,
    'ur7e': _USUAL,
    'ur10e': _LONG,
    'ur12e': _LONG,
    # These have the wrist of a larger arm, which at a nearer spot hits the folded forearm.
    'ur16e': _NOT_NEAR,
    'ur18': _NOT_NEAR,
    'ur8long': _LONG,
    'ur15': _LONG,
    'ur20': _LONG,
    'ur30': _LONG,
}
"""By robot type."""


_FLANGE_HEIGHT = 0.265  # [m] over the table at home, with a tool of 145 mm, if the arm hangs
_PEDESTAL = 0.15  # [m] at least, of a base that is tilted
_PLATE = (0.3, 0.3, 0.04)  # [m] behind the base
_GAP = 0.01  # [m]


def home(mounting: Mounting) -> Array:
    """Return joints (6,) [rad] at which the arm waits clear of the table, the tool down."""
    if mounting.is_upright:
        degrees = [0.0, -90.0, 90.0, -90.0, -90.0, 0.0]
    elif mounting.is_hanging:
        degrees = [0.0, -60.0, 80.0, -110.0, 90.0, 0.0]
    else:  # the upper arm is level, the forearm hangs
        down = math.degrees(math.atan2(-mounting.up[1], -mounting.up[0]))
        degrees = [down, -90.0, 90.0, 0.0, 90.0, 0.0]
    return np.deg2rad(degrees)


def table_height(ur_type: str, mounting: Mounting) -> float:
    """Return the height of the demo's table over the origin of `base_link` [m]."""
    if mounting == FLOOR:
        return 0.0
    T = T_BASE_BASE_LINK
    for frame in link_frames(load_arm(ur_type), home(mounting).tolist()):
        T = T @ pose_from_quat(frame.position, frame.quat_xyzw)
    return -round(max(_PEDESTAL, _FLANGE_HEIGHT - float(mounting.up @ T[:3, 3])), 2)


def mounted(
    scene: Mapping[str, Any], ur_type: str, mounting: Mounting, boxes: Sequence[Box]
) -> dict[str, Any]:
    """Return a scene file's content with the table and the plate of that arm, and more boxes."""
    own: dict[str, Any] = {}
    if mounting != FLOOR:
        plate = {
            'name': 'plate',
            'position': [0.0, 0.0, -_GAP - _PLATE[2] / 2],
            'size': list(_PLATE),
        }
        own, boxes = {'table_height': table_height(ur_type, mounting)}, [plate, *boxes]
    return {**scene, **own, 'boxes': [*scene.get('boxes', []), *boxes]}


def mounted_scene(
    scene_file: Path, ur_type: str, mounting: Mounting, folder: Path, boxes: Sequence[Box] = ()
) -> Path:
    """Return the scene file of a cell: as given, or with the content of `mounted`, in `folder`."""
    if mounting == FLOOR and not boxes:
        return scene_file
    content = mounted(read_yaml(scene_file, 'scene file'), ur_type, mounting, boxes)
    path = folder / 'scene.yaml'
    path.write_text(yaml.safe_dump(content), encoding='utf-8')
    return path
