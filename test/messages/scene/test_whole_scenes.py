# SPDX-License-Identifier: Apache-2.0
"""Scenes as a whole: taken, or refused so that nothing may move until another one is taken."""

from array import array

import numpy as np
import pytest
from geometry_msgs.msg import TransformStamped
from moveit_msgs.msg import AllowedCollisionEntry, LinkPadding, PlanningScene
from rclpy.serialization import serialize_message
from scene_clients import ADD, REMOVE, spoilt, thing, whole

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.scene.scene_book import SCENE


def test_a_scene_is_applied_whole_or_not_at_all(book):
    book.apply(whole())
    assert book.at() == {'crate': [1.0]}
    bad = whole()
    bad.world.collision_objects = [thing(ADD, 'other', 1.0), spoilt('zero')]
    with pytest.raises(InvalidInput, match="object 'crate'"):
        book.apply(bad)
    assert book.at() == {'crate': [1.0]} and not book.world.refused
    book.scene(bad)
    assert book.at() == {'crate': [1.0], 'other': [1.0]}
    assert "'crate'" in book.world.refusal
    book.apply(whole())
    assert not book.world.refused
    book.apply(PlanningScene())
    assert book.at() == {}


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'link_padding': [LinkPadding(link_name='forearm_link', padding=0.1)]}, 'link_padding'),
        ({'fixed_frame_transforms': [TransformStamped()]}, 'tf_static'),
    ],
)
def test_what_a_scene_cannot_have_here_is_refused(book, fields, message):
    with pytest.raises(InvalidInput, match=message):
        book.apply(whole(**fields))
    assert book.at() == {}
    book.scene(whole(**fields))
    assert message in book.world.refusal
    book.scene(PlanningScene())
    assert not book.world.refusal


@pytest.mark.parametrize('cure', ['diff', 'service', 'whole scene'])
def test_what_is_no_obstacle_bars_until_a_scene_is_accepted_as_a_whole(book, cure):
    """A client that cannot publish a whole scene need not delete what the others have added."""
    book.object(ADD, 'shelf', 1.0)
    diff = PlanningScene(is_diff=True)
    diff.link_padding = [LinkPadding(link_name='forearm_link', padding=0.1)]
    assert 'link_padding' in book.scene(diff)
    assert 'publish any valid scene there, a diff (is_diff true) will do' in book.world.refusal
    bad = whole()
    bad.world.collision_objects = [spoilt('zero')]
    book.scene(bad)
    book.object(REMOVE, 'crate')
    assert 'link_padding' in book.world.refusal, 'that one was not accepted as a whole'
    if cure == 'service':
        book.apply(whole())
    else:
        book.scene(whole(is_diff=cure == 'diff'))
    assert not book.world.refused
    assert book.at() == {'crate': [1.0]} | ({} if cure == 'whole scene' else {'shelf': [1.0]})


def test_obstacles_that_nobody_knows_bar_until_a_whole_scene(book):
    octomap, cut = PlanningScene(is_diff=True), serialize_message(whole())[:-9]
    octomap.world.octomap.octomap.data = array('b', [1])
    for data in (serialize_message(octomap), cut):
        assert book.book.take(SCENE, data)
        book.scene(whole())
        assert 'publish a whole scene (is_diff false) that is valid' in book.world.refusal
        book.scene(whole(is_diff=False))
        assert not book.world.refused


def transform(parent: str, child: str, x: float = 0.0, w: float = 1.0) -> TransformStamped:
    message = TransformStamped(child_frame_id=child)
    message.header.frame_id = parent
    message.transform.translation.x = x
    message.transform.rotation.w, message.transform.rotation.z = w, (1.0 - w * w) ** 0.5
    return message


def test_a_transform_that_says_what_is_known_is_accepted(book):
    """MoveIt adds that of the planning frame to itself to each scene."""
    known = [transform(name, name) for name in ('world', 'base_link', 'moon')]
    known.append(camera := transform('base_link', 'camera', 0.1, 0.5**0.5))
    camera.transform.translation.z = 0.5
    book.apply(whole(fixed_frame_transforms=known))
    assert not book.scene(whole(fixed_frame_transforms=known))


@pytest.mark.parametrize(
    ('given', 'message'),
    [
        (transform('world', 'world', 0.1), r'at \[0.1, 0.0, 0.0\] m, known at \[0.0, 0.0, 0.0\]'),
        (transform('base_link', 'base_link', w=0.8), 'turned by 73.7 deg to it'),
        (transform('base_link', 'camera'), r'known at \[0.1, 0.0, 0.5\] m and turned by 90 deg'),
        (transform('base_link', 'moon'), "frame 'moon' is not known"),
        (transform('world', 'world', np.nan), 'is not finite'),
        (transform('', ''), 'a frame has no name'),
    ],
)
def test_a_transform_that_says_something_else_is_refused(book, given, message):
    with pytest.raises(InvalidInput, match=message):
        book.apply(whole(fixed_frame_transforms=[given]))


def test_no_collision_is_allowed_and_none_is_said_to_be(book):
    scene = whole()
    matrix = scene.allowed_collision_matrix
    matrix.entry_names, matrix.entry_values = ['crate'], [AllowedCollisionEntry(enabled=[False])]
    book.apply(scene)
    matrix.entry_values[0].enabled = [True]
    with pytest.raises(InvalidInput, match="allowed_collision_matrix of 'crate': no collision is"):
        book.apply(scene)
