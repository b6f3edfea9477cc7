# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo model of the cell: dimensions, its arm, and functions that place bodies."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics import load_model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.arm_body import DRAWN_ARM, child, replace_arm
from ur5_pick_place.sim.engine import mujoco
from ur5_pick_place.sim.grippers import DIGITAL, VACUUM
from ur5_pick_place.sim.scene_boxes import SolidBox

PART_SIZE = 0.045
"""Edge of the cube [m]."""

MAX_PARTS = 24
"""Largest number of cubes."""

TABLE_X = (-0.35, 0.85)
TABLE_Y = (-0.60, 0.60)
"""Extent of the table's top in `base_link` [m]."""

OPEN_GAP = 0.070
FINGER_TRAVEL = 0.034
"""Distance between the pads of the open gripper, and closing travel of each finger [m]."""

CUP_RADIUS = 0.012
"""Radius of the suction cup's lip [m]."""
_CUP_LENGTH, _STEM_END = 0.130, 0.118  # [m] from the flange to the lip, and to the rigid stem

# Indices in MuJoCo's position and velocity vectors.
ARM = slice(0, 6)
FINGERS = slice(6, 8)
_PART_Q, _PART_V = 8, 8  # of the first part; the others follow

# Where further parts wait: on a shelf behind the arm, out of reach of wrist and gripper.
_BEYOND_REACH = 0.44275  # [m] from the reach of the stretched forearm
_SHELF_ROW, _SHELF_PITCH = 12, 0.06  # parts, [m]


@dataclass(frozen=True)
class CellPose:
    """
    Poses of everything that moves.

    Attributes
    ----------
    q : ndarray, shape (6,)
        Joint positions [rad].
    fingers : ndarray, shape (2,)
        Closing travel of left and right finger [m], 0 = open.
    T_world_part : ndarray, shape (4, 4)
        Pose of the centre of the cube.

    """

    q: Array
    fingers: Array
    T_world_part: Array


def load_cell(
    parts: int = 1,
    boxes: Sequence[SolidBox] = (),
    ur_type: str = DRAWN_ARM,
    gripper: str = DIGITAL,
) -> mujoco.MjModel:
    """
    Return the compiled model of the cell.

    Parameters
    ----------
    parts : int
        Number of cubes, up to `MAX_PARTS`; all but the first are on a shelf.
    boxes : sequence of SolidBox
        What else stands in it.
    ur_type : str
        The arm; `cell.xml` draws a ur5, which every other type replaces.
    gripper : str
        One of `GRIPPERS`; both kinds with fingers are alike.

    """
    path = Path(__file__).with_name('cell.xml')
    if parts == 1 and not boxes and ur_type == DRAWN_ARM and gripper != VACUUM:
        return mujoco.MjModel.from_xml_path(str(path))
    cell = ElementTree.parse(path).getroot()
    arm = load_model(ur_type)
    if ur_type != DRAWN_ARM:
        replace_arm(cell, arm)
    for box in boxes:
        _add_box(cell, box)
    if parts > 1:
        _add_parts(cell, parts, arm.reach[1])
    if gripper == VACUUM:
        _mount_cup(cell, parts)
    return mujoco.MjModel.from_xml_string(ElementTree.tostring(cell, encoding='unicode'))


def _add_box(cell: ElementTree.Element, box: SolidBox) -> None:
    T = box.T_base_link_box
    geom = {
        'class': 'table',
        'pos': ' '.join(map(str, T[:3, 3])),
        'xyaxes': ' '.join(map(str, [*T[:3, 0], *T[:3, 1]])),
        'size': ' '.join(str(edge / 2) for edge in box.size),
    }
    ElementTree.SubElement(child(cell, 'worldbody'), 'geom', geom)


def _add_parts(cell: ElementTree.Element, parts: int, reach: float) -> None:
    """Add the shelf and its cubes; cubes at rest sleep and cost no time until touched."""
    ElementTree.SubElement(child(cell, 'option'), 'flag', sleep='enable')
    world = child(cell, 'worldbody')
    x, y = -reach - _BEYOND_REACH, 0.0
    for pos, size in (
        (f'{x} {y} -0.02', '0.09 0.4 0.02'),
        (f'{x} {y} -0.4', '0.06 0.06 0.36'),
    ):
        ElementTree.SubElement(world, 'geom', {'class': 'table', 'pos': pos, 'size': size})
    first = child(world, "body[@name='part']")
    for k in range(1, parts):
        part = copy.deepcopy(first)
        row, column = divmod(k - 1, _SHELF_ROW)
        dx, dy = (row - 0.5) * _SHELF_PITCH, (column - (_SHELF_ROW - 1) / 2) * _SHELF_PITCH
        part.set('pos', f'{x + dx} {y + dy} {PART_SIZE / 2}')
        for named in (part, child(part, 'freejoint'), child(part, 'geom')):
            named.set('name', part_name(k))
        world.append(part)


def _mount_cup(cell: ElementTree.Element, parts: int) -> None:
    """
    Replace the fingers by a suction cup, with a weld for each part.

    The joints of the fingers stay, without shapes, so that the state has the same layout in every
    cell. The soft lip touches nothing: `suction` tells whether it seals.

    """
    hand = child(cell, ".//body[@name='gripper']")
    for finger in hand.findall('body'):
        for geom in finger.findall('geom'):
            finger.remove(geom)
    hand.remove(hand.findall('geom')[2])  # the rail of the fingers
    child(hand, "site[@name='tcp']").set('pos', f'0 0 {_CUP_LENGTH}')
    for material, begin, end, radius, touches in (
        ('steel', 0.082, _STEM_END, 0.008, '1'),
        ('rubber', _STEM_END - 0.004, _CUP_LENGTH, CUP_RADIUS, '0'),
    ):
        shape = {
            'type': 'cylinder',
            'fromto': f'0 0 {begin} 0 0 {end}',
            'size': str(radius),
            'material': material,
            'conaffinity': touches,
        }
        ElementTree.SubElement(hand, 'geom', shape)
    welds = child(cell, 'equality')
    for k in range(parts):
        weld = {'name': weld_name(k), 'body1': 'gripper', 'body2': part_name(k)}
        stiff = {'active': 'false', 'solref': '0.002 1', 'solimp': '0.95 0.99 0.001'}
        ElementTree.SubElement(welds, 'weld', weld | stiff)


def weld_name(k: int) -> str:
    """Return the name of the weld between cup and part `k`, counted from 0."""
    return f'suction_{part_name(k)}'


def part_name(k: int) -> str:
    """Return the name of the body of part `k`, counted from 0."""
    return f'part_{k + 1}' if k else 'part'


def part_velocity(k: int) -> slice:
    """Return the slice of part `k`, counted from 0, in MuJoCo's velocity vector."""
    return slice(_PART_V + 6 * k, _PART_V + 6 * (k + 1))


def apply_pose(
    model: mujoco.MjModel, data: mujoco.MjData, pose: CellPose, part: int = 0
) -> None:
    """Apply `pose` to arm, fingers and one part, and update the poses of all bodies."""
    data.qpos[ARM] = pose.q
    data.qpos[FINGERS] = pose.fingers
    quat_wxyz = np.empty(4)
    mujoco.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(pose.T_world_part[:3, :3]).ravel())
    first = _PART_Q + 7 * part
    data.qpos[first : first + 7] = [*pose.T_world_part[:3, 3], *quat_wxyz]
    mujoco.mj_kinematics(model, data)


def lay_marks(
    model: mujoco.MjModel, data: mujoco.MjData, T_start: ArrayLike, T_target: ArrayLike
) -> None:
    """Place the marks on the table below two poses, shape (4, 4), aligned with their x axes."""
    for name, pose in (('mark_start', T_start), ('mark_target', T_target)):
        T = np.asarray(pose, dtype=float)
        yaw = math.atan2(T[1, 0], T[0, 0])
        k = model.body(name).mocapid[0]
        data.mocap_pos[k] = T[0, 3], T[1, 3], 0.0
        data.mocap_quat[k] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
    mujoco.mj_kinematics(model, data)


def upright(x: float, y: float, z: float, yaw: float) -> Array:
    """Return the pose, shape (4, 4), at x, y, z [m] turned by `yaw` [rad] about z."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0, x], [s, c, 0.0, y], [0.0, 0.0, 1.0, z], [0.0, 0.0, 0.0, 1.0]])
