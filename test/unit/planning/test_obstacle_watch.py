# SPDX-License-Identifier: Apache-2.0
"""The watch of a closed loop never passes what the planner's own check refuses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.kinematics import forward, load_model, solutions_near
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE
from ur5_pick_place.planning.collision.obstacle_watch import ObstacleWatch
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene import Box
from ur5_pick_place.planning.scene.scene_file import load_scene

MODEL = load_model('ur5')
SCENE = load_scene(Path(__file__).parents[3] / 'config' / 'scene_sim.yaml')
START = np.array([0.2, -1.5, 1.7, -1.77, -1.57, 0.3])


@pytest.fixture
def planner():
    return MotionPlanner(MODEL, MotionSettings(), SCENE)


def line_from(q, way, steps):
    """Return joints (steps, 6) on a straight line of the tool, `way` (3,) [m] long."""
    path, T = [q], forward(MODEL, q)
    for _ in range(steps - 1):
        T[:3, 3] += np.asarray(way) / steps
        path.append(solutions_near(MODEL, T, path[-1])[0].q)
    return np.array(path)


def test_both_find_the_same_on_lines_into_table_and_arm(planner, rng):
    watch, found = ObstacleWatch(planner), set()
    for way in ([0.0, 0.0, -0.35], [0.35, 0.1, 0.0], *rng.uniform(-0.3, 0.3, (4, 3))):
        path = line_from(START, way, 60)
        for here, there in zip(path, path[4:], strict=False):
            for q in (here[None], np.stack([here, there])):
                expected = planner.why_blocked(q)
                assert watch(q) == expected
                found.add(expected != '')
    assert found == {False, True}


def test_less_than_one_distance_is_measured_per_tick(planner):
    watch, path = ObstacleWatch(planner), line_from(START, [0.05, 0.1, 0.0], 100)
    for here, there in zip(path, path[10:], strict=False):
        assert not watch(here[None]) and not watch(np.stack([here, there]))
    assert 0 < watch.count <= 60  # in 90 ticks, of 87 pairs of bodies


def test_another_scene_counts_at_once(planner):
    watch = ObstacleWatch(planner)
    assert not watch(START[None])
    T_base_link_box = T_BASE_LINK_BASE @ forward(MODEL, START)
    box = Box('crate', T_base_link_box, np.full(3, 0.2))
    planner.set_scene(replace(SCENE, boxes=(*SCENE.boxes, box)))
    assert 'crate' in watch(START[None])
    planner.set_scene(SCENE)
    assert not watch(START[None])


def test_joints_outside_their_limits_are_named(planner):
    watch = ObstacleWatch(planner)
    outside = START + [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    found = planner.why_blocked(np.stack([START, outside]))
    assert watch(np.stack([START, outside])) == found
    at = np.degrees(outside[2])
    assert f'elbow_joint is at {at:.1f} deg: must lie in -180 to 180 deg' in found
