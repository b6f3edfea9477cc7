# SPDX-License-Identifier: Apache-2.0
"""Collision tests of single configurations, without distances: for searches of many."""

from collections.abc import Callable

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.collision.clearance import Clearances
from ur5_pick_place.planning.collision.solids import solid_of
from ur5_pick_place.planning.dynamics import chain

_HALF_TURN = pin.SE3(np.diag([-1.0, -1.0, 1.0]), np.zeros(3))  # of `base` in base_link


class PairTests:
    """
    Tests joints against the required clearance of each pair of bodies.

    It finds only whether the distances are large enough, in a fraction of the time that computing
    them takes. Not to be shared between threads.

    Parameters
    ----------
    model : Model
    clearances : Clearances
        The bodies and their pairs.

    """

    def __init__(self, model: Model, clearances: Clearances) -> None:
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
        self._tested = list(range(len(clearances.pairs)))
        self._insides = [
            (bodies[a], is_inside, clearances.obstacles[b].T_base_link)
            for a, kind, b in clearances.pair_ends()
            if kind == 1 and (is_inside := solid_of(clearances.obstacles[b].shape).is_inside)
        ]

    def require(self, margins: Array, pairs: NDArray[np.bool_]) -> None:
        """
        Test some pairs from now on, for these clearances.

        Parameters
        ----------
        margins : ndarray, shape (P,)
            [m]; negative = depth to which a pair may overlap.
        pairs : ndarray of bool, shape (P,)
            The pairs that are tested.

        """
        active, requests = self._found.activeCollisionPairs, self._found.collisionRequests
        for k in self._tested:
            active[k] = False
        self._tested = np.flatnonzero(pairs).tolist()
        for k in self._tested:
            requests[k].security_margin = float(margins[k])
            active[k] = True

    def is_free(self, q: Array) -> bool:
        """Return whether joints (6,) [rad] keep every required clearance."""
        return not (self._collides(q) or any(self._is_within(*where) for where in self._insides))

    def _collides(self, q: Array) -> bool:
        return bool(
            pin.computeCollisions(self._arm, self._data, self._geometry, self._found, q, True)
        )

    def _is_within(
        self, body: int, is_inside: Callable[[Array], bool], T_base_link: Array
    ) -> bool:
        """Return whether a body that touches no triangle of a surface lies inside it."""
        away = self._found.oMg[body].translation - T_base_link[:3, 3]
        return is_inside(away @ T_base_link[:3, :3])

    def _add(self, joint: int, placement: pin.SE3, shape: coal.CollisionGeometry) -> int:
        self._kept.append(shape)
        name = str(len(self._kept))
        return int(
            self._geometry.addGeometryObject(pin.GeometryObject(name, joint, placement, shape))
        )


class QuickCollision(PairTests):
    """
    Tests single configurations against the pairs of bodies of a `CollisionModel`.

    It gives the same verdict as `CollisionModel.collides`, in less than a tenth of the time, by
    pinocchio's kinematics and coal's tests for overlap: of bounding boxes first. These are made
    once, for the given clearances.

    Parameters
    ----------
    model : Model
    clearances : Clearances
    margins : ndarray, shape (P,)
        See `PairTests.require`.

    Attributes
    ----------
    count : int
        Configurations tested so far.

    """

    def __init__(self, model: Model, clearances: Clearances, margins: Array) -> None:
        super().__init__(model, clearances)
        self.require(margins, np.ones(len(margins), dtype=bool))
        # Of coal's managers this one is the fastest for so few bodies: overlap of bounding boxes,
        # then of bodies. "SaP" misses contacts.
        self._manager = pin.BroadPhaseManager_NaiveCollisionManager(
            self._arm, self._geometry, self._found
        )
        pin.updateGeometryPlacements(
            self._arm, self._data, self._geometry, self._found, np.zeros(6)
        )
        self._manager.update(True)  # computes the bounding boxes
        self.count = 0

    def _collides(self, q: Array) -> bool:
        self.count += 1
        return bool(pin.computeCollisions(self._arm, self._data, self._manager, q, True))
