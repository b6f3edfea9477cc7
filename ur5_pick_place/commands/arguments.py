# SPDX-License-Identifier: Apache-2.0
"""Command-line options that commands share: arm, scene, frames and units."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES, Model, load_model
from ur5_pick_place.kinematics.mounting import FLOOR, NAMED, Mounting
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, inverse_transform
from ur5_pick_place.terminal import reading

if TYPE_CHECKING:
    from ur5_pick_place.planning.collision.collision import CollisionModel

_TWO_TURNS = 12.6  # [rad]


@dataclass(frozen=True)
class Arm:
    """The arm as the command line describes it."""

    model: Model
    T_frame_base: Array  # (4, 4) pose of `base` in the frame chosen by --frame
    T_tool_tip: Array  # (4, 4) pose of the tip in tool0
    radians_per_unit: float  # 1 with `--radians`; else pi / 180
    collisions: 'CollisionModel | None'  # none where coal is not installed

    @property
    def angle_unit(self) -> str:
        """'rad' or 'deg'."""
        return 'rad' if self.radians_per_unit == 1.0 else 'deg'

    def tool_pose(self, T_frame_tip: Array) -> Array:
        """Return T_base_tool for a pose of `--tip` in `--frame`."""
        return np.asarray(
            inverse_transform(self.T_frame_base) @ T_frame_tip @ inverse_transform(self.T_tool_tip)
        )

    def tip_pose(self, T_base_tool: Array) -> Array:
        """Return the pose of `--tip` in `--frame`."""
        return np.asarray(self.T_frame_base @ T_base_tool @ self.T_tool_tip)

    def contact(self, q: ArrayLike) -> str | None:
        """Return the collision as text, '' for none; None if it cannot be checked."""
        if self.collisions is None:
            return None
        contact = self.collisions.check(q)
        return '' if contact is None else str(contact)


def finite(text: str) -> float:
    """Return a finite number of the command line; refuse NaN and infinity."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f'{text}: must be a finite number')
    return number


def check_radians(what: str, angles: Sequence[float]) -> None:
    """Refuse angles that are far outside all limits: probably degrees."""
    most = max(angles, key=abs, default=0.0)
    if abs(most) > _TWO_TURNS:
        raise InvalidInput(
            f'{what} = {most:g} rad: more than two turns; omit --radians for degrees'
        )


def add_ur_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        '--ur-type',
        choices=UR_TYPES,
        default='ur5',
        help='robot type of the simulated cell (default: ur5)',
    )


def add_mounting(parser: argparse.ArgumentParser, remark: str = '') -> None:
    """Add the option that tells how the arm is mounted."""
    parser.add_argument(
        '--mounting',
        type=reading(Mounting.read),
        default=FLOOR,
        metavar='HOW',
        help=f'how the base is mounted: {", ".join(NAMED)}, or its roll and pitch [deg], such as '
        f'"0 30" (default: floor){remark}',
    )


def add_arm_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_arm` reads."""
    parser.add_argument(
        '--robot',
        default='ur5',
        metavar='TYPE|FILE',
        help=f'one of {", ".join(UR_TYPES)}, ur3_lab, or a calibration file (default: ur5)',
    )
    parser.add_argument(
        '--frame',
        choices=('base_link', 'base'),
        default='base_link',
        help="frame of the pose; 'base' is the pendant's, half a turn about z from base_link",
    )
    parser.add_argument(
        '--tip',
        choices=('tool0', 'tcp'),
        default='tool0',
        help='frame whose pose is given; the TCP is defined in --scene',
    )
    parser.add_argument(
        '--scene',
        type=Path,
        metavar='FILE',
        help='table, tool and boxes, as in config/scene_sim.yaml; default: an empty scene',
    )
    add_mounting(parser, '; tells with --scene where the table is')
    parser.add_argument('--radians', action='store_true', help='angles in radians, not degrees')
    parser.add_argument('--json', action='store_true', help='print JSON instead of a table')


def read_arm(arguments: argparse.Namespace) -> Arm:
    """
    Return the arm that the options describe.

    Raises `InvalidInput`: an unknown robot, an invalid file, or `--tip tcp` without a scene.
    """
    model = load_model(arguments.robot)
    T_tool_tip, collisions = _surroundings(model, arguments.scene, arguments.mounting)
    if arguments.tip == 'tcp' and arguments.scene is None:
        raise InvalidInput('--tip tcp: the TCP is defined in a scene file; give it with --scene')
    return Arm(
        model=model,
        T_frame_base=T_BASE_LINK_BASE if arguments.frame == 'base_link' else np.eye(4),
        T_tool_tip=T_tool_tip if arguments.tip == 'tcp' else np.eye(4),
        radians_per_unit=1.0 if arguments.radians else float(np.pi / 180.0),
        collisions=collisions,
    )


def verdict(contact: str | None) -> str:
    """Return the result of `Arm.contact` as text."""
    if contact is None:
        return 'not checked: coal is not installed'
    return contact or 'free'


def _surroundings(
    model: Model, path: Path | None, mounting: Mounting
) -> 'tuple[Array, CollisionModel | None]':
    """Return the TCP in tool0 and the collision model, None without coal; a scene needs coal."""
    try:
        from ur5_pick_place.planning.collision.collision import CollisionModel
        from ur5_pick_place.planning.scene.scene import Scene, Tool
    except ImportError as error:
        if path is not None:
            raise InvalidInput(f'--scene {path}: a package is missing: {error}') from error
        return np.eye(4), None
    if path is None:
        return np.eye(4), CollisionModel(model, Scene(table_height=-2.0, tool=Tool(np.eye(4))))
    from ur5_pick_place.planning.scene.scene_file import load_scene

    scene = replace(load_scene(path), mounting=mounting)
    return scene.tool.T_tool_tcp, CollisionModel(model, scene)
