# SPDX-License-Identifier: Apache-2.0
"""The model of the cell, `cell.xml`: where things are in it, and how to put them there."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.sim.engine import mujoco

PART_SIZE = 0.045
"""Edge of the cube [m]."""

TABLE_X = (-0.35, 0.85)
TABLE_Y = (-0.60, 0.60)
"""Extent of the table's top in `base_link` [m]."""

OPEN_GAP = 0.070
FINGER_TRAVEL = 0.034
"""Distance between the pads of the open gripper, and how far each finger closes [m]."""

# Places in MuJoCo's position and velocity vectors.
ARM = slice(0, 6)
FINGERS = slice(6, 8)
PART_Q = slice(8, 15)
PART_V = slice(8, 14)


@dataclass(frozen=True)
class CellPose:
    """
    Where everything that moves is.

    Attributes
    ----------
    q : ndarray, shape (6,)
        Joint positions [rad].
    fingers : ndarray, shape (2,)
        How far left and right finger have closed [m], 0 = open.
    T_world_part : ndarray, shape (4, 4)
        Pose of the cube's centre.

    """

    q: NDArray[np.float64]
    fingers: NDArray[np.float64]
    T_world_part: NDArray[np.float64]


def load_cell() -> mujoco.MjModel:
    """Compile the cell's model."""
    return mujoco.MjModel.from_xml_path(str(Path(__file__).with_name('cell.xml')))


def apply_pose(model: mujoco.MjModel, data: mujoco.MjData, pose: CellPose) -> None:
    """Put everything that moves where `pose` says, and update the poses of all bodies."""
    data.qpos[ARM] = pose.q
    data.qpos[FINGERS] = pose.fingers
    quat_wxyz = np.empty(4)
    mujoco.mju_mat2Quat(quat_wxyz, np.ascontiguousarray(pose.T_world_part[:3, :3]).ravel())
    data.qpos[PART_Q] = [*pose.T_world_part[:3, 3], *quat_wxyz]
    mujoco.mj_kinematics(model, data)


def lay_marks(
    model: mujoco.MjModel, data: mujoco.MjData, T_start: ArrayLike, T_target: ArrayLike
) -> None:
    """Lay the marks on the table below two poses, shape (4, 4), turned as their x axes are."""
    for name, pose in (('mark_start', T_start), ('mark_target', T_target)):
        T = np.asarray(pose, dtype=float)
        yaw = math.atan2(T[1, 0], T[0, 0])
        k = model.body(name).mocapid[0]
        data.mocap_pos[k] = T[0, 3], T[1, 3], 0.0
        data.mocap_quat[k] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
    mujoco.mj_kinematics(model, data)


def upright(x: float, y: float, z: float, yaw: float) -> NDArray[np.float64]:
    """Return the pose, shape (4, 4), at x, y, z [m] turned by `yaw` [rad] about z."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0, x], [s, c, 0.0, y], [0.0, 0.0, 1.0, z], [0.0, 0.0, 0.0, 1.0]])
