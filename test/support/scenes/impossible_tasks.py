# SPDX-License-Identifier: Apache-2.0
"""
Seeded tasks that cannot be, and why.

Every task is built so that the reason, and by how much, follows from the lengths of the data sheet
and of the boxes alone.
"""

import re
from dataclasses import replace

import numpy as np
from cycle_poses import CONFIG, MODEL, ORIGIN, POSES, SCENE, taught
from motion_planners import FAST
from scenes import thing_at

from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner

CYCLE = load_cycle(CONFIG / 'cycle.yaml')
# UR5 data sheet, and the tool of scene_sim.yaml [m].
D1, A2, A3, D4, D5, D6, TCP = 0.089159, 0.425, 0.39225, 0.10915, 0.09465, 0.0823, 0.145
FINGERS_BELOW, FINGERS_HALF = 0.013, 0.059
GRIP = 0.0225
HEIGHT = 0.1  # of the points above


def at(p, size, name='block'):
    """Return a client's box with its centre at p, in `base_link` [m]."""
    return thing_at(name, Cuboid(np.array(size)), p)


def planner_among(*objects, model=MODEL, **settings):
    world = World()
    for thing in objects:
        world = world.with_object(thing)
    planner = MotionPlanner(model, FAST, replace(SCENE, world=world))
    return CyclePlanner(planner, TaskSettings(**settings), CYCLE, ORIGIN)


def missed_by(radius, z):
    """Return by how much the stretched elbow misses a TCP that points down [m]."""
    reach = np.sqrt(radius**2 - D4**2) - D5  # the wrist bent towards the arm
    return np.hypot(reach, z + TCP + D6 - D1) - (A2 + A3)


def below_the_table(rng):
    depth = rng.uniform(0.001, 0.3)
    return planner_among(), taught(0.4, 0.25, z=-depth), '', 'the TCP is MM below the table', depth


def out_of_reach(rng):
    radius, bearing = rng.uniform(1.0, 1.5), rng.uniform(-2.0, 2.0)
    place = taught(radius * np.cos(bearing), radius * np.sin(bearing), yaw=bearing)
    return planner_among(), place, '', 'out of reach by MM on', missed_by(radius, GRIP)


def too_near_the_base(rng):
    radius, bearing = rng.uniform(0.02, 0.1), rng.uniform(-3.0, 3.0)
    place = taught(radius * np.cos(bearing), radius * np.sin(bearing), z=0.4)
    return planner_among(), place, '', 'out of reach by MM on', D4 - radius


def inside_an_object(rng):
    top = rng.uniform(0.02, 0.06)
    planner = planner_among(at([0.35, 0.35, top / 2], [0.25, 0.25, top]))
    reason = "fingers is MM inside object 'block'"
    return planner, taught(0.35, 0.35), '', reason, top - (GRIP - FINGERS_BELOW)


def between_walls(rng):
    gap = rng.uniform(0.095, 0.11)
    walls = [
        at([0.3, 0.35 + side * (gap / 2 + 0.05), 0.1], [0.3, 0.1, 0.2], f'wall {side}')
        for side in (-1, 1)
    ]
    reason = "fingers is MM inside object 'wall -?1'"
    return planner_among(*walls), taught(0.3, 0.35), '', reason, FINGERS_HALF - gap / 2


def outside_the_joint_limits(rng):
    bearing, radius, bound = rng.uniform(0.8, 2.0), 0.45, 0.2
    narrow = np.array([bound, *MODEL.q_max[1:]])
    planner = planner_among(model=replace(MODEL, q_min=-narrow, q_max=narrow))
    lean = np.arcsin(D4 / radius)
    pans = np.array([bearing - lean, bearing + lean + np.pi])  # the arm on either side of axis 1
    off = np.abs((pans + np.pi) % (2 * np.pi) - np.pi).min() - bound
    place = taught(radius * np.cos(bearing), radius * np.sin(bearing))
    return planner, place, '', 'shoulder_pan_joint is MM outside limits', np.degrees(off)


def the_point_above_out_of_reach(rng):
    radius, height = rng.uniform(0.86, 0.88), 0.3
    place = taught(0.0, radius)
    missed = missed_by(radius, GRIP + height)
    planner = planner_among(approach_height=height)
    return planner, place, 'above_', 'out of reach by MM on', missed


def the_point_above_blocked(rng):
    x, y = rng.uniform(0.4, 0.45), rng.uniform(0.2, 0.25)
    block = at([x, y, 0.42], [0.02, 0.02, 0.06])
    return planner_among(block), taught(x, y), 'above_', "inside object 'block'", None


TASKS = {
    kind.__name__: kind
    for kind in (
        below_the_table, out_of_reach, too_near_the_base, inside_an_object, between_walls,
        outside_the_joint_limits, the_point_above_out_of_reach, the_point_above_blocked,
    )
}


def impossible_task(kind, seed):
    """Return a planner, the poses of a cycle, and a check that a refusal names what is wrong."""
    rng = np.random.default_rng([seed, list(TASKS).index(kind)])
    planner, place, prefix, reason, amount = TASKS[kind](rng)
    name = str(rng.choice(['start', 'target']))
    other = {'start': 'target', 'target': 'start'}[name]
    straight_ahead = taught(0.45, D4)  # with the shoulder pan at 0, as at home
    poses = {'home': POSES['home'], name: place, other: straight_ahead}

    def is_named(text):
        found = re.search(reason.replace('MM', r'([\d.]+) (?:mm|deg)'), text)
        if not (found and text.startswith(f'{prefix}{name}: ')):
            return False
        scale = 1.0 if 'limits' in reason else 1e3
        return amount is None or abs(float(found[1]) - scale * amount) <= 0.6

    return planner, poses, is_named
