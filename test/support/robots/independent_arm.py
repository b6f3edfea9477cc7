# SPDX-License-Identifier: Apache-2.0
"""
A UR5 written a second time, to judge the first: nothing of the package's own arithmetic is used.

Forward kinematics is a product of DH matrices, the inverse a Newton iteration that is continued
along a curve in steps as small as it takes, and clearances are measured by coal, body by body, on
dense samples. Shared is what has to be known: dimensions, joint ranges, the names of branches.
"""

from collections.abc import Callable
from dataclasses import dataclass

import coal
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from ur5_pick_place.kinematics import load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies, bodies_apart
from ur5_pick_place.planning.scene.scene import Scene

Array = NDArray[np.float64]

# base_link -> tool0 of the UR5's URDF: joints [rad], position [m], quaternion x, y, z, w.
URDF_POSES = [
    ((0, 0, 0, 0, 0, 0), (0.81725, 0.19145, -0.005491), (0, 0.707107, 0.707107, 0)),
    (
        (0, -np.pi / 2, 0, -np.pi / 2, 0, 0),
        (0, 0.19145, 1.001059),
        (-0.707107, 0, 0, 0.707107),
    ),
    (
        (0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0),
        (0.4869, 0.10915, 0.431859),
        (-0.707107, 0.707107, 0, 0),
    ),
    (
        (0.5, -1.2, 1.4, -1.8, -1.57, 0.3),
        (0.505296, 0.400495, 0.327846),
        (0.774088, -0.632909, 0.00512, -0.01368),
    ),
]

_A = (0.0, -0.425, -0.39225, 0.0, 0.0, 0.0)
_D = (0.089159, 0.0, 0.0, 0.10915, 0.09465, 0.0823)
_QUARTERS = (1, 0, 0, 1, -1, 0)
Q_RANGE = np.deg2rad([360.0, 360.0, 180.0, 360.0, 360.0, 360.0])

_FIRST_STEP = 1 / 400  # share of a curve
_SMALLEST_STEP = _FIRST_STEP / 2**16
_JOINT_STEP = 0.05  # [rad]
_CLOSE = 1e-9  # [m] or [rad]
_ITERATIONS = 6


def frames(q: Array) -> Array:
    """Return the DH frames 0 to 6 in base, (n, 7, 4, 4), of joints (n, 6)."""
    T = np.tile(np.eye(4), (len(q), 7, 1, 1))
    for i in range(6):
        c, s = np.cos(q[:, i]), np.sin(q[:, i])
        link = np.tile(np.eye(4), (len(q), 1, 1))
        ca, sa = (1, 0) if not _QUARTERS[i] else (0, _QUARTERS[i])
        link[:, 0] = np.stack([c, -s * ca, s * sa, _A[i] * c], axis=1)
        link[:, 1] = np.stack([s, c * ca, -c * sa, _A[i] * s], axis=1)
        link[:, 2] = 0.0, sa, ca, _D[i]
        T[:, i + 1] = T[:, i] @ link
    return T


def tool(q: Array) -> Array:
    """Return T_base_tool (n, 4, 4)."""
    return frames(q)[:, 6]


def signs(q: Array) -> Array:
    """
    Return what changes its sign at each singularity: shoulder [m], elbow, wrist; (n, 3).

    The shoulder's is the way from axis 1 to frame 5 within the arm's plane.
    """
    p = frames(q)[:, 5, :3, 3]
    return np.stack(
        [
            p[:, 0] * np.cos(q[:, 0]) + p[:, 1] * np.sin(q[:, 0]),
            np.sin(q[:, 2]),
            np.sin(q[:, 4]),
        ],
        axis=1,
    )


def rotation_vector(R: Array) -> Array:
    """Return the rotation vectors (n, 3) of rotations of less than half a turn."""
    axis = np.stack([R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], 1)
    sine, cosine = np.linalg.norm(axis, axis=1) / 2, (np.trace(R, axis1=1, axis2=2) - 1) / 2
    angle = np.arctan2(sine, cosine)
    return axis * (np.where(sine > 1e-12, angle / np.maximum(2 * sine, 1e-300), 0.5))[:, None]


def _newton(q: Array, T: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return joints at poses from joints nearby, and which of them converged."""
    for _ in range(_ITERATIONS):
        F = frames(q)
        axes, origins = F[:, :6, :3, 2], F[:, :6, :3, 3]
        to_tool = F[:, 6, None, :3, 3] - origins
        J = np.concatenate([np.cross(axes, to_tool), axes], axis=2).transpose(0, 2, 1)
        error = np.concatenate(
            [
                T[:, :3, 3] - F[:, 6, :3, 3],
                rotation_vector(T[:, :3, :3] @ F[:, 6, :3, :3].transpose(0, 2, 1)),
            ],
            axis=1,
        )
        step = np.linalg.solve(J + 1e-14 * np.eye(6), error[:, :, None])[:, :, 0]
        q = q + np.clip(step, -0.5, 0.5)
    return q, np.abs(error).max(axis=1) < _CLOSE


@dataclass(frozen=True)
class Followed:
    """
    How far one curve can be followed: shares (n,) of it, and the joints (n, 6) [rad] there.

    `end`: '' at the end of the curve; 'shoulder', 'elbow' or 'wrist' at a singularity; 'range'.
    """

    s: Array
    q: Array
    end: str


def follow_all(curves: list[Callable[[Array], Array]], q_start: Array) -> list[Followed]:
    """Continue each start (n, 6) along its curve, all curves at once, for speed alone."""
    n = len(curves)
    s, h, q = np.zeros(n), np.full(n, _FIRST_STEP), q_start.copy()
    track = [[(0.0, q_start[i])] for i in range(n)]
    ends = [''] * n
    active = np.arange(n)
    while active.size:
        at = np.minimum(s[active] + h[active], 1.0)
        T = np.concatenate([curves[i](at[k : k + 1]) for k, i in enumerate(active)])
        found, good = _newton(q[active], T)
        good &= np.abs(found - q[active]).max(axis=1) < _JOINT_STEP
        good &= (signs(found) * signs(q[active]) >= 0.0).all(axis=1)
        inside = (np.abs(found) <= Q_RANGE).all(axis=1)
        for k, i in enumerate(active):
            if good[k] and inside[k]:
                s[i], q[i], h[i] = at[k], found[k], min(2 * h[i], _FIRST_STEP)
                track[i].append((s[i], found[k]))
            elif h[i] > _SMALLEST_STEP:
                h[i] /= 2
            elif good[k]:
                ends[i] = 'range'
            else:
                nearest = np.abs(signs(q[i : i + 1])[0] / [0.3, 1.0, 1.0]).argmin()
                ends[i] = ('shoulder', 'elbow', 'wrist')[nearest]
        active = np.array([i for i in active if s[i] < 1.0 and not ends[i]], dtype=int)
    return [
        Followed(np.array([a for a, _ in way]), np.array([b for _, b in way]), end)
        for way, end in zip(track, ends, strict=True)
    ]


def convex(vertices: Array) -> coal.Convex:
    hull = ConvexHull(vertices)
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for vertex in vertices:
        points.append(np.array(vertex))
    for corners, plane in zip(hull.simplices, hull.equations, strict=True):
        a, b, c = vertices[corners]
        outward = np.cross(b - a, c - a) @ plane[:3] > 0
        triangles.append(coal.Triangle(*map(int, corners if outward else corners[::-1])))
    return coal.Convex(points, triangles)


class Surroundings:
    """Clearances of a UR5 in a scene with a table and no boxes."""

    def __init__(self, scene: Scene) -> None:
        self._bodies = [
            (LINKS[body.link], body.link, np.eye(4), convex(body.vertices))
            for body in arm_bodies(load_model('ur5'))
        ]
        self._bodies += [(b.name, 6, b.T_tool_box, coal.Box(*b.size)) for b in scene.tool.shapes]
        self._radii = np.array([self._radius(shape) for *_, shape in self._bodies])
        self._pairs = [
            (a, b)
            for a, (_, link_a, *_) in enumerate(self._bodies)
            for b, (name_b, link_b, *_) in enumerate(self._bodies)
            if link_a < link_b
            and (
                name_b not in LINKS
                or (link_b - link_a > 1 and (a, b) not in bodies_apart(load_model('ur5')))
            )
        ]
        # Far larger than the arm, so that how deep something is in it is measured upwards.
        self._table = coal.Box(20.0, 20.0, 20.0)
        self._T_table = coal.Transform3s(np.eye(3), np.array([0, 0, scene.table_height - 10.0]))

    @staticmethod
    def _radius(shape: coal.ShapeBase) -> float:
        if isinstance(shape, coal.Convex):
            return float(np.linalg.norm(shape.points(), axis=1).max())
        return float(np.linalg.norm(shape.halfSide))

    def near(self, q: Array, margin: float) -> dict[frozenset[str], float]:
        """Return the smallest distance [m] of each two bodies that come closer than `margin`."""
        F = frames(q)
        T = np.stack([F[:, link] @ T_link for _, link, T_link, _ in self._bodies], axis=1)
        found: dict[frozenset[str], float] = {}

        def note(a: str, b: str, distance: float) -> None:
            if distance < margin:
                key = frozenset((a, b))
                found[key] = min(distance, found.get(key, np.inf))

        for a, b in self._pairs:
            apart = np.linalg.norm(T[:, a, :3, 3] - T[:, b, :3, 3], axis=1)
            for k in np.flatnonzero(apart - self._radii[a] - self._radii[b] < margin):
                distance = self._measure(self._bodies[a][3], T[k, a], self._bodies[b][3], T[k, b])
                note(self._bodies[a][0], self._bodies[b][0], distance)
        for a, (name, link, _, shape) in enumerate(self._bodies):
            for k in np.flatnonzero(T[:, a, 2, 3] - self._radii[a] < margin) if link > 1 else ():
                note(name, 'table', self._measure(shape, T[k, a], self._table, self._T_table))
        return found

    @staticmethod
    def _measure(a: coal.ShapeBase, T_a: Array, b: coal.ShapeBase, T_b) -> float:
        pose_a, pose_b = (
            T if isinstance(T, coal.Transform3s) else coal.Transform3s(T[:3, :3], T[:3, 3])
            for T in (T_a, T_b)
        )
        return float(
            coal.distance(a, pose_a, b, pose_b, coal.DistanceRequest(), coal.DistanceResult())
        )
