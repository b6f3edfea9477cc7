# SPDX-License-Identifier: Apache-2.0
"""
What clients do to the scene, by their ids: taken, or refused so that nothing may move.

Poses are judged by a forward kinematics of the test's own.

"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from geometry_msgs.msg import Point, Pose, TransformStamped
from moveit_msgs.msg import (
    AllowedCollisionEntry,
    AttachedCollisionObject,
    CollisionObject,
    LinkPadding,
    PlanningScene,
)
from rclpy.serialization import serialize_message
from scenes import crate, scene, with_boxes
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive

from ur5_pick_place.errors import InvalidInput, UnknownFrame, UnknownLink
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.nodes.cdr import read_message
from ur5_pick_place.nodes.scene_book import SceneBook
from ur5_pick_place.nodes.scene_messages import KnownScene, read_scene, scene_message

ADD, REMOVE, APPEND, MOVE = (
    CollisionObject.ADD,
    CollisionObject.REMOVE,
    CollisionObject.APPEND,
    CollisionObject.MOVE,
)
KINDS = {'box': [0.1] * 3, 'sphere': [0.1], 'cylinder': [0.2, 0.1], 'cone': [0.2, 0.1]}


class Arm:
    """Frames of an arm whose hand is 0.5 m above its base, turned by a quarter about z."""

    prefix = ''
    T_base_link_tool = np.array(
        [[0.0, -1.0, 0.0, 0.1], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
    )

    def T_base_frame(self, frame_id: str) -> np.ndarray:
        if frame_id not in ('', 'base_link'):
            raise UnknownFrame(f'frame {frame_id!r} is not known')
        return T_BASE_BASE_LINK

    def is_link(self, name: str) -> bool:
        return name == 'tool0'

    def T_tool_link(self, name: str) -> np.ndarray:
        if name not in ('', 'tool0'):
            raise UnknownLink(f'tip link {name!r} is not known')
        return np.eye(4)

    def T_base_tool(self) -> np.ndarray:
        return T_BASE_BASE_LINK @ self.T_base_link_tool


class Book:
    """A book to which messages are told; the scene file has the box `post`."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        arm = Arm()
        self.book = SceneBook(
            with_boxes(scene(), crate('post')), arm, arm.T_base_tool, self.warnings.append
        )

    @property
    def world(self) -> Any:
        return self.book.world

    def object(self, operation: bytes, name: str, *xs: float, at: float = 0.0, **fields: Any):
        """Tell of an object at x = `at`, with a box at each of `xs` from there [m]."""
        message = thing(operation, name, *xs, at=at, **fields)
        return self.book.take_object(serialize_message(message))

    def attach(self, name: str, *xs: float, operation: bytes = ADD, **fields: Any) -> str:
        """Tell of an object in the hand, with a box at each of `xs` from tool0 [m]."""
        held = AttachedCollisionObject(link_name='tool0', object=thing(operation, name, *xs))
        held.object.header.frame_id = 'tool0'
        for field, value in fields.items():
            setattr(held, field, value)
        return self.book.take_attached(serialize_message(held))

    def scene(self, message: PlanningScene) -> str:
        return self.book.take_scene(serialize_message(message))

    def apply(self, message: PlanningScene) -> None:
        self.book.apply(read_message(serialize_message(message), PlanningScene))

    def at(self) -> dict[str, list[float]]:
        """Give x [m] of each shape of each object."""
        return {
            name: [round(float(T[0, 3]), 9) for T in found.poses()]
            for name, found in self.world.objects.items()
        }


def thing(
    operation: bytes, name: str, *xs: float, at: float = 0.0, size: float = 0.1, frame: str = ''
) -> CollisionObject:
    message = CollisionObject(id=name, operation=operation)
    message.header.frame_id = frame
    message.pose.position.x = at
    message.primitives = [SolidPrimitive(type=1, dimensions=[size] * 3) for _ in xs]
    message.primitive_poses = [Pose() for _ in xs]
    for pose, x in zip(message.primitive_poses, xs, strict=True):
        pose.position.x = x
    return message


@pytest.fixture
def book() -> Book:
    return Book()


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
    assert not book.book.take_object(serialize_message(message))
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


def test_detaching_no_name_detaches_all_even_what_has_none(book):
    book.attach('', 0.0)
    book.attach('cup', 0.5)
    book.attach('', operation=REMOVE)
    assert not book.world.attached and set(book.world.objects) == {'', 'cup'}


def _one_corner(message: CollisionObject) -> None:
    triangle = MeshTriangle(vertex_indices=np.array([0, 1, 2], np.uint32))
    message.meshes = [Mesh(vertices=[Point(), Point(x=1.0)], triangles=[triangle])]


SPOILT: dict[str, Callable[[CollisionObject], object]] = {
    'nan': lambda m: setattr(m.pose.position, 'x', np.nan),
    'quaternion': lambda m: setattr(m.pose.orientation, 'w', 3.0),
    'zero': lambda m: setattr(m.primitives[0], 'dimensions', [0.1, 0.0, 0.1]),
    'dimensions': lambda m: setattr(m.primitives[0], 'dimensions', [0.1, 0.1]),
    'prism': lambda m: setattr(m.primitives[0], 'type', 5),
    'poses': lambda m: m.primitive_poses.append(Pose()),
    'frame': lambda m: setattr(m.header, 'frame_id', 'moon'),
    'operation': lambda m: setattr(m, 'operation', b'\x07'),
    'nothing': lambda m: (m.primitives.clear(), m.primitive_poses.clear()),
    'far': lambda m: setattr(m.pose.position, 'y', 1e6),
    'crowd': lambda m: setattr(m, 'primitives', m.primitives * 10_000),
    'many': lambda m: setattr(m, 'primitives', m.primitives * 257),
    'mesh': lambda m: setattr(m, 'meshes', [Mesh()]),
    'index': _one_corner,
    'plane': lambda m: setattr(m, 'planes', [Plane()]),
}


def spoilt(what: str) -> CollisionObject:
    message = thing(ADD, 'crate', 1.0)
    SPOILT[what](message)
    return message


@pytest.mark.parametrize('what', SPOILT)
@pytest.mark.parametrize('cure', ['remove', 'replace', 'remove all'])
def test_what_cannot_be_taken_bars_all_motion_until_it_is_removed_or_replaced(book, what, cure):
    book.object(ADD, 'crate', 4.0)
    assert "object 'crate'" in book.book.take_object(serialize_message(spoilt(what)))
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


def test_an_object_in_the_hand_without_weight_gets_a_warning(book):
    book.attach('cube', 0.1)
    assert "attached object 'cube' has no weight" in book.warnings[0]


def test_touch_links_are_links_of_the_arm(book):
    links = ['wrist_2_link', 'forearm_link', 'left_finger', 'base_link_inertia']
    book.attach('cube', 0.1, touch_links=links)
    assert {'wrist_2', 'forearm', 'base'} <= book.world.attached['cube'].may_touch


@pytest.mark.parametrize(
    ('fields', 'message'),
    [
        ({'link_name': 'nose'}, "'nose'"),
        ({'weight': np.nan}, 'nan kg'),
        ({'weight': -1.0}, '-1.0 kg'),
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


def whole(**fields: Any) -> PlanningScene:
    message = PlanningScene(is_diff=True)
    message.world.collision_objects = [thing(ADD, 'crate', 1.0)]
    for name, value in fields.items():
        setattr(message, name, value)
    return message


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


def test_no_collision_is_allowed_and_none_is_said_to_be(book):
    scene = whole()
    matrix = scene.allowed_collision_matrix
    matrix.entry_names, matrix.entry_values = ['crate'], [AllowedCollisionEntry(enabled=[False])]
    book.apply(scene)
    matrix.entry_values[0].enabled = [True]
    with pytest.raises(InvalidInput, match="allowed_collision_matrix of 'crate': no collision is"):
        book.apply(scene)


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
        book.book.take_object(bytes(data))
        scene_of(book.world).fingerprint()
    for found in book.world.objects.values():
        assert np.isfinite(found.poses()).all()
    book.object(REMOVE, '')
    assert not book.world.refused and not book.world.objects
