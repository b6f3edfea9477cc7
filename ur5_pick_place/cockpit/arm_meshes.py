# SPDX-License-Identifier: Apache-2.0
"""The meshes of an arm: its housings by the figures of its type, in the frames of its links."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model, link_frames, link_pose
from ur5_pick_place.kinematics.forward import LINK_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.sim.physics.arm import load_arm
from ur5_pick_place.sim.physics.arm_mesh import Colour, link_meshes


class LinkMesh(NamedTuple):
    link: int  # index into `LINKS`; the DH frame to which it is fixed
    vertices: Array  # (n, 3) [m] in that frame
    faces: NDArray[np.int64]  # (m, 3)
    colour: Colour


def arm_meshes(model: Model, sections: int = 28) -> list[LinkMesh]:
    """
    Return the meshes of an arm by the figures of its type, one for each link and colour.

    `sections`: as of `link_meshes`.
    """
    arm, q = load_arm(model.name), np.zeros(6)
    frames = link_frames(model, q)
    # Each URDF link in the DH frame that carries it, where it is fixed.
    poses = [np.eye(4)]
    for frame, name in zip(frames[1:], LINK_NAMES, strict=True):
        poses.append(np.linalg.inv(frame) @ link_pose(model, q, name))
    return [
        LinkMesh(number, vertices @ T[:3, :3].T + T[:3, 3], faces, colour)
        for number, (link, T) in enumerate(zip((arm.base, *arm.links), poses, strict=True))
        for colour, vertices, faces in link_meshes(link, sections)
    ]
