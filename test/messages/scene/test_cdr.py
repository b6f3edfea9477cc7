# SPDX-License-Identifier: Apache-2.0
"""Messages are read from their bytes as rclpy reads them, in no time, or refused by name."""

import time

import numpy as np
import pytest
from geometry_msgs.msg import Point, Pose, TransformStamped
from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene
from rclpy.serialization import serialize_message
from shape_msgs.msg import Mesh, MeshTriangle, Plane, SolidPrimitive

from ur5_pick_place.nodes.messages.cdr import MAX_ITEMS, Unreadable, read_message


def pose(rng) -> Pose:
    made = Pose()
    for part in (made.position, made.orientation):
        for axis in part.get_fields_and_field_types():
            setattr(part, axis, float(rng.normal()))
    return made


def numbers(made: Pose) -> list[float]:
    p, q = made.position, made.orientation
    return [p.x, p.y, p.z, q.x, q.y, q.z, q.w]


def thing(rng, name: str) -> CollisionObject:
    made = CollisionObject(id=name, pose=pose(rng), operation=CollisionObject.MOVE)
    made.header.frame_id = 'x' * int(rng.integers(9))
    for _ in range(rng.integers(4)):
        size = rng.random(int(rng.integers(1, 4))).tolist()
        made.primitives.append(SolidPrimitive(type=int(rng.integers(1, 5)), dimensions=size))
        made.primitive_poses.append(pose(rng))
    for _ in range(rng.integers(3)):
        mesh = Mesh(vertices=[Point(x=float(v)) for v in rng.random(int(rng.integers(5)))])
        mesh.triangles = [
            MeshTriangle(vertex_indices=rng.integers(9, size=3).astype(np.uint32))
            for _ in range(rng.integers(4))
        ]
        made.meshes.append(mesh)
        made.mesh_poses.append(pose(rng))
    made.planes = [Plane(coef=rng.random(4)) for _ in range(rng.integers(3))]
    made.subframe_names = ['a', 'böse'][: int(rng.integers(3))]
    return made


def assert_alike(read, made: CollisionObject) -> None:
    assert (read.id, read.header.frame_id) == (made.id, made.header.frame_id)
    assert read.pose.tolist() == numbers(made.pose)
    assert [(p.type, list(p.dimensions)) for p in read.primitives] == [
        (p.type, list(p.dimensions)) for p in made.primitives
    ]
    assert read.primitive_poses.tolist() == [numbers(p) for p in made.primitive_poses]
    for ours, theirs in zip(read.meshes, made.meshes, strict=True):
        assert ours.vertices.tolist() == [[p.x, p.y, p.z] for p in theirs.vertices]
        assert ours.triangles.tolist() == [t.vertex_indices.tolist() for t in theirs.triangles]
    assert read.planes.tolist() == [p.coef.tolist() for p in made.planes]
    assert read.subframe_names == made.subframe_names
    assert read.operation == made.operation[0]


def test_random_scenes_are_read_as_they_were_written(rng):
    for _ in range(60):
        scene = PlanningScene(is_diff=bool(rng.integers(2)), name='n' * int(rng.integers(6)))
        scene.world.collision_objects = [thing(rng, f'o{i}') for i in range(rng.integers(4))]
        held = AttachedCollisionObject(link_name='tool0', weight=0.5, touch_links=['a', 'bc'])
        held.object = thing(rng, 'held')
        scene.robot_state.attached_collision_objects = [held]
        scene.robot_state.joint_state.position = [0.5, 0.25]
        scene.fixed_frame_transforms = [TransformStamped(child_frame_id='f')]
        read = read_message(serialize_message(scene), PlanningScene)
        assert (read.name, read.is_diff) == (scene.name, scene.is_diff)
        assert read.fixed_frame_transforms[0].child_frame_id == 'f'
        for ours, theirs in zip(
            read.world.collision_objects, scene.world.collision_objects, strict=True
        ):
            assert_alike(ours, theirs)
        (ours,) = read.robot_state.attached_collision_objects
        assert (ours.link_name, ours.weight, ours.touch_links) == ('tool0', 0.5, ['a', 'bc'])
        assert_alike(ours.object, held.object)


def test_bytes_that_end_early_or_are_anything_are_refused(rng):
    whole = serialize_message(thing(rng, 'crate'))
    for end in range(4, len(whole) - 1, 3):
        with pytest.raises(Unreadable):
            read_message(whole[:end], CollisionObject)
    for _ in range(300):
        spoilt = bytearray(whole)
        for at in rng.integers(4, len(whole), 3):
            spoilt[at] = int(rng.integers(256))
        try:
            read_message(bytes(spoilt), CollisionObject)
        except Unreadable as error:
            assert str(error)


def test_a_crowd_of_boxes_is_refused_at_once_and_by_name():
    crowd = CollisionObject(id='crowd')
    crowd.primitives = [SolidPrimitive(type=1, dimensions=[0.1] * 3)] * 10_000
    data = serialize_message(crowd)
    begin = time.thread_time()
    with pytest.raises(Unreadable, match=f'10000: at most {MAX_ITEMS}') as refusal:
        read_message(data, CollisionObject)
    assert time.thread_time() - begin < 0.02
    assert refusal.value.id == 'crowd'


def test_a_mesh_of_many_triangles_is_read_within_a_control_tick():
    mesh = Mesh(vertices=[Point(x=0.5)] * 5000, triangles=[MeshTriangle()] * 10_000)
    data = serialize_message(CollisionObject(id='m', meshes=[mesh], mesh_poses=[Pose()]))
    begin = time.thread_time()
    read = read_message(data, CollisionObject)
    assert time.thread_time() - begin < 0.008
    assert read.meshes[0].vertices.shape == (5000, 3)
    assert read.meshes[0].triangles.shape == (10_000, 3)
