# SPDX-License-Identifier: Apache-2.0
"""
An object that appears on collision_object right ahead of a moving arm, over DDS.

Whether the arm touched it is judged by every joint state that the driver sent.

"""

from dataclasses import replace

import numpy as np
import pytest
from arm_over_table import box_at
from cells import running_cell
from closed_loop_cell import PLANNER, TCP
from geometry_msgs.msg import TwistStamped
from moveit_msgs.msg import CollisionObject
from planner_client import (
    CODE,
    MODEL,
    T_BASE_LINK_BASE,
    PlannerClient,
    box,
    pose_goal,
)
from rcl_interfaces.msg import Log

from ur5_pick_place.kinematics import JOINT_NAMES, forward

pytestmark = [pytest.mark.drill, pytest.mark.nodes, pytest.mark.usefixtures('at_home')]
SIZE = 0.02  # [m]
JOG = 'trajectory_planner/delta_twist_cmds'


@pytest.fixture(scope='module')
def client(ros_domain, tmp_path_factory):
    """
    Give a client of a cell at 0.15 times real time.

    Millimetres are judged here: the arm goes 30 of them in 0.1 s. Processes on two shared cores
    can stand still that long, but those of a robot's driver do not. Here 30 mm take 0.7 s of wall
    clock.

    """
    options = {'without': ['pick_place'], 'quick': 0.15}
    folder = tmp_path_factory.mktemp('cell')
    with running_cell(PlannerClient, ros_domain, folder, **options) as client:
        yield client


def collision(q, position):
    """Return the first contact of the joints (n, 6) with the cell and a post."""
    scene = PLANNER.scene
    post = box_at('post', position, (SIZE,) * 3)
    PLANNER.set_scene(replace(scene, boxes=(*scene.boxes, post)))
    try:
        return next(filter(None, map(PLANNER.collision.check, q)), None)
    finally:
        PLANNER.set_scene(scene)


def tcp(q):
    T = T_BASE_LINK_BASE @ forward(MODEL, q)
    return T[:3, :3] @ TCP + T[:3, 3]


def ahead(q, qd, distance):
    """
    Return where a post comes too near to the arm once its TCP has gone `distance` [m] on.

    Some 20 mm go by at 0.3 m/s before the message is heard and the driver holds the arm.

    """
    way = tcp(q + 1e-3 * qd) - tcp(q)
    speed = 1e3 * np.linalg.norm(way)
    q_ahead = q + qd * distance / speed
    near, far = 0.0, distance + 0.1  # where it meets the arm and where it doesn't
    while far - near > 1e-3:
        middle = (near + far) / 2.0
        meets = collision([q_ahead], tcp(q) + middle * way / np.linalg.norm(way))
        near, far = (middle, far) if meets else (near, middle)
    return tcp(q) + near * way / np.linalg.norm(way)


def is_at_once(reason):
    return 'post' in reason and 'canceled at once: look whether' in reason


def positions(client):
    """Return every joint state since the client forgot, (n, 6) [rad]."""
    found = [dict(zip(m.name, m.position, strict=True)) for m in client.joints]
    return np.array([[m[name] for name in JOINT_NAMES] for m in found])


@pytest.fixture
def put_ahead(client):
    """Publish a post ahead of the moving arm; returns where. It is gone after the test."""

    def put(distance):
        client.forget()
        position = ahead(client.q, client.qd, distance)
        client.boxes.publish(box('post', *position, SIZE))
        return position

    yield put
    client.boxes.publish(box('post', 0.0, 0.0, 0.0, operation=CollisionObject.REMOVE))


def untouched(client, position):
    """Check that the arm rests, and that it never touched the post."""
    client.until(lambda: np.abs(client.qd).max() < 0.01, 'the arm to rest')
    client.run(0.5)
    assert np.abs(client.qd).max() < 0.01
    assert not collision(positions(client), position)


@pytest.mark.parametrize('distance', [0.06, 0.1])
def test_a_trajectory_ends_before_an_object_nearer_than_it_can_brake(client, put_ahead, distance):
    handle = client.set_off()
    position = put_ahead(distance)
    _, code = client.end(handle)
    assert is_at_once(code.message)
    untouched(client, position)


@pytest.mark.parametrize('distance', [0.02, 0.025])
def test_a_closed_loop_ends_before_an_object_nearer_than_it_can_brake(client, put_ahead, distance):
    T = T_BASE_LINK_BASE @ forward(MODEL, client.look())
    T[:3, 3] += 0.09, 0.3, -0.12
    planned = client.plan(pose_goal(T), 'RESOLVED_RATE')
    assert planned.error_code.val == CODE.SUCCESS, planned.error_code.message
    handle = client.start(planned.trajectory, ['resolved_rate'])
    begin = tcp(client.q)
    client.until(lambda: np.linalg.norm(tcp(client.q) - begin) > 0.05, 'its full speed')
    position = put_ahead(distance)
    _, code = client.end(handle)
    assert is_at_once(code.message)
    untouched(client, position)


@pytest.mark.parametrize('distance', [0.04, 0.06])
def test_a_jog_ends_before_an_object_nearer_than_it_can_brake(client, put_ahead, distance):
    """The twist goes on all the while: a person sees the object last."""
    said = []
    client.hear(Log, '/rosout', lambda m: said.append(m.msg), 50)
    publisher = client.node.create_publisher(TwistStamped, JOG, 10)
    client.until(publisher.get_subscription_count, 'the planner to listen')
    message = TwistStamped()
    message.header.frame_id = 'base_link'
    message.twist.linear.y = 0.3
    timer = client.node.create_timer(0.02, lambda: publisher.publish(message))
    try:
        client.until(lambda: np.abs(client.qd).max() > 0.3, 'the arm to move')
        begin = tcp(client.q)
        client.until(lambda: np.linalg.norm(tcp(client.q) - begin) > 0.05, 'its full speed')
        position = put_ahead(distance)
        client.run(1.0)
        untouched(client, position)
        assert any(map(is_at_once, said)), said
    finally:
        client.node.destroy_timer(timer)
        client.node.destroy_publisher(publisher)
    client.state('ready')
