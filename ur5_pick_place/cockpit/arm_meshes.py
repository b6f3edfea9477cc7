# SPDX-License-Identifier: Apache-2.0
"""The arm's meshes: its housings, or those of `robot_description` where it is there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import trimesh
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model, link_frames, link_pose
from ur5_pick_place.kinematics.forward import LINK_NAMES
from ur5_pick_place.kinematics.transforms import Array, make_transform, matrix_from_rpy
from ur5_pick_place.sim.physics.arm import load_arm
from ur5_pick_place.sim.physics.arm_mesh import Colour, link_meshes

_BASE = 'base_link_inertia'
_LARGEST = 5_000_000  # [bytes] of a mesh
_FORMATS = ('.stl', '.obj', '.ply')  # trimesh reads them without further packages


@dataclass(frozen=True)
class LinkMesh:
    link: int  # index into `LINKS`; the DH frame to which it is fixed
    vertices: Array  # (n, 3) [m] in that frame
    faces: NDArray[np.int64]  # (m, 3)
    colour: Colour = (198, 202, 206)
    has_edges: bool = True  # else its triangles are parts of one rounded surface


def arm_meshes(model: Model, sections: int = 28) -> list[LinkMesh]:
    """
    Return the meshes of an arm by the figures of its type, one for each link and colour.

    `sections`: as of `link_meshes`.
    """
    arm, names = load_arm(model.name), (_BASE, *LINK_NAMES)
    found = []
    for number, (link, name) in enumerate(zip((arm.base, *arm.links), names, strict=True)):
        T = _T_dh_link(model, name, number)
        for colour, vertices, faces in link_meshes(link, sections):
            placed = vertices @ T[:3, :3].T + T[:3, 3]
            found.append(LinkMesh(number, placed, faces, colour, has_edges=False))
    return found


def meshes_of(urdf: str, model: Model, tf_prefix: str) -> list[LinkMesh]:
    """
    Return the meshes of an arm's links, its `collision` ones, which are plain STL.

    Raises `InvalidInput`: the text is no URDF of this arm, or a mesh cannot be read.
    """
    try:
        root = ElementTree.fromstring(urdf)
        links = {element.get('name'): element for element in root.iter('link')}
        wanted = [tf_prefix + name for name in (_BASE, *LINK_NAMES)]
        if absent := [name for name in wanted if name not in links]:
            raise ValueError(f'no link {", ".join(absent)}: check tf_prefix and ur_type')
        return [
            _mesh_of(links[tf_prefix + name], number, _T_dh_link(model, name, number))
            for number, name in enumerate((_BASE, *LINK_NAMES))
        ]
    except Exception as error:  # trimesh raises any kind on a damaged file
        raise InvalidInput(f'robot_description: {error}') from error


def _T_dh_link(model: Model, name: str, number: int) -> Array:
    """Return the pose of a URDF link in the DH frame that carries it; it is fixed there."""
    if name == _BASE:
        return np.eye(4)
    q = np.zeros(6)
    return np.asarray(np.linalg.inv(link_frames(model, q)[number]) @ link_pose(model, q, name))


def _mesh_of(link: Any, number: int, T_dh_link: Array) -> LinkMesh:
    collision = link.find('collision')
    element = collision.find('geometry/mesh') if collision is not None else None
    if element is None:
        raise ValueError(f'link {link.get("name")} has no collision mesh')
    path = _path_of(element.get('filename', ''))
    if path.suffix.lower() not in _FORMATS or path.stat().st_size > _LARGEST:
        raise ValueError(f'{path} is not one of {", ".join(_FORMATS)} of at most {_LARGEST} bytes')
    mesh: Any = trimesh.load(path, force='mesh')
    if not len(mesh.faces):
        raise ValueError(f'{path} has no triangles')
    origin = collision.find('origin')
    xyz, rpy = (
        _numbers(origin.get(key, '0 0 0') if origin is not None else '0 0 0')
        for key in ('xyz', 'rpy')
    )
    scale = _numbers(element.get('scale', '1 1 1'))
    T = T_dh_link @ make_transform(matrix_from_rpy(rpy), xyz)
    vertices = (np.asarray(mesh.vertices) * scale) @ T[:3, :3].T + T[:3, 3]
    return LinkMesh(number, vertices, np.asarray(mesh.faces, dtype=np.int64))


def _numbers(text: str) -> Array:
    values = np.array([float(word) for word in text.split()])
    if values.shape != (3,) or not np.isfinite(values).all():
        raise ValueError(f'{text!r}: must be three finite numbers')
    return values


def _path_of(uri: str) -> Path:
    kind, _, rest = uri.partition('://')
    if kind == 'package':
        from ament_index_python.packages import get_package_share_directory

        package, _, path = rest.partition('/')
        return Path(get_package_share_directory(package), path)
    if kind == 'file':
        return Path(unquote(rest))
    raise ValueError(f'mesh {uri!r}: must be package:// or file://')
