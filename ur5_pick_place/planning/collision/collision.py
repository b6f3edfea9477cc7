# SPDX-License-Identifier: Apache-2.0
"""
Collision checks of arm, tool and load with themselves and the scene, also between samples.

Between two samples joint j turns by |dq_j|, and no point of a body is farther from that joint's
axis than r_j. So a distance changes by at most L = sum_j |dq_j| r_j over the step, and with the
values d0 and d1 at the ends it is never below (d0 + d1 - L) / 2. Most steps are proved free by a
test that both values are L / 2 above the required clearance. For the others the distances are
computed, and steps for which the bound is too small are halved until it suffices or a contact is
found.

"""

import copy
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput, fixed
from ur5_pick_place.kinematics import Model, check_joints
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.collision.bodies import attached_name
from ur5_pick_place.planning.collision.clearance import Clearances, Measured
from ur5_pick_place.planning.collision.quick_collision import QuickCollision
from ur5_pick_place.planning.scene.scene import RESERVED_NAMES, Scene

# An allowed pair may touch: a placed part is pressed down by errors of teaching and sag.
TOUCH_DEPTH = 0.003  # [m]
# The arm's own bodies pass each other closely: forearm and wrist_2 of a ur3 by 10 mm at any
# joints. Their geometry is known, so this margin is enough [m].
OWN_MARGIN = 0.005
# Between samples the margin is guaranteed up to this tolerance [m].
RESOLUTION = 0.001
# Configurations measured at once: many for speed, fewer where many boxes take much memory.
_CHUNK = 128
_CHUNK_PAIRS = 50_000
_WORTH_A_TEST = 8  # samples


@dataclass(frozen=True)
class Contact:
    """
    Two bodies too close to each other.

    Attributes
    ----------
    body_a, body_b : str
        Names of arm links, tool pieces, 'part', 'table' or boxes; `object '<id>'` and
        `attached object '<id>'` of clients.
    distance : float
        Distance of their surfaces [m]; negative = depth of penetration.
    margin : float
        The required clearance [m].
    position : tuple of float
        Midpoint of the nearest points, in `base_link` [m].

    """

    body_a: str
    body_b: str
    distance: float
    margin: float
    position: tuple[float, float, float]

    def __str__(self) -> str:
        where = ', '.join(fixed(x, 3) for x in self.position)
        depth = 1e3 * abs(self.distance)
        relation = f'{depth:.1f} mm inside' if self.distance < 0.0 else f'{depth:.1f} mm from'
        return (
            f'{self.body_a} is {relation} {self.body_b} near ({where}) m in base_link; '
            f'required clearance {1e3 * self.margin:.1f} mm'
        )


@dataclass(frozen=True)
class PathContact:
    """
    The first contact along a path.

    Attributes
    ----------
    sample : float
        Position on the path: 3.25 is a quarter of the step from sample 3 to sample 4.
    contact : Contact

    """

    sample: float
    contact: Contact

    def __str__(self) -> str:
        return str(self.contact)


class CollisionModel:
    """One arm in one scene; safe to share between threads."""

    def __init__(self, model: Model, scene: Scene) -> None:
        self.scene, self.model = scene, model
        self._clearances = Clearances(model, scene)
        self._allowed = np.zeros(len(self._clearances.pairs), dtype=bool)
        self._chunk = max(8, min(_CHUNK, _CHUNK_PAIRS // len(self._clearances.pairs)))
        own = min(scene.margin, OWN_MARGIN)
        self._margins = np.where(self._clearances.is_own, own, scene.margin)
        self._of_thread = threading.local()

    def allowing(self, pairs: Iterable[tuple[str, str]]) -> 'CollisionModel':
        """
        Return a model in which these pairs of bodies may touch, `TOUCH_DEPTH` deep at most.

        Parameters
        ----------
        pairs : iterable of (str, str)
            For instance ('part', 'table') while the part is lifted or placed.

        """
        other = copy.copy(self)
        wanted = {frozenset(self._check_names(pair)) for pair in pairs}
        other._allowed = self._allowed | np.array(
            [frozenset(pair) in wanted for pair in self._clearances.pairs], dtype=bool
        )
        other._margins = np.where(other._allowed, -TOUCH_DEPTH, self._margins)
        return other

    def wider(self, extra: float) -> 'CollisionModel':
        """
        Return a model that requires `extra` [m] more clearance.

        Between the arm's own bodies, which pass each other closely by design, it is a quarter of
        that. Pairs that may touch must not overlap.

        """
        other = copy.copy(self)
        more = np.where(self._clearances.is_own, extra / 4.0, extra)
        other._margins = np.where(self._allowed, 0.0, self._margins + more)
        return other

    def quick(self, extra: float = 0.0) -> QuickCollision:
        """
        Return a quick test with the same verdict.

        With `extra`, it requires that much more clearance [m] of pairs that are not both the
        arm's own: their geometry is known, and some pass each other closely by design.

        """
        margins = self._margins + np.where(self._clearances.is_own, 0.0, extra)
        return QuickCollision(self.model, self._clearances, margins)

    def levers(self) -> Array:
        """Return a bound (6,) on the motion of any point of the arm per turn of a joint [m]."""
        return self._clearances.levers()

    @property
    def pair_levers(self) -> Array:
        """Bounds (P, 6) on the change of each distance per turn of each joint [m/rad]."""
        return self._clearances.pair_levers

    def least_spare(self, q: Array, turn: float) -> Array:
        """
        Return by how much each pair of bodies may get nearer, or a lower bound of that, (P,) [m].

        It is exact at least for the pairs that may come too near while each joint turns from `q`
        (6,) by `turn` [rad].

        """
        measured = self._clearances.measure(_one(q))
        needed = self._margins + self._clearances.largest_change(np.full(6, turn))
        self._clearances.refine(measured, ~(measured.distance >= needed))
        return np.asarray(measured.distance[0] - self._margins)

    def spare(self, q: Array, pairs: NDArray[np.intp]) -> Array:
        """Return by how much n pairs of bodies may get nearer at joints `q` (6,), (n,) [m]."""
        return self._clearances.some(q, pairs) - self._margins[pairs]

    def check(self, q: ArrayLike) -> Contact | None:
        """
        Return the worst contact at one configuration, if any.

        Parameters
        ----------
        q : array_like, shape (6,)
            Joint positions [rad].

        """
        measured = self._clearances.measure(_one(q))
        return self._contact(measured, 0) if self._touching(measured)[0] else None

    def contacts(self, q: ArrayLike) -> list[Contact]:
        """
        Return every contact at one configuration, the worst first.

        Parameters
        ----------
        q : array_like, shape (6,)
            Joint positions [rad].

        """
        measured = self._clearances.measure(_one(q))
        self._touching(measured)
        spare = np.nan_to_num(measured.distance[0] - self._margins, nan=-np.inf)
        worst_first = np.argsort(spare, kind='stable')
        return [self._contact_of(measured, 0, int(k)) for k in worst_first if spare[k] < 0.0]

    def collides(self, q: ArrayLike) -> NDArray[np.bool_]:
        """
        Return which configurations have a contact.

        Parameters
        ----------
        q : array_like, shape (..., 6)
            Joint positions [rad].

        Returns
        -------
        ndarray of bool, shape (...)

        """
        joints = check_joints(q)
        flat = joints.reshape(-1, 6)
        hit = np.zeros(len(flat), dtype=bool)
        for i in range(0, len(flat), self._chunk):
            measured = self._clearances.measure(flat[i : i + self._chunk])
            surely = (measured.distance < self._margins) & measured.exact
            sure = np.array(surely.any(axis=1))
            rest = ~(sure[:, None] | (measured.distance >= self._margins))
            self._clearances.refine(measured, rest, self._margins)
            hit[i : i + self._chunk] = sure | ~(measured.distance >= self._margins).all(axis=1)
        return hit.reshape(joints.shape[:-1])

    def distance(self, q: ArrayLike) -> tuple[float, tuple[str, str]]:
        """
        Return the smallest clearance [m], negative in a contact, and the two bodies.

        Pairs that may touch are left out.

        Parameters
        ----------
        q : array_like, shape (6,)
            Joint positions [rad].

        """
        measured = self._clearances.measure(_one(q))
        bound = np.where(self._allowed, np.inf, measured.distance[0])
        best, closest = np.inf, int(bound.argmin())
        for pair in np.argsort(bound):
            if bound[pair] >= best:
                break
            exact = self._clearances.exact(measured, 0, int(pair))
            if exact < best:
                best, closest = exact, int(pair)
        return float(best), self._clearances.pairs[closest]

    def check_path(self, q: ArrayLike) -> PathContact | None:
        """
        Return the first contact along a path, also between its samples, or None.

        Parameters
        ----------
        q : array_like, shape (n, 6)
            Joint positions [rad], joined by straight lines in joint space.

        """
        joints = check_joints(q)
        if joints.ndim != 2 or not len(joints):
            raise InvalidInput(f'path has shape {joints.shape}: must be (n, 6), n at least 1')
        step = self._chunk - 1  # neighbours share a sample, so that no step between them is missed
        for i in range(0, max(1, len(joints) - 1), step):
            part = joints[i : i + step + 1]
            for begin, end in self._unproved_parts(part):
                found = self._sweep(self._clearances.measure(part[begin : end + 1]))
                if found is not None:
                    return PathContact(i + begin + found.sample, found.contact)
        return None

    def _unproved_parts(self, q: Array) -> list[tuple[int, int]]:
        """Return the first and last sample of each part of a path that is not surely free."""
        if len(q) < _WORTH_A_TEST:
            return [(0, len(q) - 1)]
        steps = np.abs(np.diff(q, axis=0))
        change = self._clearances.largest_change(steps).max(axis=0)
        tests = self._tests()
        tests.require(self._margins + change / 2)
        free = np.array([tests.is_free(joints) for joints in q])
        checkpoint()
        edges = np.diff(np.concatenate([[0], ~(free[:-1] & free[1:]), [0]]).astype(int))
        return list(zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True))

    def _tests(self) -> QuickCollision:
        """Return this thread's tests, which all models of the same bodies share."""
        tests: QuickCollision | None = getattr(self._of_thread, 'tests', None)
        if tests is None:
            tests = QuickCollision(self.model, self._clearances, self._margins)
            self._of_thread.tests = tests
        return tests

    def _sweep(self, measured: Measured) -> PathContact | None:
        """Return the first contact along the samples of one measurement."""
        at = np.arange(len(measured.q), dtype=float)
        found = None
        while True:
            checkpoint()
            touching = self._touching(measured)
            if touching.any():
                first = int(touching.argmax())
                found = PathContact(float(at[first]), self._contact(measured, first))
                at, measured = at[: first + 1], measured.rows(slice(0, first + 1))
            open_steps = self._open_steps(measured)
            if not open_steps.any():
                return found
            at, measured = self._halve(at, measured, open_steps)

    def _open_steps(self, measured: Measured) -> NDArray[np.bool_]:
        """Return the steps (n - 1,) on which a contact cannot be excluded yet."""
        turned = np.abs(np.diff(measured.q, axis=0))
        change = self._clearances.largest_change(turned)  # (n - 1, P)
        needed = self._margins - RESOLUTION

        def unproved() -> NDArray[np.bool_]:
            least = (measured.distance[:-1] + measured.distance[1:] - change) / 2
            return ~(least >= needed)

        rough = unproved()
        ends = np.zeros(measured.distance.shape, dtype=bool)
        ends[:-1] |= rough
        ends[1:] |= rough
        self._clearances.refine(measured, ends)
        return np.asarray((unproved() & (change > RESOLUTION)).any(axis=1))

    def _halve(
        self, at: Array, measured: Measured, steps: NDArray[np.bool_]
    ) -> tuple[Array, Measured]:
        """Return positions and measurements with a sample in the middle of each marked step."""
        before = np.flatnonzero(steps)
        middle = self._clearances.measure((measured.q[before] + measured.q[before + 1]) / 2)
        order = np.argsort(np.concatenate([np.arange(len(at)), before + 0.5]))
        at = np.concatenate([at, (at[before] + at[before + 1]) / 2])[order]
        return at, measured.joined(middle).rows(order)

    def _touching(self, measured: Measured) -> NDArray[np.bool_]:
        """Return the configurations (n,) with a contact."""
        self._clearances.refine(measured, ~(measured.distance >= self._margins))
        return np.array(~(measured.distance >= self._margins).all(axis=1))

    def _contact(self, measured: Measured, row: int) -> Contact:
        """Return the worst contact of a configuration that has one."""
        spare = measured.distance[row] - self._margins
        pair = int(np.where(np.isnan(spare), -np.inf, spare).argmin())
        return self._contact_of(measured, row, pair)

    def _contact_of(self, measured: Measured, row: int, pair: int) -> Contact:
        x, y, z = self._clearances.nearest(measured, row, pair)
        return Contact(
            *self._clearances.pairs[pair],
            float(measured.distance[row, pair]),
            float(self._margins[pair]),
            (float(x), float(y), float(z)),
        )

    def _check_names(self, pair: tuple[str, str]) -> tuple[str, str]:
        tool = [shape.name for shape in self.scene.tool.shapes]
        known = (
            *RESERVED_NAMES,
            *tool,
            *(box.name for box in self.scene.boxes),
            *(attached_name(id) for id in self.scene.world.attached),
        )
        for name in pair:
            if name not in known:
                raise InvalidInput(f'no body is called {name!r}; there are: {", ".join(known)}')
        return pair


def collision_model(model: Model, scene: Scene) -> CollisionModel:
    """
    Return the arm in a scene, in which the carried part may touch table and other parts.

    It touches them when it is lifted and placed.

    """
    held = [attached_name(id) for id in scene.world.attached]
    if scene.carried:
        held.append('part')
    ground = ['table', *(box.name for box in scene.boxes if box.is_part)]
    return CollisionModel(model, scene).allowing((a, b) for a in held for b in ground)


def _one(q: ArrayLike) -> Array:
    joints = check_joints(q)
    if joints.shape != (6,):
        raise InvalidInput(f'q has shape {joints.shape}: must be (6,)')
    return joints[None]
