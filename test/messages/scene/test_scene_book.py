# SPDX-License-Identifier: Apache-2.0
"""What clients do to the scene, by their ids: taken, or refused so that nothing may move."""

from array import array
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose, TransformStamped
from moveit_msgs.msg import AllowedCollisionEntry, CollisionObject, LinkPadding, PlanningScene
from rclpy.serialization import serialize_message
from scene_clients import ADD, APPEND, MOVE, REMOVE, SPOILT, Arm, Book, spoilt, thing, whole
from scenes import scene
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.messages.scene_messages import KnownScene, read_scene, scene_message
from ur5_pick_place.nodes.scene.scene_book import OBJECT, SCENE

KINDS = {'box': [0.1] * 3, 'sphere': [0.1], 'cylinder': [0.2, 0.1], 'cone': [0.2, 0.1]}


def test_an_object_goes_with_all_its_shapes_and_no_others(book):
    book.object(ADD, 'shelf', 1.0, 1.5)
    book.object(ADD, 'shelf/1', 2.0)
    assert book.at() == {'shelf': [1.0, 1.5], 'shelf/1': [2.0]}
    book.object(REMOVE, 'shelf')
    assert book.at() == {'shelf/1': [2.0]}
    assert not book.object(REMOVE, 'shelf') and not book.world.refused
    assert "no object 'shelf' to remove; there are: 'shelf/1'" in book.warnings[0]


@pytest.mark.parametrize(
    'name', ['table', 'base', 'part', 'gripper', 'wrist_1', 'post', '', 'ä\n\x1b[31m', 'x' * 5000]
)
def test_any_id_is_taken_and_moves_nothing_of_ours(book, name):
    assert not book.object(ADD, name, 1.0)
    assert not book.object(MOVE, name, at=2.0)
    assert book.at() == {name: [3.0]}
    assert not book.object(REMOVE, name) and book.at() == {}


def test_the_empty_id_removes_all(book):
    book.object(ADD, 'shelf', 1.0, 1.5)
    book.object(ADD, 'bad', 1.0, size=-1.0)
    book.object(REMOVE, '')
    assert book.at() == {} and not book.world.refused


def test_every_shape_is_taken(book):
    message = CollisionObject(id='heap')
    message.primitives = [
        SolidPrimitive(type=kind, dimensions=size) for kind, size in enumerate(KINDS.values(), 1)
    ]
    corners = [Point(), Point(x=0.1), Point(y=0.1), Point(z=0.1)]
    faces = [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    triangles = [MeshTriangle(vertex_indices=np.array(f, np.uint32)) for f in faces]
    message.meshes = [Mesh(vertices=corners, triangles=triangles)]
    message.planes = [Plane(coef=[0.0, 0.0, 2.0, 1.0])]
    assert not book.book.take(OBJECT, serialize_message(message))
    kinds = [type(p.shape).__name__ for p in book.world.objects['heap'].shapes]
    assert kinds == ['Cuboid', 'Sphere', 'Cylinder', 'Cone', 'Mesh', 'Plane']
    cylinder, cone = (book.world.objects['heap'].shapes[i].shape for i in (2, 3))
    assert (cylinder.height, cylinder.r) == (cone.height, cone.r) == (0.2, 0.1)
    assert book.world.objects['heap'].shapes[5].shape.offset == -0.5


def test_what_is_appended_moves_along(book):
    book.object(APPEND, 'shelf', 0.0, at=1.0)
    book.object(APPEND, 'shelf', 0.5, at=1.0)
    book.object(MOVE, 'shelf', at=3.0)
    assert book.at() == {'shelf': [3.0, 3.5]}
    book.object(ADD, 'shelf', 0.0, at=7.0)
    assert book.at() == {'shelf': [7.0]}


@pytest.mark.parametrize('what', SPOILT)
@pytest.mark.parametrize('cure', ['remove', 'replace', 'remove all'])
def test_what_cannot_be_taken_bars_all_motion_until_it_is_removed_or_replaced(book, what, cure):
    book.object(ADD, 'crate', 4.0)
    assert "object 'crate'" in book.book.take(OBJECT, serialize_message(spoilt(what)))
    assert "object 'crate' of collision_object was refused" in book.world.refusal
    assert 'publish it again on collision_object, or REMOVE it there' in book.world.refusal
    assert book.at() == {'crate': [4.0]}, 'what was known stays meanwhile'
    book.object(ADD, 'other', 1.0)
    book.object(MOVE, 'other', at=2.0)
    book.object(REMOVE, 'other')
    book.object(MOVE, 'crate', at=1.0)  # says nothing of its shape
    assert book.world.refusal
    if cure == 'replace':
        book.object(ADD, 'crate', 5.0)
    else:
        book.object(REMOVE, 'crate' if cure == 'remove' else '')
    assert not book.world.refusal


def test_no_refusal_forges_or_floods_the_log(book):
    refusal = book.object(ADD, 'x\n[ERROR] \x1b' * 1000, 1.0, frame='moon\n' * 100_000)
    assert len(refusal) < 700 and refusal.isprintable()


def test_a_move_to_nowhere_bars_until_it_is_moved_again(book):
    book.object(ADD, 'crate', 0.0)
    book.object(MOVE, 'crate', frame='moon')
    assert "'moon'" in book.world.refusal
    book.object(MOVE, 'crate', at=2.0)
    assert not book.world.refusal and book.at() == {'crate': [2.0]}


def test_a_move_may_place_the_shapes_anew(book):
    """As MoveIt does: each shape gets the pose given for it, with the vertices as they were."""
    shelf = thing(ADD, 'shelf', 1.0, 1.5)
    corners = [Point(x=x, y=y, z=z) for x, y, z in ((1.0, 0, 0), (1.2, 0, 0), (1.1, 0.2, 0))]
    triangle = MeshTriangle(vertex_indices=np.array([0, 1, 2], np.uint32))
    shelf.meshes = [Mesh(vertices=corners, triangles=[triangle])]
    assert not book.book.take(OBJECT, serialize_message(shelf))
    assert book.at() == {'shelf': [1.0, 1.5, 0.0]}
    move = thing(MOVE, 'shelf', 2.0, 3.0, at=0.5)
    move.primitives, move.mesh_poses = [], [Pose()]
    move.mesh_poses[0].position.x = 4.0
    assert not book.book.take(OBJECT, serialize_message(move))
    assert book.at() == {'shelf': [2.5, 3.5, 4.5]}
    published = scene_message(KnownScene('', book.world, None), 'base_link', 'tool0')
    (message,) = published.world.collision_objects
    assert np.isclose(message.meshes[0].vertices[1].x, 1.2), 'its own vertices'
    other = Book()
    other.apply(published)
    assert other.at() == book.at()


@pytest.mark.parametrize('n', [1, 3])
def test_a_move_that_places_another_number_of_shapes_is_refused(book, n):
    book.object(ADD, 'shelf', 1.0, 1.5)
    move = thing(MOVE, 'shelf', *np.arange(float(n)))
    move.primitives = []
    assert f'MOVE with {n} primitive_poses, the object has 2' in book.book.take(OBJECT,
        serialize_message(move)
    )
    assert book.at() == {'shelf': [1.0, 1.5]} and book.world.refusal


def test_a_move_does_not_lift_what_was_refused_for_its_shape(book):
    book.object(ADD, 'crate', 0.0)
    book.object(MOVE, 'crate', frame='moon')
    book.object(ADD, 'crate', 1.0, size=-1.0)
    book.object(MOVE, 'crate', at=2.0)
    assert book.world.refusal
    book.object(ADD, 'crate', 1.0)
    assert not book.world.refusal


def test_moving_what_is_not_known_bars_all_motion(book):
    """As after a restart of the planner: the client believes it to be there."""
    book.object(MOVE, 'crate', at=1.0)
    assert "'crate'" in book.world.refusal and 'it is not known' in book.world.refusal


def test_no_more_shapes_are_taken_than_a_check_can_afford(book):
    for i in range(60):
        book.object(ADD, f'shelf {i}', *np.arange(4.0))
    assert not book.world.refusal
    book.object(ADD, 'last', *np.arange(16.0))
    assert '257 boxes and shapes of objects: at most 256' in book.world.refusal


@pytest.mark.parametrize('topic', ['collision_object', 'attached_collision_object'])
def test_a_restarted_planner_forgets_a_refusal_when_its_own_object_is_removed(book, topic):
    """A follower gives it back what was refused, with the same words."""
    for name in ('crate', 'a shelf', ''):
        if topic == 'collision_object':
            book.object(ADD, name, 1.0, size=-1.0)
        else:
            book.attach(name, 0.1, weight=-1.0)
    before = dict(book.world.refused)
    known = KnownScene('', book.world, None)
    published = serialize_message(scene_message(known, 'base_link', 'tool0'))
    follower = read_scene(read_message(published, PlanningScene))
    restored = scene_message(follower._replace(name=''), 'base_link', 'tool0')
    restored.is_diff = True
    other = Book()
    other.scene(restored)
    assert dict(other.world.refused) == before and len(before) == 3
    tell = other.object if topic == 'collision_object' else other.attach
    for left, name in ((2, 'crate'), (1, 'a shelf'), (0, '')):
        tell(name=name, operation=REMOVE)
        assert len(other.world.refused) == left


def test_many_refusals_are_lifted_one_by_one(book):
    for i in range(250):
        book.object(ADD, f'crate {i}', 1.0, size=-1.0)
    assert len(book.world.refused) == 250
    for i in range(250):
        assert book.world.refusal
        book.object(REMOVE, f'crate {i}')
    assert not book.world.refused


def test_more_refusals_than_are_kept_need_a_whole_scene(book, monkeypatch):
    monkeypatch.setattr('ur5_pick_place.nodes.scene.scene_book._MAX_REFUSED', 3)
    for i in range(5):
        book.object(ADD, f'crate {i}', 1.0, size=-1.0)
    for i in range(5):
        book.object(REMOVE, f'crate {i}')
    assert 'more than 3 objects were refused: publish a whole scene' in book.world.refusal
    book.scene(PlanningScene())
    assert not book.world.refused


def test_the_head_of_a_message_that_is_too_large_tells_its_id(book):
    large = serialize_message(thing(ADD, 'crate', *np.arange(200.0)))
    book.book.take(OBJECT, large[:1024], 'too much at once')
    said = "object 'crate' of collision_object was refused: too much at once; publish it again"
    assert said in book.world.refusal
    book.object(ADD, 'crate', 1.0)
    assert not book.world.refused
    book.book.take(OBJECT, large[:20], 'too much at once')
    assert 'REMOVE all there with an empty id' in book.world.refusal
    book.object(REMOVE, '')
    assert not book.world.refused


def test_an_error_that_nobody_foresaw_bars_all_motion_like_a_refusal(book, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError('of a library')

    monkeypatch.setattr(Arm, 'T_base_frame', fail)
    assert 'ZeroDivisionError: of a library; please report it' in book.object(ADD, 'crate', 1.0)
    assert 'crate' in book.world.refusal
    book.object(REMOVE, '')
    assert 'ZeroDivisionError' in book.scene(whole())
    with pytest.raises(InvalidInput, match='ZeroDivisionError'):
        book.apply(whole())


def test_an_id_of_any_length_is_refused_by_its_first_characters(book):
    refusal = book.object(ADD, 'x' * 20_000, 1.0)
    assert 'its id has 20000 characters: must be at most 10000' in refusal and len(refusal) < 500
    assert book.world.refusal
    book.object(REMOVE, 'x' * 20_000)
    assert book.world.refusal, 'an id of that length is no other object'
    book.object(REMOVE, '')
    assert not book.world.refusal


@pytest.mark.parametrize('x', [200.0, 1e308])
def test_no_shape_of_an_object_lies_out_of_the_world(book, x):
    assert 'must lie in -100 to 100 m' in book.object(ADD, 'crate', x)
    assert 'must lie in -100 to 100 m' in book.attach('bolt', x, weight=0.1)


def test_what_an_earlier_planner_had_refused_is_one_line(book):
    message = whole()
    forged = message.world.collision_objects[0]
    forged.id = 'collision_object crate'
    forged.type.db, forged.type.key = 'ur5_pick_place/refused', 'ok\n[INFO] rearmed'
    assert '\n' not in book.scene(message) and '\n' not in book.world.refusal


def test_what_is_left_out_of_an_object_gets_a_warning(book):
    book.object(ADD, 'mug', 1.0, subframe_names=['handle', 'rim'])
    assert "object 'mug': its 2 subframes are left out" in book.warnings[0]
    book.attach('bolt', 0.1, weight=0.1, detach_posture=JointTrajectory(joint_names=['finger']))
    assert "attached object 'bolt': its detach_posture is left out" in book.warnings[1]
    assert len(book.warnings) == 2


def test_what_is_published_says_all_that_is_known(book, rng):
    book.object(ADD, 'shelf', 1.0, 1.5)
    book.attach('bolt', 0.1, weight=0.2, touch_links=['wrist_2_link'])
    book.object(ADD, 'bad', 1.0, size=-1.0)
    book.object(ADD, 'wall')
    message = scene_message(KnownScene('now', book.world, None), 'base_link', 'tool0')
    read = read_scene(read_message(serialize_message(message), PlanningScene))
    assert (read.name, read.part) == ('now', None)
    assert sorted(read.world.refused.values()) == sorted(book.world.refused.values())
    again, before = (scene_of(world).fingerprint() for world in (read.world, book.world))
    assert again == before
    other = Book()
    other.apply(message_without_refused(message))
    assert scene_of(other.world).fingerprint() == before, 'a client may send back what it got'


def message_without_refused(message: PlanningScene) -> PlanningScene:
    kept = [o for o in message.world.collision_objects if not o.type.db]
    message.world.collision_objects = kept
    return message


def scene_of(world: Any) -> Any:
    from dataclasses import replace

    return replace(scene(), world=world)


def test_bytes_of_any_content_leave_a_world_that_can_be_checked(book, rng):
    good = [serialize_message(thing(ADD, f'o{i}', 0.0, 1.0)) for i in range(3)]
    for _ in range(400):
        data = bytearray(good[rng.integers(3)])
        for at in rng.integers(4, len(data), rng.integers(1, 5)):
            data[at] = int(rng.integers(256))
        book.book.take(OBJECT, bytes(data))
        scene_of(book.world).fingerprint()
    for found in book.world.objects.values():
        assert np.isfinite(found.poses()).all()
    book.object(REMOVE, '')
    assert not book.world.refused and not book.world.objects


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


def test_what_moveit_allows_between_links_of_the_robot_bars_nothing(book):
    """It adds what the SRDF allows to each whole scene, as RViz publishes it."""
    scene = whole(is_diff=False)
    matrix = scene.allowed_collision_matrix
    matrix.entry_names = ['base_link', 'camera']
    rows = [False, True], [True, False]
    matrix.entry_values = [AllowedCollisionEntry(enabled=row) for row in rows]
    assert not book.scene(scene) and not book.world.refused
    for other in ('crate', 'moon'):  # an object, and what nobody knows
        matrix.entry_names = ['base_link', other]
        with pytest.raises(InvalidInput, match=f"allowed_collision_matrix of '{other}': no coll"):
            book.apply(scene)
    book.object(ADD, 'camera', 1.0)  # an object that is called as a link
    matrix.entry_names = ['base_link', 'camera']
    scene.is_diff = True
    with pytest.raises(InvalidInput, match="allowed_collision_matrix of 'camera': no collision"):
        book.apply(scene)
