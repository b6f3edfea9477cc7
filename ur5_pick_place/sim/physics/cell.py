# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo model of the cell: dimensions, its arm, and functions that place bodies."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.grippers import DIGITAL, VACUUM
from ur5_pick_place.sim.physics.arm import JOINT_NAMES, Arm, Link, load_arm
from ur5_pick_place.sim.physics.arm_mesh import link_meshes
from ur5_pick_place.sim.physics.engine import mujoco
from ur5_pick_place.sim.physics.scene_boxes import SolidBox

PART_SIZE = 0.045
"""Edge of the cube [m]."""

MAX_PARTS = 24
"""Largest number of cubes."""

TABLE_X = (-0.35, 0.85)
TABLE_Y = (-0.60, 0.60)
"""Extent of the table's top in `base_link` [m]."""

ARM = slice(0, 6)
"""The arm in MuJoCo's vectors of positions, velocities and actuators."""

HAND = 'hand/'
"""Prefix of the names in fingers.xml and cup.xml."""

# Of the servos: kp, kv, and the largest torque [N m] of the joints that they suit; those of
# stronger joints are stiffer.
_SERVOS = 3 * [(5000.0, 400.0, 150.0)] + 3 * [(1500.0, 100.0, 28.0)]

_T_BASE_LINK_BASE = np.diag([-1.0, -1.0, 1.0, 1.0])  # REP-103 and the controller

_CAMERA_HEIGHT = 0.514  # [m] of the ur5's elbow at home, which the camera's distance suits

# Where further parts wait: on a shelf behind the arm, out of reach of wrist and gripper.
_BEYOND_REACH = 0.44275  # [m] from the reach of the stretched forearm
_SHELF_ROW, _SHELF_PITCH = 12, 0.06  # parts, [m]


def load_cell(
    parts: int = 1,
    boxes: Sequence[SolidBox] = (),
    ur_type: str = 'ur5',
    gripper: str = DIGITAL,
    T_world_base_link: Array = np.eye(4),
    is_drawn: bool = False,
) -> mujoco.MjModel:
    """
    Return the compiled model of the cell.

    `parts`: number of cubes, up to `MAX_PARTS`; all but the first are on a shelf. `boxes`: what
    else stands in it. `ur_type`: one of `ARM_TYPES`. `gripper`: one of `GRIPPERS`; both kinds with
    fingers are alike. `T_world_base_link`: where the arm is mounted, (4, 4). `is_drawn`: with
    the meshes of pictures.
    """
    here, arm = Path(__file__).parent, load_arm(ur_type)
    cell = mujoco.MjSpec.from_file(str(here / 'cell.xml'))
    flange = _add_arm(cell, arm, T_world_base_link)
    if is_drawn:
        for link in (arm.base, *arm.links):
            _draw_link(cell, link)
    hand = 'cup.xml' if gripper == VACUUM else 'fingers.xml'
    hand_spec = mujoco.MjSpec.from_file(str(here / hand))
    cell.attach(hand_spec, frame=flange.add_frame(), prefix=HAND)
    for box in boxes:
        _add_box(cell, T_world_base_link @ box.T_base_link_box, box.size)
    if parts > 1:
        _add_parts(cell, parts, arm.reach)
    if gripper == VACUUM:
        _add_welds(cell, parts)
    return cell.compile()


def _add_arm(cell: mujoco.MjSpec, arm: Arm, T_world_base_link: Array) -> mujoco.MjsBody:
    """Add links and servos; return the last link, whose frame is tool0."""
    body = cell.body('base')
    body.pos, body.quat = T_world_base_link[:3, 3], _quat(T_world_base_link @ _T_BASE_LINK_BASE)
    _add_housings(body, arm.base)
    for joint, link, (kp, kv, torque) in zip(JOINT_NAMES, arm.links, _SERVOS, strict=True):
        half = link.roll / 2
        turn = [math.cos(half), math.sin(half), 0.0, 0.0]
        body = body.add_body(name=f'{link.name}_link', pos=link.xyz, quat=turn)
        body.add_joint(name=joint, axis=[0.0, 0.0, 1.0])
        body.explicitinertial = True
        body.mass, body.ipos, body.fullinertia = link.mass, link.centre, link.inertia
        _add_housings(body, link)
        stiffer = max(link.torque / torque, 1.0)
        servo = cell.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        servo.set_to_position(kp=stiffer * kp, kv=stiffer * kv)
        servo.forcerange = [-link.torque, link.torque]
    T = T_world_base_link
    highest = T[2, 3] + max(T[2, 2], 0.0) * arm.height
    further = max(highest / _CAMERA_HEIGHT, 1.0)
    camera, aim = cell.camera('overview'), cell.body('aim').pos
    camera.pos = aim + further * (camera.pos - aim)
    return body


def _add_housings(body: mujoco.MjsBody, link: Link) -> None:
    for start, end, radius, dome in link.housings:
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, fromto=[*start, *end], size=[radius, 0.0, 0.0]
        )
        if dome:
            # An ellipsoid lies along its z, as a cylinder does: half of it is within the housing.
            along = np.subtract(end, start) / np.linalg.norm(np.subtract(end, start))
            tip = end + dome * along
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_ELLIPSOID,
                fromto=[*(end - dome * along), *tip],
                size=[radius, 0.0, 0.0],
            )


def _draw_link(cell: mujoco.MjSpec, link: Link) -> None:
    """Add what is seen of a link; its housings, which touch, are not drawn."""
    body = cell.body(f'{link.name}_link') or cell.body(link.name)
    for i, mesh in enumerate(link_meshes(link)):
        name = f'{link.name}_{i}'
        cell.add_mesh(
            name=name, uservert=mesh.vertices.ravel(), userface=mesh.faces.ravel(),
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
        )
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, group=0, conaffinity=0, mass=0.0,
            rgba=[*np.divide(mesh.colour, 255.0), 1.0],
        )


def _add_box(cell: mujoco.MjSpec, T_world_box: Array, size: ArrayLike) -> None:
    _add_table(cell, T_world_box[:3, 3], np.divide(size, 2.0), _quat(T_world_box))


def _quat(T: Array) -> Array:
    """Return MuJoCo's quaternion (4,) of a pose."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(T[:3, :3]).ravel())
    return quat


def _add_table(
    cell: mujoco.MjSpec, pos: ArrayLike, half_size: ArrayLike, quat: ArrayLike = (1, 0, 0, 0)
) -> None:
    """Add a box that is as solid as the table."""
    cell.worldbody.add_geom(cell.find_default('table'), pos=pos, quat=quat, size=half_size)


def _add_parts(cell: mujoco.MjSpec, parts: int, reach: float) -> None:
    """Add the shelf and its cubes; cubes at rest sleep and cost no time until touched."""
    cell.option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    x = -reach - _BEYOND_REACH
    _add_table(cell, (x, 0.0, -0.02), (0.09, 0.4, 0.02))
    _add_table(cell, (x, 0.0, -0.4), (0.06, 0.06, 0.36))
    for k in range(1, parts):
        row, column = divmod(k - 1, _SHELF_ROW)
        dx, dy = (row - 0.5) * _SHELF_PITCH, (column - (_SHELF_ROW - 1) / 2) * _SHELF_PITCH
        part = cell.worldbody.add_body(name=part_name(k), pos=(x + dx, dy, PART_SIZE / 2))
        part.add_freejoint(name=part_name(k))
        part.add_geom(cell.find_default('part'), name=part_name(k))


def _add_welds(cell: mujoco.MjSpec, parts: int) -> None:
    """Add a weld between cup and each part, with which the cup holds it."""
    for k in range(parts):
        cell.add_equality(
            name=weld_name(k),
            type=mujoco.mjtEq.mjEQ_WELD,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            name1=f'{HAND}gripper',
            name2=part_name(k),
            active=False,
            solref=[0.002, 1.0],
            solimp=[0.95, 0.99, 0.001, 0.5, 2.0],
        )


def weld_name(k: int) -> str:
    """Return the name of the weld between cup and part `k`, counted from 0."""
    return f'suction_{part_name(k)}'


def part_name(k: int) -> str:
    """Return the name of the body of part `k`, counted from 0."""
    return f'part_{k + 1}' if k else 'part'


def pose_arm(model: mujoco.MjModel, data: mujoco.MjData, q: Array, fingers: Array) -> None:
    """Put the arm at joints (6,) [rad], and the fingers at a closing travel (2,) [m], 0 = open."""
    data.qpos[ARM] = q
    if model.nu > len(JOINT_NAMES):  # a cup has neither motor nor joints
        for side, travel in zip(('left', 'right'), fingers, strict=True):
            data.joint(f'{HAND}finger_{side}').qpos = travel


def pose_part(data: mujoco.MjData, T_world_part: Array, part: int) -> None:
    """Put the centre of a part, at rest, at a pose (4, 4)."""
    free = data.joint(part_name(part))
    free.qpos, free.qvel = [*T_world_part[:3, 3], *_quat(T_world_part)], 0.0


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
