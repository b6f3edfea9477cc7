# SPDX-License-Identifier: Apache-2.0
"""What clients put into the hand and let go, by its id; and what cannot be attached."""

from types import SimpleNamespace

import numpy as np
import pytest
from cycle_poses import SCENE
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene
from rclpy.serialization import serialize_message
from scene_clients import ADD, APPEND, MOVE, REMOVE, Arm, thing
from twists import exp_se3

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.scene_messages import attached_message
from ur5_pick_place.nodes.scene.carried_part import CarriedPart, read_carried
from ur5_pick_place.planning.scene.inertias import Load


def test_detaching_no_name_detaches_all_even_what_has_none(book):
    book.attach('', 0.0)
    book.attach('cup', 0.5)
    book.attach('', operation=REMOVE)
    assert not book.world.attached and set(book.world.objects) == {'', 'cup'}


def test_two_in_the_hand_are_let_go_one_by_one(book):
    book.attach('bolt', 0.1, weight=0.2)
    book.attach('nut', 0.3, weight=0.1)
    book.attach('screw', operation=REMOVE)
    assert list(book.world.attached) == ['bolt', 'nut']
    assert "no attached object 'screw'; there are: 'bolt', 'nut'" in book.warnings[-1]
    book.attach('bolt', operation=REMOVE)
    assert list(book.world.attached) == ['nut'] and list(book.world.objects) == ['bolt']
    book.attach('', operation=REMOVE)
    assert not book.world.attached and set(book.world.objects) == {'bolt', 'nut'}


def test_an_id_alone_takes_the_object_out_of_the_scene_and_lays_it_down_where_it_is(book):
    book.object(ADD, 'cube', 0.4)
    assert not book.attach('cube', weight=0.5)
    assert not book.world.objects
    held = book.world.attached['cube']
    in_hand = np.linalg.inv(Arm.T_base_link_tool) @ [0.4, 0, 0, 1]
    np.testing.assert_allclose((held.T_tool_object @ held.shapes[0].T_object_shape)[:, 3], in_hand)
    assert held.mass == 0.5
    before, Arm.T_base_link_tool = Arm.T_base_link_tool, Arm.T_base_link_tool.copy()
    try:
        Arm.T_base_link_tool[2, 3] += 0.25  # lifted
        book.attach('cube', operation=REMOVE)
    finally:
        Arm.T_base_link_tool = before
    (T,) = book.world.objects['cube'].poses()
    np.testing.assert_allclose(T[:3, 3], [0.4, 0.0, 0.25], atol=1e-12)


def shapes_in_base(book, name: str) -> list[list[float]]:
    """Give x, y and z [m] in base_link of each shape of an attached object."""
    held = book.world.attached[name]
    T = Arm.T_base_link_tool @ held.T_tool_object
    return [(T @ p.T_object_shape)[:3, 3].round(9).tolist() for p in held.shapes]


def test_an_id_alone_means_the_object_of_the_scene_also_while_one_of_that_id_is_held(book):
    book.attach('cube', 0.1, weight=0.5)
    book.object(ADD, 'cube', 0.4, 0.6)
    assert not book.attach('cube', weight=0.7)
    assert not book.world.objects and book.world.attached['cube'].mass == 0.7
    assert shapes_in_base(book, 'cube') == [[0.4, 0.0, 0.0], [0.6, 0.0, 0.0]]
    assert not book.attach('cube', weight=0.2)  # not in the scene any more: the held one
    assert len(shapes_in_base(book, 'cube')) == 2 and book.world.attached['cube'].mass == 0.2


def test_what_is_appended_by_its_id_alone_leaves_the_scene_and_joins_the_held_one(book):
    book.attach('cube', 0.1)
    held = shapes_in_base(book, 'cube')
    book.object(ADD, 'cube', 0.4)
    assert not book.attach('cube', operation=APPEND)
    assert not book.world.objects
    assert shapes_in_base(book, 'cube') == [*held, [0.4, 0.0, 0.0]]


def test_an_object_in_the_hand_without_weight_gets_a_warning(book):
    book.attach('cube', 0.1)
    assert "attached object 'cube' has no weight" in book.warnings[0]


def test_touch_links_are_links_of_the_arm(book):
    links = ['wrist_2_link', 'forearm_link', 'left_finger', 'base_link_inertia']
    book.attach('cube', 0.1, touch_links=links)
    cube = book.world.attached['cube']
    assert {'wrist_2', 'forearm', 'base'} <= cube.may_touch
    told = attached_message(cube, 'tool0').touch_links
    assert told == ['base_link', 'forearm_link', 'left_finger', 'wrist_2_link']


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'link_name': 'nose'}, "'nose'"),
        ({'weight': np.nan}, 'nan kg'),
        ({'weight': -1.0}, '-1.0 kg'),
        ({'weight': 1.7e308}, 'weight = 1.7e+308 kg: must be 0 to 100 kg'),
        ({'operation': MOVE}, 'only ADD, APPEND and REMOVE'),
    ],
)
def test_what_cannot_be_attached_bars_until_it_is_let_go(book, fields, message):
    operation = fields.pop('operation', ADD)
    book.attach('cube', 0.1, operation=operation, **fields)
    assert message in book.world.refusal and "'cube'" in book.world.refusal
    book.attach('cube', operation=REMOVE)
    assert not book.world.refusal


def test_an_unknown_id_alone_is_not_attached(book):
    book.attach('ghost')
    assert 'not an object of the scene' in book.world.refusal and not book.world.attached


def test_an_id_that_is_added_only_then_goes_into_the_hand_after_all(book):
    """The two topics may overtake each other."""
    book.attach('cube', weight=0.3)
    assert book.world.refusal
    book.object(ADD, 'cube', 0.4)
    assert not book.world.refusal and not book.world.objects
    assert book.world.attached['cube'].mass == 0.3


@pytest.mark.parametrize('cure', ['let go', 'let all go', 'whole scene'])
def test_an_attachment_that_was_given_up_does_not_come_later(book, cure):
    book.attach('cube', weight=0.3)
    if cure == 'whole scene':
        book.apply(PlanningScene())
    else:
        book.attach('cube' if cure == 'let go' else '', operation=REMOVE)
    assert not book.world.refusal
    book.object(ADD, 'cube', 0.4)
    assert not book.world.attached and set(book.world.objects) == {'cube'}


def in_hand(name: str, *xs: float, operation: bytes = ADD) -> AttachedCollisionObject:
    held = AttachedCollisionObject(link_name='tool0', object=thing(operation, name, *xs))
    held.object.header.frame_id = 'tool0'
    return held


def changes(*objects: CollisionObject, held: AttachedCollisionObject) -> PlanningScene:
    scene = PlanningScene(is_diff=True)
    scene.world.collision_objects = list(objects)
    scene.robot_state.attached_collision_objects = [held]
    return scene


def test_an_attachment_that_a_service_refused_has_no_effect_later(book):
    with pytest.raises(InvalidInput, match='not an object of the scene'):
        book.apply(changes(held=in_hand('box')))
    book.object(ADD, 'box', 0.4)
    assert not book.world.attached and set(book.world.objects) == {'box'}


def test_what_is_let_go_in_a_scene_is_let_go_before_its_objects_change(book):
    let_go = in_hand('box', operation=REMOVE)
    book.attach('box', 0.1)
    book.apply(changes(thing(ADD, 'box', 0.7), held=let_go))
    assert book.at() == {'box': [0.7]} and not book.world.attached
    book.attach('box')
    book.apply(changes(thing(REMOVE, 'box'), held=let_go))
    assert not book.world.objects and not book.world.attached
    assert all('no weight' in warning for warning in book.warnings), 'there was one to remove'


def test_what_is_new_in_a_scene_can_be_attached_by_its_id(book):
    book.apply(changes(thing(ADD, 'box', 0.7), held=in_hand('box')))
    assert not book.world.objects and set(book.world.attached) == {'box'}


@pytest.mark.parametrize('held', [None, exp_se3(np.array([0.0, 0.0, 0.02, 0.0, 0.0, 1.2]))])
def test_the_planner_hears_how_the_part_is_held(held):
    sent = []
    publisher = SimpleNamespace(publish=sent.append)
    node = SimpleNamespace(create_publisher=lambda *_arguments: publisher)
    load = Load(0.08, np.array([0.0, 0.0, 0.145]), T_tcp_part=held)
    CarriedPart(node, SCENE, '').publish(load)
    found, part = read_carried(serialize_message(sent[0]), SCENE)
    T_tcp_part = SCENE.part.T_tcp_part if held is None else held
    np.testing.assert_allclose(found.T_tcp_part, T_tcp_part, atol=1e-9)
    np.testing.assert_allclose(part.T_tool_object, SCENE.tool.T_tool_tcp @ T_tcp_part, atol=1e-9)
    assert found.mass == part.mass == 0.08
