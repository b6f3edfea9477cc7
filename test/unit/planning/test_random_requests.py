# SPDX-License-Identifier: Apache-2.0
"""
Random lines and arcs, a third of them meant to be impossible: planned right or rightly refused.

Each is judged by `independent_arm`, which follows the same curve in its own way. What is accepted
stays on its curve and branch and within every limit, as the controller interpolates it; what is
refused is truly impossible, where and for what the refusal says. UR5_REQUESTS=2000 asks for more.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from independent_arm import (
    Followed,
    Surroundings,
    follow_all,
    frames,
    rotation_vector,
    signs,
    tool,
)
from motion_planners import make_planner
from numpy.typing import NDArray
from scipy.interpolate import BPoly
from scipy.spatial.transform import Rotation

from ur5_pick_place.errors import BlockedPath, GateRefusal, IncompletePath, PlanningError
from ur5_pick_place.kinematics import HOME, inverse
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

Array = NDArray[np.float64]
Rng = np.random.Generator

REQUESTS = int(os.environ.get('UR5_REQUESTS', '60'))
KINDS = ('far', 'wrist', 'shoulder', 'table', 'self', 'range')
OFF_POSITION, OFF_ANGLE = 1e-4, np.deg2rad(0.01)  # [m], [rad]
MARGIN = 0.005  # [m]; of the scene, and of the arm's own bodies
START_MARGIN = 0.0075  # [m] of starts; forearm and wrist_2 are often 9.65 mm apart
RESOLUTION = 0.001  # [m] to which the planner proves clearances between samples
SWEEP = 0.003  # [rad] of joint motion between two of our own samples

# What a refusal says, and where our own continuation then ends; the first that is said counts.
SAID = {
    'the shoulder singularity': 'shoulder',
    'the elbow singularity': 'elbow',
    'the wrist singularity': 'wrist',
    'too far': 'elbow',
    'too near': 'elbow',
    'inside the shoulder cylinder': 'shoulder',
    'leaves its range': 'range',
}


@dataclass(frozen=True)
class Request:
    """A line, or an arc by a help point (3,) whose `kind` is 'interim' or 'center'."""

    q_start: Array
    T_goal: Array
    arc_point: Array | None = None
    kind: str = ''

    def plan(self, planner: MotionPlanner) -> Trajectory:
        if self.arc_point is None:
            return planner.lin(self.q_start, [self.T_goal]).trajectory
        arc = PathSegment(self.T_goal, arc_point=self.arc_point, kind=self.kind)
        return planner.chain(self.q_start, [arc], T_tool_link=np.eye(4)).trajectory

    def curve(self) -> Callable[[Array], Array]:
        """Return T_base_tool (n, 4, 4) at shares (n,) of the way."""
        T_start = tool(self.q_start[None])[0]
        turn = rotation_vector((T_start[:3, :3].T @ self.T_goal[:3, :3])[None])[0]
        place = self._place(T_start[:3, 3], self.T_goal[:3, 3])

        def at(s: Array) -> Array:
            T = np.tile(np.eye(4), (len(s), 1, 1))
            T[:, :3, :3] = T_start[:3, :3] @ Rotation.from_rotvec(s[:, None] * turn).as_matrix()
            T[:, :3, 3] = place(s)
            return T

        return at

    def _place(self, p: Array, goal: Array) -> Callable[[Array], Array]:
        if self.arc_point is None:
            return lambda s: p + s[:, None] * (goal - p)
        centre, normal, angle = self.circle(p, goal)
        return lambda s: (
            centre + Rotation.from_rotvec(s[:, None] * angle * normal).apply(p - centre)
        )

    def circle(self, p: Array, goal: Array) -> tuple[Array, Array, float]:
        """Return centre (3,), axis (3,) and angle of the arc."""
        if self.kind == 'center':
            centre, normal = self.arc_point, np.cross(p - self.arc_point, goal - self.arc_point)
        else:  # equally far from all three points and in their plane
            normal = np.cross(self.arc_point - p, goal - p)
            ways = np.stack([self.arc_point - p, goal - p, normal])
            halves = [ways[0] @ (p + self.arc_point) / 2, ways[1] @ (p + goal) / 2, normal @ p]
            centre = np.linalg.solve(ways, halves)
        normal = normal / np.linalg.norm(normal)
        a, b = p - centre, goal - centre
        return centre, normal, float(np.arctan2(normal @ np.cross(a, b), a @ b) % (2 * np.pi))


def direction(rng: Rng) -> Array:
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def free_start(rng: Rng, around: Surroundings, tool_is_down: bool) -> Array:
    while True:
        spread = [1.5, 0.5, 0.5, 0.3, 0.3, 2.0]
        q = HOME + rng.uniform(-1, 1, 6) * spread if tool_is_down else rng.uniform(-3, 3, 6)
        if not around.near(q[None], START_MARGIN):
            return q


def random_request(kind: str, rng: Rng, planner: MotionPlanner, around: Surroundings) -> Request:
    q = free_start(rng, around, kind in ('table', 'self', 'far') or rng.random() < 0.5)
    T = tool(q[None])[0]
    goal = T.copy()
    match kind:
        case 'wrist':  # the tool's axis goes through the direction that joint 4's has
            middle = tool((q * [1, 1, 1, 1, 0, 1])[None])[0]
            way = direction(rng) * rng.uniform(0.03, 0.15)
            begin, goal = middle.copy(), middle.copy()
            begin[:3, 3] -= way
            goal[:3, 3] += way * rng.uniform(0.3, 1.0)
            rows, reached = inverse(planner.model, begin, q6=q[5])
            for start in rows[reached]:
                if not around.near(start[None], START_MARGIN):
                    return Request(start, goal)
            return random_request(kind, rng, planner, around)
        case 'shoulder':  # the wrist goes to the other side of the base's axis
            wrist = frames(q[None])[0, 5, :3, 3]
            goal[:2, 3] -= 2 * wrist[:2] + rng.uniform(-0.08, 0.08, 2)
        case 'table':
            goal[2, 3] = rng.uniform(-0.1, 0.14)
        case 'self':
            angle = rng.uniform(-np.pi, np.pi)
            goal[:2, 3] = rng.uniform(0.08, 0.22) * np.array([np.cos(angle), np.sin(angle)])
            goal[2, 3] = rng.uniform(0.05, 0.5)
        case 'far':
            goal[:3, 3] = direction(rng) * rng.uniform(0.95, 1.5) * [1, 1, 0.5] + [0, 0, 0.1]
        case 'range':  # the tool turns on about its axis where joint 6 cannot
            side = rng.choice([-1.0, 1.0])
            q[5] = side * (2 * np.pi - rng.uniform(0.02, 0.5))
            if around.near(q[None], START_MARGIN):
                return random_request(kind, rng, planner, around)
            turn = Rotation.from_rotvec([0.0, 0.0, side * rng.uniform(0.1, 0.8)]).as_matrix()
            goal = tool(q[None])[0]
            goal[:3, :3] = goal[:3, :3] @ turn
            goal[:3, 3] += rng.uniform(0.02, 0.1) * direction(rng)
        case _:
            return free_request(q, T, rng)
    return Request(q, goal)


def free_request(q: Array, T: Array, rng: Rng) -> Request:
    """A line or an arc somewhere; nobody knows yet whether it is possible."""
    goal = T.copy()
    turn = rng.choice([0.0, 1.0]) * rng.uniform(0.0, 1.5)
    goal[:3, :3] = T[:3, :3] @ Rotation.from_rotvec(turn * direction(rng)).as_matrix()
    size = rng.uniform(0.02, 0.4)
    if rng.random() < 0.5:
        goal[:3, 3] += size * direction(rng)
        return Request(q, goal)
    normal, radius = direction(rng), np.cross(direction(rng), direction(rng))
    radius -= normal * (normal @ radius)
    radius *= 0.5 * size / np.linalg.norm(radius)
    centre = T[:3, 3] - radius
    kind = ('interim', 'center')[rng.integers(2)]
    angle = rng.uniform(0.2, 2.9 if kind == 'center' else 6.0)

    def at(share: float) -> Array:
        return centre + Rotation.from_rotvec(share * angle * normal).apply(radius)

    goal[:3, 3] = at(1.0)
    return Request(q, goal, centre if kind == 'center' else at(rng.uniform(0.2, 0.8)), kind)


def check_motion(
    request: Request, motion: Trajectory, planner: MotionPlanner
) -> tuple[float, float]:
    """Judge an accepted motion; returns how far it is off its curve [m], [rad]."""
    points = np.stack([motion.q, motion.qd, motion.qdd], axis=1)
    quintics = BPoly.from_derivatives(motion.t, points)
    t = np.linspace(0.0, motion.duration, int(np.clip(motion.duration / 1e-3, 500, 4000)))
    q, qd, qdd, qddd = (quintics(t) if k == 0 else quintics.derivative(k)(t) for k in range(4))
    np.testing.assert_allclose(q[0], request.q_start, atol=1e-9)
    assert np.abs(tool(q[-1:])[0] - request.T_goal).max() < 1e-9
    assert np.abs(qd[[0, -1]]).max() < 1e-9
    limits = planner.limits
    assert (q >= limits.q_min).all() and (q <= limits.q_max).all()
    assert (np.abs(qd) <= 1.001 * limits.qd).all() and (np.abs(qdd) <= 1.001 * limits.qdd).all()
    assert (np.abs(qddd) <= 1.05 * limits.qddd).all()
    F = frames(q)
    tcp = F[:, 6, :3, :3] @ planner.scene.tool.p_tool_tcp + F[:, 6, :3, 3]
    for way in (tcp, F[:, 2, :3, 3]):
        speed = np.linalg.norm(np.diff(way, axis=0), axis=1) / np.diff(t)
        assert speed.max() <= 1.001 * limits.speed
    branch = np.sign(signs(request.q_start[None]))
    assert (signs(q) * branch > -1e-9).all()
    return off_curve(request, F[:, 6])


def off_curve(request: Request, T: Array) -> tuple[float, float]:
    """Return the largest distance of poses (n, 4, 4) from the curve, in place and rotation."""
    start, goal = T[0, :3, 3], request.T_goal[:3, 3]
    p = T[:, :3, 3]
    if request.arc_point is None:
        way = goal - start
        share = np.clip((p - start) @ way / (way @ way), 0.0, 1.0)
    else:
        centre, normal, angle = request.circle(start, goal)
        a = start - centre
        turned = np.arctan2(np.cross(a, p - centre) @ normal, (p - centre) @ a) % (2 * np.pi)
        beyond = turned > 0.5 * (angle + 2 * np.pi)  # rounding, just before the start
        share = np.clip(np.where(beyond, 0.0, turned) / angle, 0.0, 1.0)
    wanted = request.curve()(share)
    turn = rotation_vector(wanted[:, :3, :3].transpose(0, 2, 1) @ T[:, :3, :3])
    return (
        float(np.linalg.norm(p - wanted[:, :3, 3], axis=1).max()),
        float(np.linalg.norm(turn, axis=1).max()),
    )


def swept(q: Array) -> Array:
    """Return joints along a path `SWEEP` apart."""
    way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(q, axis=0)).max(axis=1))])
    at = np.append(np.arange(0.0, way[-1], SWEEP), way[-1])
    return np.column_stack([np.interp(at, way, joint) for joint in q.T])


def check_refusal(refusal: PlanningError, truth: Followed, around: Surroundings) -> str:
    """Judge a refusal by what we found ourselves; returns what it is for."""
    is_blocked = isinstance(refusal, BlockedPath)
    if isinstance(refusal, IncompletePath) and not is_blocked:
        said = next(end for words, end in SAID.items() if words in str(refusal))
        assert truth.end == said, f'ours ends at {truth.end!r}: {refusal}'
        assert refusal.fraction == pytest.approx(truth.s[-1], abs=2e-3), str(refusal)
        return truth.end
    is_refused = isinstance(refusal, GateRefusal) and refusal.check == 'collision'
    assert is_blocked or is_refused, str(refusal)
    assert truth.end == '', f'ours ends at {truth.end!r}: {refusal}'
    touching = around.near(swept(truth.q), MARGIN + RESOLUTION)
    named = [pair for pair in touching if all(name in str(refusal) for name in pair)]
    assert named, f'nothing of this is near: {refusal}; ours: {touching}'
    return 'collision'


@pytest.mark.drill
@pytest.mark.timeout(max(120, REQUESTS))
def test_every_motion_is_right_and_every_refusal_true() -> None:
    rng = np.random.default_rng(7)
    planner = make_planner()
    around = Surroundings(planner.scene)
    kinds = [KINDS[i // 3 % len(KINDS)] if i % 3 == 2 else 'any' for i in range(REQUESTS)]
    requests = [random_request(kind, rng, planner, around) for kind in kinds]
    truths = follow_all([r.curve() for r in requests], np.array([r.q_start for r in requests]))
    off, ends = [], []
    for request, truth in zip(requests, truths, strict=True):
        try:
            motion = request.plan(planner)
        except PlanningError as refusal:
            ends.append(check_refusal(refusal, truth, around))
            continue
        assert truth.end == '', f'planned across the {truth.end} at {truth.s[-1]}: {request}'
        off.append(check_motion(request, motion, planner))
        assert not around.near(swept(motion.q), MARGIN - RESOLUTION), request
    worst = np.max(off, axis=0)
    counts = {end: ends.count(end) for end in sorted(set(ends))}
    print(
        f'{REQUESTS} requests: {len(off)} planned, at most {1e3 * worst[0]:.1e} mm and '
        f'{np.degrees(worst[1]):.1e} deg off; refused {counts}'
    )
    assert worst[0] < OFF_POSITION and worst[1] < OFF_ANGLE
    assert len(off) > 0.25 * REQUESTS and len(ends) > 0.25 * REQUESTS
    assert {'elbow', 'wrist', 'shoulder', 'range', 'collision'} <= set(ends)
