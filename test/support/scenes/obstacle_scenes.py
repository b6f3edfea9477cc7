# SPDX-License-Identifier: Apache-2.0
"""Seeded scenes in which the straight joint motion is blocked, and a checker of their own."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import solids
from motion_planners import tool_down
from scenes import box_at, thing_at
from solids import SCENE, UR5, Array, Placed, cuboid, own_bodies

from ur5_pick_place.kinematics import inverse, link_frames
from ur5_pick_place.planning.collision.collision import CollisionModel, collision_model
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cylinder
from ur5_pick_place.planning.scene.world import World

# Centres, and the edges of a box or radius and height of an upright cylinder.
Bodies = list[tuple[tuple[float, float, float], tuple[float, ...]]]
FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link from base


@dataclass
class Problem:
    scene: Scene
    q_start: Array
    q_goal: Array


def wall(rng) -> tuple[Bodies, Array, Array]:
    y, height = rng.uniform(-0.05, 0.05), rng.uniform(0.25, 0.4)
    boxes = [((0.45, y, height / 2), (0.5, 0.03, height))]
    x = rng.uniform(0.35, 0.5, 2)
    low = rng.uniform(0.03, 0.1, 2)
    return boxes, tool_down(x[0], -0.28, low[0]), tool_down(x[1], 0.28, low[1])


def box(rng) -> tuple[Bodies, Array, Array]:
    """From beside an open box into it."""
    x, y, d, h = 0.45, rng.uniform(-0.1, 0.1), rng.uniform(0.16, 0.2), rng.uniform(0.12, 0.2)
    boxes = [((x + s * d, y, h / 2), (0.02, 2 * d, h)) for s in (-1, 1)]
    boxes += [((x, y + s * d, h / 2), (2 * d, 0.02, h)) for s in (-1, 1)]
    return boxes, tool_down(0.4, y + 0.45, 0.05), tool_down(x, y, h - 0.08)


def shelf(rng) -> tuple[Bodies, Array, Array]:
    """From one bay into the next, tool pointing down from above each."""
    h = rng.uniform(0.25, 0.35)
    boxes = [((0.5, y, h / 2), (0.35, 0.02, h)) for y in (-0.4, 0.0, 0.4)]
    boxes.append(((0.68, 0.0, h / 2), (0.02, 0.8, h)))
    start, goal = (tool_down(0.48, y, rng.uniform(0.04, 0.1)) for y in (-0.2, 0.2))
    return boxes, start, goal


def cage(rng) -> tuple[Bodies, Array, Array]:
    """Between bars that stand around the place, open above."""
    x, y, h, r = 0.45, -0.25, rng.uniform(0.2, 0.3), 0.17
    angles = rng.uniform(0, np.pi / 4) + np.arange(8) * np.pi / 4
    boxes = [((x + r * np.cos(a), y + r * np.sin(a), h / 2), (0.02, 0.02, h)) for a in angles]
    return boxes, tool_down(x, y, rng.uniform(0.03, 0.08)), tool_down(0.4, 0.3, 0.05)


def under(rng) -> tuple[Bodies, Array, Array]:
    """From above a raised board to below it."""
    z = rng.uniform(0.32, 0.38)
    boxes = [((0.6, 0.0, z), (0.35, 0.5, 0.03))]
    return boxes, tool_down(0.55, 0.05, z + 0.1), tool_down(0.42, rng.uniform(-0.42, -0.38), 0.05)


def kitchen(rng) -> tuple[Bodies, Array, Array]:
    """Past bottles and a pot, below a cupboard that hangs over them."""
    bodies: Bodies = [((0.62, 0.0, rng.uniform(0.62, 0.7)), (0.25, 0.9, 0.1))]
    for y in (-0.12, 0.0, 0.12):
        h = rng.uniform(0.22, 0.3)
        bodies.append(((rng.uniform(0.42, 0.5), y, h / 2), (0.035, h)))
    bodies.append(((0.3, rng.uniform(-0.05, 0.05), 0.06), (0.09, 0.12)))
    x = rng.uniform(0.38, 0.48, 2)
    return bodies, tool_down(x[0], -0.3, 0.06), tool_down(x[1], 0.3, 0.06)


def pallet(rng) -> tuple[Bodies, Array, Array]:
    """From one free cell of a pallet to another; stacks of parts stand on the others."""
    cells = [(0.3 + 0.14 * i, 0.14 * j) for i in range(3) for j in (-2, -1, 0, 1, 2)]
    free = {4 * k + int(rng.integers(2)) for k in (0, 3)}  # at opposite corners
    bodies: Bodies = []
    for k in range(len(cells)):
        height = 0.045 * int(rng.integers(2, 6))
        edges = (0.022, height) if rng.random() < 0.3 else (0.045, 0.045, height)
        if k not in free:
            bodies.append(((*cells[k], height / 2), edges))
    one, other = sorted(free)
    return bodies, tool_down(*cells[one], 0.03), tool_down(*cells[other], 0.03)


FAMILIES: dict[str, Callable] = {
    f.__name__: f for f in (wall, box, shelf, cage, under, kitchen, pallet)
}


def problem(family: str, seed: int) -> Problem:
    """Return the first problem from `seed` on: both ends free, the straight motion blocked."""
    for k in range(seed, seed + 50):
        rng = np.random.default_rng(k)
        bodies, T_start, T_goal = FAMILIES[family](rng)
        named = [(f'{family} {i}', *body) for i, body in enumerate(bodies)]
        boxes = tuple(box_at(*body) for body in named if len(body[2]) == 3)
        objects = {n: thing_at(n, Cylinder(*size), at) for n, at, size in named if len(size) == 2}
        here = replace(SCENE, boxes=boxes, world=World(objects=objects))
        collision = collision_model(UR5, here)
        start = free_solution(collision, T_start, rng)
        goal = free_solution(collision, T_goal, rng, start if family == 'kitchen' else None)
        if start is None or goal is None or not collision.check_path(np.array([start, goal])):
            continue
        return Problem(here, start, goal)
    raise AssertionError(f'no problem of family {family} from seed {seed} on')


def free_solution(
    collision: CollisionModel, T: Array, rng, near: Array | None = None
) -> Array | None:
    """Return one of the first two free solutions, or the nearest to joints `near`."""
    q, ok = inverse(UR5, T)
    free = [row for row in q[ok] if collision.check(row) is None]
    if near is not None:
        return min(free, key=lambda row: np.abs(row - near).max(), default=None)
    return free[rng.integers(min(2, len(free)))] if free else None


def clearance(scene: Scene, q: Array, rng) -> float:
    """
    Return the smallest distance that points find between arm, tool and obstacles, or the table.

    Points on each body are measured against boxes and cylinders in closed form; nothing of the
    collision model is used but the dimensions of the arm.
    """
    frames, nearest = FLIP @ link_frames(UR5, q), np.inf
    things = [Placed(cuboid(rng, b.size / 2), b.T_base_link_box) for b in scene.boxes]
    for thing in scene.world.objects.values():
        shape = thing.shapes[0].shape
        solid = solids.cylinder(rng, (shape.r, shape.height))
        things.append(Placed(solid, thing.T_base_link_object))
    for link, body in own_bodies(rng, scene):
        points = np.einsum('nij,pj->npi', frames[:, link, :3, :3], body.surface)
        flat = (points + frames[:, link, None, :3, 3]).reshape(-1, 3)
        nearest = min([nearest, *(thing.distance(flat).min() for thing in things)])
        if link > 1:
            nearest = min(nearest, flat[:, 2].min() - scene.table_height)
    return float(nearest)
