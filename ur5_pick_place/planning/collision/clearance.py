# SPDX-License-Identifier: Apache-2.0
"""
Distances between all pairs of bodies, for many configurations at once.

Every distance starts as a lower bound from bounding spheres, computed in bulk; distances to the
table and to planes are exact from the start. The few that a caller needs exactly are then computed
one by one by coal.

"""

from collections.abc import Iterator
from dataclasses import dataclass

import coal
import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model, link_frames
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.bodies import axis_distances, find_bodies, find_own_pairs
from ur5_pick_place.planning.collision.obstacles import Face, find_faces, find_obstacles
from ur5_pick_place.planning.collision.solids import solid_of
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cuboid, Cylinder

Mask = NDArray[np.bool_]

@dataclass
class Measured:
    """
    Distances of n configurations, as bounds or exact.

    Attributes
    ----------
    q : ndarray, shape (n, 6)
        [rad]
    T_base_link_body : ndarray, shape (n, B, 4, 4)
    distance : ndarray, shape (n, P)
        Signed distance of each pair [m] where `exact`, a lower bound elsewhere.
    exact : ndarray of bool, shape (n, P)

    """

    q: Array
    T_base_link_body: Array
    distance: Array
    exact: Mask

    def rows(self, index: slice | NDArray[np.intp]) -> 'Measured':
        """Return the configurations at `index`."""
        return Measured(*(getattr(self, name)[index] for name in vars(self)))

    def joined(self, other: 'Measured') -> 'Measured':
        """Return these configurations followed by the other ones."""
        return Measured(
            *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in vars(self))
        )


class Clearances:
    """
    Pairs of bodies of one arm in one scene, and their distances.

    Attributes
    ----------
    pairs : tuple of (str, str)
        Names of the two bodies of each pair; a link's several cylinders share its name.
    is_own : ndarray of bool, shape (P,)
        Pairs of the arm's own bodies, tool and part included.
    bodies : list of Body
    obstacles : list of Obstacle
    faces : list of (list of int, Face)
        Half spaces, each with the bodies that are checked against it.
    pair_levers : ndarray, shape (P, 6)
        Bounds on the change of each distance per turn of each joint [m/rad].

    """

    def __init__(self, model: Model, scene: Scene) -> None:
        self._model = model
        self.bodies = find_bodies(model, scene)
        self.obstacles = find_obstacles(scene)
        moving = [i for i, body in enumerate(self.bodies) if body.link > 0]
        # The shoulder only turns about the vertical axis: its height above the table is constant.
        self._over_table = [i for i in moving if self.bodies[i].link > 1]
        self.faces = [
            *((moving, face) for face in find_faces(model, scene)),
            (self._over_table, Face('table', np.array([0.0, 0.0, 1.0]), scene.table_height)),
        ]
        own = find_own_pairs(model, self.bodies)
        boxed = [(i, k) for i in moving for k in range(len(self.obstacles))]
        self._own = np.array(own, dtype=np.intp).reshape(-1, 2)
        self._moving = np.array(moving, dtype=np.intp)
        names = [body.name for body in self.bodies]
        self.pairs = (
            *((names[a], names[b]) for a, b in own),
            *((names[i], self.obstacles[k].name) for i, k in boxed),
            *((names[i], face.name) for over, face in self.faces for i in over),
        )
        self.is_own = np.arange(len(self.pairs)) < len(own)
        self._stack_geometry()
        self.pair_levers = self._levers(own, boxed)
        self._solids = self._pair_solids(own, boxed)

    def pair_ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield each pair: body, kind of the other (0 body, 1 obstacle, 2 face) and its index."""
        yield from ((int(a), 0, int(b)) for a, b in self._own)
        yield from ((int(i), 1, k) for i in self._moving for k in range(len(self.obstacles)))
        yield from ((i, 2, k) for k, (over, _) in enumerate(self.faces) for i in over)

    def measure(self, q: Array) -> Measured:
        """Return lower bounds on all distances at configurations q (n, 6) [rad]."""
        T = self._poses(q)
        own = self._own_bounds(T)
        boxed = self._box_bounds(T)
        flat = [self._face_distances(T, over, face) for over, face in self.faces]
        exact = np.zeros((len(q), len(self.pairs)), dtype=bool)
        exact[:, own.shape[1] + boxed.shape[1] :] = True
        return Measured(q, T, np.concatenate([own, boxed, *flat], axis=1), exact)

    def refine(self, measured: Measured, where: Mask, enough: Array | None = None) -> None:
        """
        Replace bounds by exact distances where marked.

        With `enough` (P,) a configuration is abandoned once one distance is below its entry.

        """
        todo = where & ~measured.exact
        for i in np.flatnonzero(todo.any(axis=1)):
            bodies = _Bodies(measured.T_base_link_body[i])
            for pair in np.flatnonzero(todo[i]).tolist():
                distance = measured.distance[i, pair] = self._distance(bodies, pair)
                measured.exact[i, pair] = True
                if enough is not None and not distance >= enough[pair]:
                    break

    def exact(self, measured: Measured, row: int, pair: int) -> float:
        """Return one signed distance [m] and store it in `measured`."""
        if not measured.exact[row, pair]:
            distance = self._distance(_Bodies(measured.T_base_link_body[row]), pair)
            measured.distance[row, pair] = distance
            measured.exact[row, pair] = True
        return float(measured.distance[row, pair])

    def some(self, q: Array, pairs: NDArray[np.intp]) -> Array:
        """Return the signed distances (n,) [m] of n pairs at joints `q` (6,) [rad]."""
        bodies = _Bodies(self._poses(q))
        return np.array([self._distance(bodies, pair) for pair in pairs.tolist()])

    def nearest(self, measured: Measured, row: int, pair: int) -> Array:
        """Return the point midway between the nearest points of a pair, shape (3,) [m]."""
        result = self._query(_Bodies(measured.T_base_link_body[row]), pair)
        points = np.array([result.getNearestPoint1(), result.getNearestPoint2()])
        return np.asarray(points.mean(axis=0))

    def largest_change(self, turned: Array) -> Array:
        """
        Return bounds on the change of each distance while the joints turn.

        Parameters
        ----------
        turned : ndarray, shape (n, 6)
            Turn of each joint [rad], not negative.

        Returns
        -------
        ndarray, shape (n, P)
            [m]

        """
        return turned @ self.pair_levers.T

    def levers(self) -> Array:
        """Return the largest lever of any body about each joint's axis, (6,) [m]."""
        return np.asarray(np.max([axis_distances(self._model, b) for b in self.bodies], axis=0))

    def _distance(self, bodies: '_Bodies', pair: int) -> float:
        """Return the signed distance [m] of a pair."""
        distance = float(self._query(bodies, pair).min_distance)
        return -distance if distance > 0.0 and self._is_within(bodies.T, pair) else distance

    def _query(self, bodies: '_Bodies', pair: int) -> coal.DistanceResult:
        a, query, other = self._solids[pair]
        result = coal.DistanceResult()
        query(bodies[a], bodies[other] if isinstance(other, int) else other, _REQUEST, result)
        return result

    def _is_within(self, T: Array, pair: int) -> bool:
        """Return whether a body that touches no triangle of a surface lies inside it."""
        k = self._surfaces.get(pair)
        if k is None:
            return False
        a, _, _ = self._solids[pair]
        obstacle = self.obstacles[k]
        away = T[a, :3, 3] - obstacle.T_base_link[:3, 3]
        point = away @ obstacle.T_base_link[:3, :3]
        return any(cavity.contains(point) for cavity in solid_of(obstacle.shape).cavities)

    def _poses(self, q: Array) -> Array:
        """Return the poses (..., B, 4, 4) of all bodies in base_link at q (..., 6) [rad]."""
        frames = link_frames(self._model, q)
        frames[..., :2, :] *= -1.0  # base_link is `base` turned by pi about z
        return np.asarray(frames[..., self._link, :, :] @ self._T_link_body)

    def _own_bounds(self, T: Array) -> Array:
        a, b = self._own.T
        centre = T[..., :3, 3]
        apart = centre[:, a] - centre[:, b]
        centres = np.sqrt(np.einsum('npi,npi->np', apart, apart))
        return np.asarray(centres - self._radius[a] - self._radius[b])

    def _box_bounds(self, T: Array) -> Array:
        """
        Return distances of bounding spheres from obstacles' boxes, (n, moving * obstacles).

        -infinity where a centre is inside a box: the body may be deeper than its radius.

        """
        n, moving = len(T), self._moving
        if not self.obstacles:
            return np.empty((n, 0))
        away = T[..., :3, 3][:, moving, None] - self._p_box  # (n, moving, boxes, 3)
        local = np.einsum('nmki,kij->nmkj', away, self._R_box)
        outside = np.maximum(np.abs(local) - self._half_box, 0.0)
        apart = np.sqrt(np.einsum('nmkj,nmkj->nmk', outside, outside))
        bounds = np.where(apart > 0.0, apart - self._radius[moving, None], -np.inf)
        return np.asarray(bounds).reshape(n, -1)

    def _face_distances(self, T: Array, over: list[int], face: Face) -> Array:
        """Return the height of each body's lowest point over a face, (n, bodies over it) [m]."""
        up = T[:, over, :3, :3].swapaxes(-1, -2) @ face.normal  # in the bodies' frames
        along, half = np.abs(up), self._half[over]
        beside = np.where(
            self._is_cylinder[over],
            np.hypot(along[..., 0], along[..., 1]) * half[:, 0],
            along[..., 0] * half[:, 0] + along[..., 1] * half[:, 1],
        )
        below = beside + along[..., 2] * half[:, 2]
        for column, i in enumerate(over):
            if not self._is_plain[i]:
                below[:, column] = self.bodies[i].shape.support(-up[:, column])
        return np.asarray(T[:, over][..., :3, 3] @ face.normal - face.offset - below)

    def _stack_geometry(self) -> None:
        self._link = np.array([body.link for body in self.bodies])
        self._T_link_body = np.array([body.T_link_body for body in self.bodies])
        self._half = np.array([body.half for body in self.bodies])
        self._is_cylinder = np.array([isinstance(b.shape, Cylinder) for b in self.bodies])
        self._is_plain = np.array(
            [isinstance(b.shape, Cuboid | Cylinder) for b in self.bodies]
        )
        self._radius = np.array([body.radius for body in self.bodies])
        self._p_box = np.array([o.T_base_link[:3, 3] for o in self.obstacles])
        self._R_box = np.array([o.T_base_link[:3, :3] for o in self.obstacles])
        self._half_box = np.array([o.shape.half for o in self.obstacles])

    def _levers(self, own: list[tuple[int, int]], boxed: list[tuple[int, int]]) -> Array:
        """Return bounds on a pair's change of distance per radian of each joint, (P, 6) [m]."""
        levers = [axis_distances(self._model, body) for body in self.bodies]
        rows = [levers[b] * (np.arange(6) >= self.bodies[a].link) for a, b in own]
        rows += [levers[i] for i, _ in boxed]
        rows += [levers[i] for over, _ in self.faces[:-1] for i in over]
        mounts = self._model.mounts
        tilt = 0.0 if mounts is None else float(np.hypot(*mounts[0, :2, 2]))
        rows += [levers[i] * [tilt, 1, 1, 1, 1, 1] for i in self._over_table]
        return np.array(rows)

    def _pair_solids(
        self, own: list[tuple[int, int]], boxed: list[tuple[int, int]]
    ) -> list[tuple[int, coal.ComputeDistance, int | coal.Transform3s]]:
        """Return for each pair the first body, coal's query, and the second body or its pose."""
        solids = [solid_of(body.shape).geometry for body in self.bodies]
        others = [solid_of(o.shape).geometry for o in self.obstacles]
        stands = [_placed(o.T_base_link) for o in self.obstacles]
        spaces = [(over, coal.Halfspace(f.normal, f.offset)) for over, f in self.faces]
        self._surfaces = {
            len(own) + pair: k
            for pair, (_, k) in enumerate(boxed)
            if solid_of(self.obstacles[k].shape).cavities
        }
        self._kept = (*solids, *others, *spaces)  # coal's queries do not keep their shapes alive
        return [
            *((a, coal.ComputeDistance(solids[a], solids[b]), b) for a, b in own),
            *((i, coal.ComputeDistance(solids[i], others[k]), stands[k]) for i, k in boxed),
            *(
                (i, coal.ComputeDistance(solids[i], space), coal.Transform3s.Identity())
                for over, space in spaces
                for i in over
            ),
        ]


_REQUEST = coal.DistanceRequest()
_REQUEST.enable_signed_distance = True


class _Bodies(dict[int, coal.Transform3s]):
    """The poses of bodies at one configuration, T (B, 4, 4), for coal; made when needed."""

    def __init__(self, T: Array) -> None:
        super().__init__()
        self.T = T

    def __missing__(self, body: int) -> coal.Transform3s:
        placed = self[body] = _placed(self.T[body])
        return placed


def _placed(T: Array) -> coal.Transform3s:
    return coal.Transform3s(T[:3, :3], T[:3, 3])
