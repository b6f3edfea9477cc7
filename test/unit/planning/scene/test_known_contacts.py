# SPDX-License-Identifier: Apache-2.0
"""Poses whose contact is known by where the fingers are: found, allowed, or none."""

from dataclasses import replace

import numpy as np
import pytest
from solids import HALF_CUBE, SCENE, UR5, elbow_up_at

from ur5_pick_place.kinematics import HOME, UR_TYPES, load_model
from ur5_pick_place.planning.collision.collision import TOUCH_DEPTH, CollisionModel

UPRIGHT = np.deg2rad([0.0, -90.0, 0.0, -90.0, 0.0, 0.0])
FINGERTIP = 0.158 - 0.145  # how far the fingers reach below the TCP [m]


@pytest.mark.parametrize('ur_type', UR_TYPES)
@pytest.mark.parametrize('q', [HOME, UPRIGHT], ids=['home', 'upright'])
def test_usual_poses_are_free(ur_type, q):
    collision = CollisionModel(load_model(ur_type), SCENE)
    assert collision.check(q) is None
    assert collision.distance(q)[0] > SCENE.margin


@pytest.mark.parametrize('spare', [-0.0005, 0.0005])
def test_the_fingers_may_come_as_near_to_the_table_as_the_margin(spare):
    collision = CollisionModel(UR5, SCENE)
    q = elbow_up_at(0.45, -0.2, FINGERTIP + SCENE.margin + spare)
    contact = collision.check(q)
    assert (contact is None) == (spare > 0)
    if contact is None:
        distance, pair = collision.distance(q)
        assert pair == ('fingers', 'table')
        assert distance == pytest.approx(SCENE.margin + spare, abs=1e-9)
    else:
        assert (contact.body_a, contact.body_b) == ('fingers', 'table')
        assert contact.distance == pytest.approx(SCENE.margin + spare, abs=1e-9)
        assert contact.position[:2] == pytest.approx((0.45, -0.2), abs=0.07)
        assert str(contact).startswith('fingers is 4.5 mm from table near (')
        assert str(contact).endswith('required clearance 5.0 mm')


def test_a_carried_part_is_part_of_the_arm():
    low = elbow_up_at(0.45, -0.2, HALF_CUBE + 0.002)
    assert CollisionModel(UR5, SCENE).check(low) is None
    contact = CollisionModel(UR5, replace(SCENE, carried=True)).check(low)
    assert (contact.body_a, contact.body_b) == ('part', 'table')
    assert contact.distance == pytest.approx(0.002, abs=1e-9)


def test_an_allowed_pair_may_touch_but_not_be_pushed_through():
    strict = CollisionModel(UR5, replace(SCENE, carried=True))
    lifting = strict.allowing([('table', 'part')])
    assert lifting.check(elbow_up_at(0.45, -0.2, HALF_CUBE)) is None
    assert strict.check(elbow_up_at(0.45, -0.2, HALF_CUBE)) is not None, (
        'the original is as before'
    )
    contact = lifting.check(elbow_up_at(0.45, -0.2, HALF_CUBE - TOUCH_DEPTH - 0.001))
    assert (contact.body_a, contact.body_b) == ('part', 'table')
    assert str(contact).startswith('part is 4.0 mm inside table')
    assert lifting.distance(elbow_up_at(0.45, -0.2, HALF_CUBE))[1] != ('part', 'table')


def test_a_wide_margin_keeps_the_scene_away_but_not_the_arm_from_itself():
    wide = CollisionModel(UR5, replace(SCENE, margin=0.02))
    assert wide.check(HOME) is None
    assert wide.check(elbow_up_at(0.45, -0.2, 0.03)).body_b == 'table'
