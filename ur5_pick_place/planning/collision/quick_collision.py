# SPDX-License-Identifier: Apache-2.0
"""Collision tests of single configurations, without distances: for many of them."""

import coal
import numpy as np
import pinocchio as pin

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.clearance import Clearances
from ur5_pick_place.planning.collision.solids import Cavity, ball_in, solid_of
from ur5_pick_place.planning.dynamics import chain

_POINT = 1e-9  # [m], radius of a sphere that stands for a point
_HALF_TURN = pin.SE3(np.diag([-1.0, -1.0, 1.0]), np.zeros(3))  # of `base` in base_link


class QuickCollision:
    """
    Tests joints against the required clearance of each pair of bodies.

    It gives the same verdict as `CollisionModel.collides`, in less than a tenth of the time, by
    pinocchio's kinematics and coal's tests for overlap: of bounding boxes first. Not to be shared
    between threads.

    Parameters
    ----------
    clearances : Clearances
        The bodies and their pairs.
    margins : ndarray, shape (P,)
        See `require`.

    Attributes
    ----------
    count : int
        Configurations tested so far.

    """

    def __init__(self, model: Model, clearances: Clearances, margins: Array) -> None:
        self._arm = pin.Model()
        joints = chain(self._arm, model, _HALF_TURN)
        self._data, self._geometry = self._arm.createData(), pin.GeometryModel()
        self._kept: list[object] = []
        bodies = [
            self._add(joint, after * pin.SE3(body.T_link_body), solid_of(body.shape).geometry)
            for body in clearances.bodies
            for joint, after in (joints[body.link],)
        ]
        obstacles = [
            self._add(0, pin.SE3(o.T_base_link), solid_of(o.shape).geometry)
            for o in clearances.obstacles
        ]
        half_spaces = [
            self._add(0, pin.SE3.Identity(), coal.Halfspace(face.normal, face.offset))
            for _, face in clearances.faces
        ]
        ends = [bodies, obstacles, half_spaces]
        for a, kind, b in clearances.pair_ends():
            self._geometry.addCollisionPair(pin.CollisionPair(bodies[a], ends[kind][b]))
        self._found = self._geometry.createData()
        self._manager = _manager(self._arm, self._data, self._geometry, self._found)
        self._insides = _Insides(
            self._arm, clearances, [self._geometry.geometryObjects[k] for k in bodies]
        )
        self.count = 0
        self.require(margins)

    def require(self, margins: Array) -> None:
        """Test for these clearances (P,) [m] from now on; negative = depth of an overlap."""
        requests = self._found.collisionRequests
        for k, margin in enumerate(margins.tolist()):
            requests[k].security_margin = margin

    def is_free(self, q: Array) -> bool:
        """Return whether joints (6,) [rad] keep every required clearance."""
        self.count += 1
        return not (
            pin.computeCollisions(self._arm, self._data, self._manager, q, True)
            or self._insides.has_body(q)
        )

    def _add(self, joint: int, placement: pin.SE3, shape: coal.CollisionGeometry) -> int:
        self._kept.append(shape)
        name = str(len(self._kept))
        return int(
            self._geometry.addGeometryObject(pin.GeometryObject(name, joint, placement, shape))
        )


class _Insides:
    """
    Tests whether a body that touches no triangle of a closed surface lies inside it.

    Only a body that is small enough can, and only while its origin is in the bounding box of the
    cavity, which coal tests for all of them at once.

    """

    def __init__(
        self, arm: pin.Model, clearances: Clearances, bodies: list[pin.GeometryObject]
    ) -> None:
        self._arm, self._data, self._geometry = arm, arm.createData(), pin.GeometryModel()
        for k, body in enumerate(bodies):
            self._add(f'body {k}', body.parentJoint, body.placement, coal.Sphere(_POINT))
        self._pairs: list[tuple[int, Cavity, pin.SE3]] = []
        balls = [ball_in(body.shape) for body in clearances.bodies]
        boxes: dict[tuple[int, int], int] = {}
        for body, kind, k in clearances.pair_ends():
            if kind != 1:
                continue
            T = pin.SE3(clearances.obstacles[k].T_base_link)
            for i, cavity in enumerate(solid_of(clearances.obstacles[k].shape).cavities):
                size = cavity.high - cavity.low
                if size.min() < balls[body]:
                    continue
                if (k, i) not in boxes:
                    middle = pin.SE3(np.eye(3), (cavity.low + cavity.high) / 2)
                    boxes[k, i] = self._add(f'box {k} {i}', 0, T * middle, coal.Box(*size))
                self._geometry.addCollisionPair(pin.CollisionPair(body, boxes[k, i]))
                self._pairs.append((body, cavity, T))
        self._found = self._geometry.createData()
        self._manager = _manager(self._arm, self._data, self._geometry, self._found)

    def has_body(self, q: Array) -> bool:
        """Return whether at joints (6,) [rad] the origin of a body is inside a closed surface."""
        if not self._pairs or not pin.computeCollisions(
            self._arm, self._data, self._manager, q, False
        ):
            return False
        found = self._found.collisionResults
        return any(
            found[k].isCollision() and cavity.contains(T.actInv(self._found.oMg[body].translation))
            for k, (body, cavity, T) in enumerate(self._pairs)
        )

    def _add(self, name: str, joint: int, T: pin.SE3, shape: coal.CollisionGeometry) -> int:
        return int(self._geometry.addGeometryObject(pin.GeometryObject(name, joint, T, shape)))


def _manager(
    arm: pin.Model, data: pin.Data, geometry: pin.GeometryModel, found: pin.GeometryData
) -> pin.BroadPhaseManager_NaiveCollisionManager:
    """
    Return coal's manager that is the fastest for so few bodies.

    It tests the overlap of bounding boxes, then of bodies. "SaP" misses contacts.

    """
    manager = pin.BroadPhaseManager_NaiveCollisionManager(arm, geometry, found)
    pin.updateGeometryPlacements(arm, data, geometry, found, np.zeros(6))
    manager.update(True)  # computes the bounding boxes
    return manager
