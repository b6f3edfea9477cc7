# SPDX-License-Identifier: Apache-2.0
"""
Collision checks of arm, tool and load with themselves and the scene, also between samples.

Between two samples joint j turns by |dq_j|, and no point of a body is farther from that joint's
axis than r_j. So a distance changes by at most L = sum_j |dq_j| r_j over the step, and with the
values d0 and d1 at the ends it is never below (d0 + d1 - L) / 2. A step is free if both values are
L / 2 above the required clearance, which needs tests of overlap alone. Any other step is halved,
until that holds, a contact is found, or L / 2 is below the resolution. Each step of a path counts
as its longest one, so that all are tested together. Distances are computed for the reported
contact only.
"""

import copy
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ur5_pick_place.errors import InvalidInput, fixed
from ur5_pick_place.kinematics import Model, check_joints
from ur5_pick_place.kinematics._ik import are_within
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.collision.geometry import ClearanceTests, Geometry, attached_name
from ur5_pick_place.planning.scene.scene import Scene

# An allowed pair may touch: a placed part is pressed down by errors of teaching and sag.
TOUCH_DEPTH = 0.003  # [m]
# The arm's own bodies pass each other closely: forearm and wrist_2 of a ur3 by 10 mm at any
# joints. Their geometry is known, so this margin is enough [m].
OWN_MARGIN = 0.005
# Between samples the margin is guaranteed up to this tolerance [m].
RESOLUTION = 0.001
# By which a box of joints exceeds a path: doubled if it is free, else halved, within these [rad].
_LEAST_ROOM, _MOST_ROOM = 1e-4, 0.02
_BOXES = 2  # that are kept: of the arm where it is, and of its path ahead


@dataclass(frozen=True)
class Contact:
    """Two bodies too close to each other."""

    # names of arm links, tool pieces, 'part', 'table' or boxes; `object '<id>'` and `attached
    # object '<id>'` of clients
    body_a: str
    body_b: str
    distance: float  # distance of their surfaces [m]; negative = depth of penetration
    margin: float  # the required clearance [m]
    position: tuple[float, float, float]  # midpoint of the nearest points, in `base_link` [m]

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
    """The first contact along a path."""

    sample: float  # position on the path: 3.25 is a quarter of the step from sample 3 to sample 4
    contact: Contact

    def __str__(self) -> str:
        return str(self.contact)


@dataclass
class _OfThread:
    """What one thread tests with, and the boxes (low, high) (6,) [rad] it last proved free."""

    exact: ClearanceTests  # of the required clearance
    wide: ClearanceTests  # of any other
    boxes: deque[tuple[Array, Array]] = field(default_factory=lambda: deque(maxlen=_BOXES))
    room: float = _MOST_ROOM


class CollisionModel:
    """One arm in one scene; safe to share between threads."""

    def __init__(self, model: Model, scene: Scene) -> None:
        self.scene, self.model = scene, model
        self._geometry = Geometry(model, scene)
        self._allowed = np.zeros(len(self._geometry.pairs), dtype=bool)
        own = min(scene.margin, OWN_MARGIN)
        self._margins = np.where(self._geometry.is_own, own, scene.margin)
        self._threads = threading.local()

    def allowing(self, pairs: Iterable[tuple[str, str]]) -> 'CollisionModel':
        """
        Return a model in which these pairs of bodies may touch, `TOUCH_DEPTH` deep at most.

        For instance ('part', 'table') while the part is lifted or placed.
        """
        wanted = set(map(frozenset, pairs))
        allowed = self._allowed | np.array(
            [frozenset(pair) in wanted for pair in self._geometry.pairs], dtype=bool
        )
        other = self._requiring(np.where(allowed, -TOUCH_DEPTH, self._margins))
        other._allowed = allowed
        return other

    def wider(self, extra: float) -> 'CollisionModel':
        """
        Return a model that requires `extra` [m] more clearance.

        Between the arm's own bodies, which pass each other closely by design, it is a quarter of
        that. Pairs that may touch must not overlap.
        """
        more = np.where(self._geometry.is_own, extra / 4.0, extra)
        return self._requiring(np.where(self._allowed, 0.0, self._margins + more))

    def tests(self, extra: float = 0.0) -> ClearanceTests:
        """
        Return the tests of single configurations, for one thread.

        With `extra`, they require that much more clearance [m] of pairs that are not both the
        arm's own: their geometry is known, and some pass each other closely by design.
        """
        more = np.where(self._geometry.is_own, 0.0, extra)
        return ClearanceTests(self._geometry, self._margins + more)

    def levers(self) -> Array:
        """Return a bound (6,) on the motion of any point of the arm per turn of a joint [m]."""
        return np.asarray(self._geometry.levers)

    def check(self, q: ArrayLike) -> Contact | None:
        """Return the worst contact at joints (6,) [rad], if any."""
        joints = _one(q)
        return None if self._of_thread.exact.is_free(joints) else self._contacts(joints)[0]

    def contacts(self, q: ArrayLike) -> list[Contact]:
        """Return every contact at joints (6,) [rad], the worst first."""
        return self._contacts(_one(q))

    def collides(self, q: ArrayLike) -> NDArray[np.bool_]:
        """Return which of joints (..., 6) [rad] have a contact, shape (...)."""
        joints, tests = check_joints(q), self._of_thread.exact
        hit = [not tests.is_free(row) for row in joints.reshape(-1, 6)]
        return np.array(hit, dtype=bool).reshape(joints.shape[:-1])

    def check_path(self, q: ArrayLike) -> PathContact | None:
        """
        Return the first contact along a path, also between its samples, or None.

        `q` (n, 6): joint positions [rad], joined by straight lines in joint space.
        """
        joints = _path(q)
        sample = self._first_contact(joints)
        if sample is None:
            return None
        return PathContact(sample, self._contacts(_between(joints, sample))[0])

    def check_nearby(self, q: Array) -> PathContact | None:
        """
        Return what `check_path` does, for a path (n, 6) [rad] close to this thread's last ones.

        Most need no test: they lie within a box of joints that is proved free. From its middle to
        any other of its joints distances change by at most L / 2, with L from corner to corner.
        """
        mine = self._of_thread
        if len(q) and any(are_within(q, low, high) for low, high in mine.boxes):
            return None
        joints, room = _path(q), mine.room
        low, high = joints.min(axis=0) - room, joints.max(axis=0) + room
        mine.wide.require(self._margins + self._geometry.pair_levers @ (high - low) / 2.0)
        if not mine.wide.is_free((low + high) / 2.0):
            mine.room = max(room / 2.0, _LEAST_ROOM)
            return self.check_path(joints)
        mine.boxes.append((low, high))
        mine.room = min(2.0 * room, _MOST_ROOM)
        return None

    def _first_contact(self, q: Array) -> float | None:
        """Return the position of the first contact along a path (n, 6) [rad], or None."""
        tests, wide = self._of_thread.exact, self._of_thread.wide
        if len(q) == 1:
            return None if tests.is_free(q[0]) else 0.0
        half_change = (np.abs(q[1:] - q[:-1]) @ self._geometry.pair_levers.T).max(axis=0) / 2.0
        first = float(len(q))
        clear: set[float] = set()
        steps = [(float(i), i + 1.0) for i in range(len(q) - 1)]
        while steps:
            checkpoint()
            required = np.maximum(self._margins + half_change - RESOLUTION, self._margins)
            wide.require(required)
            proved = set()
            for at in sorted({end for step in steps for end in step}):
                if at > first:
                    break
                joints = _between(q, at)
                if wide.is_free(joints):
                    proved.add(at)
                elif at not in clear and not tests.is_free(joints):
                    first = at
                clear.add(at)
            left = [(a, b) for a, b in steps if a < first and not {a, b} <= proved]
            if left and half_change.max() <= RESOLUTION:
                break
            steps = [half for a, b in left for half in ((a, (a + b) / 2), ((a + b) / 2, b))]
            half_change /= 2.0
        return first if first < len(q) else None

    @property
    def _of_thread(self) -> _OfThread:
        found: _OfThread | None = getattr(self._threads, 'found', None)
        if found is None:
            found = self._threads.found = _OfThread(self.tests(), self.tests())
        return found

    def _requiring(self, margins: Array) -> 'CollisionModel':
        other = copy.copy(self)
        other._margins, other._threads = margins, threading.local()
        return other

    def _contacts(self, q: Array) -> list[Contact]:
        tests = self._of_thread.exact
        measured = [(pair, *tests.distance(q, pair)) for pair in tests.touching(q)]
        found = []
        for pair, distance, (x, y, z) in measured:
            position = float(x), float(y), float(z)
            margin = float(self._margins[pair])
            found.append(Contact(*self._geometry.pairs[pair], distance, margin, position))
        return sorted(found, key=lambda contact: contact.distance - contact.margin)


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
    return joints


def _path(q: ArrayLike) -> Array:
    joints = check_joints(q)
    if joints.ndim != 2 or not len(joints):
        raise InvalidInput(f'path has shape {joints.shape}: must be (n, 6), n at least 1')
    return joints


def _between(q: Array, at: float) -> Array:
    """Return the joints (6,) [rad] at a position on a path (n, 6)."""
    i = int(at)
    return q[i] if at == i else np.asarray(q[i] + (at - i) * (q[i + 1] - q[i]))
