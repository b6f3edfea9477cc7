# SPDX-License-Identifier: Apache-2.0
"""
The arm's bodies against facts about the manufacturer's collision meshes.

`ur_link_surfaces.json` was measured once on Universal_Robots_ROS2_Description 2.4.5, for the ur15
on its visual meshes; ur18 and ur8long have its links, longer or shorter. For each other type and
link it has points [0.1 mm, DH frame of the link] on the mesh (`on_`) and points 5 to 11 mm
outside it, hollows left out (`off_`); for each type joints [0.1 mrad] of tool-down poses in which
two meshes of the bare arm touch, and others in which all pairs of them are 15 mm apart (ur5: 12
mm).
"""

import itertools
import json
from pathlib import Path

import coal
import numpy as np
import pytest
from independent_arm import convex
from scipy.spatial import ConvexHull

from ur5_pick_place.kinematics import UR_TYPES, link_frames, load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies, bodies_apart
from ur5_pick_place.kinematics.model import ARMS
from ur5_pick_place.planning.collision.collision import OWN_MARGIN, CollisionModel
from ur5_pick_place.planning.scene.scene import Scene, Tool

MEASURED = json.loads((Path(__file__).parents[3] / 'data' / 'ur_link_surfaces.json').read_text())
BARE = Scene(-2.0, Tool(np.eye(4)))
TYPES = [name for name in UR_TYPES if name in MEASURED]


def depth(ur_type: str, link: int, points) -> np.ndarray:
    """How far outside all bodies of a link points are [m], or a lower bound; negative inside."""
    hulls = [ConvexHull(b.vertices) for b in arm_bodies(load_model(ur_type)) if b.link == link]
    planes = [hull.equations for hull in hulls]
    return np.min([(points @ p[:, :3].T + p[:, 3]).max(axis=1) for p in planes], axis=0)


@pytest.mark.parametrize('link', range(7), ids=LINKS)
@pytest.mark.parametrize('ur_type', TYPES)
def test_the_bodies_enclose_the_mesh_of_their_link_closely(ur_type, link):
    on, off = (
        1e-4 * np.reshape(MEASURED[ur_type][f'{kind}_{LINKS[link]}'], (-1, 3))
        for kind in ('on', 'off')
    )
    assert (depth(ur_type, link, on) <= 0.0).all()
    assert (depth(ur_type, link, off) > 0.0).all()
    assert len(on) > 20 and len(off) > 10


@pytest.mark.parametrize('ur_type', TYPES)
def test_postures_in_which_meshes_touch_are_refused_and_clear_ones_admitted(ur_type):
    collision = CollisionModel(load_model(ur_type), BARE)
    assert collision.collides(1e-4 * np.array(MEASURED[ur_type]['touching'])).all()
    assert not collision.collides(1e-4 * np.array(MEASURED[ur_type]['clear'])).any()


@pytest.mark.parametrize('ur_type', TYPES)
def test_the_first_goal_of_the_drivers_own_test_is_free(ur_type):
    """Its meshes are 10 mm apart at least, forearm and wrist_2."""
    q = np.deg2rad([45.0, -90.0, 45.0, 45.0, 45.0, 45.0])
    assert CollisionModel(load_model(ur_type), BARE).check(q) is None


def gaps(ur_type, q, pairs):
    """Yield the distance of each two bodies, by their numbers, at each of q (n, 6) [m]."""
    model = load_model(ur_type)
    bodies = arm_bodies(model)
    shapes = [convex(body.vertices) for body in bodies]
    for frames in link_frames(model, q):
        for a, b in pairs:
            ends = (frames[bodies[k].link] for k in (a, b))
            T_a, T_b = (coal.Transform3s(T[:3, :3], T[:3, 3]) for T in ends)
            request, found = coal.DistanceRequest(), coal.DistanceResult()
            yield coal.distance(shapes[a], T_a, shapes[b], T_b, request, found)


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_bodies_that_are_not_checked_against_each_other_are_apart_at_any_joints(ur_type, rng):
    q = rng.uniform(-np.pi, np.pi, (300, 6))
    found = gaps(ur_type, q, bodies_apart(load_model(ur_type)))
    assert min(found, default=1.0) > OWN_MARGIN - 2e-4, '`apart` of kinematics/arm_shapes.json'


def test_an_arm_like_another_has_the_bodies_that_are_given_for_itself(monkeypatch):
    own = bodies_apart(load_model('ur18'))
    monkeypatch.setitem(ARMS, 'ur18', {**ARMS['ur18'], 'like': 'ur15'})
    assert bodies_apart(load_model('ur18')) == own != bodies_apart(load_model('ur15'))


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_bodies_of_neighbouring_links_meet(ur_type, rng):
    """Whatever the joints: there is no gap in the arm through which something could pass."""
    links = [body.link for body in arm_bodies(load_model(ur_type))]
    for q in rng.uniform(-np.pi, np.pi, (3, 6)):
        for link in range(6):
            pairs = itertools.product(
                *([k for k, own in enumerate(links) if own == one] for one in (link, link + 1))
            )
            gap = min(gaps(ur_type, q[None], pairs))
            assert gap < 0.01, f'{LINKS[link]} and {LINKS[link + 1]} are {gap} m apart'
