# SPDX-License-Identifier: Apache-2.0
"""The IK node, in a process of its own, answers right requests."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pytest
import yaml
from driver_client import DriverClient
from geometry_msgs.msg import TransformStamped
from moveit_msgs.msg import PlanningScene
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from moveit_requests import CONFIG, UR5, Codes, ik_request
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from tf2_ros import StaticTransformBroadcaster
from twists import exp_se3
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix
from ur5_pick_place.nodes.messages.scene_messages import KnownScene, scene_message
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.scene.planning_scene import SCENE_OWNER, SCENE_TOPIC
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import (
    MAX_SHAPES,
    OWN_PART,
    AttachedObject,
    PlacedShape,
    SceneObject,
    World,
)

KINDS = {
    'compute_ik': GetPositionIK,
    'compute_ik_all': GetPositionIK,
    'compute_fk': GetPositionFK,
}
HALF_TURN = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link seen from base, and the other way round


class Client(DriverClient):
    """Calls the node's services and waits for the reply."""

    def ask(self, name: str, request: object):
        return self.call(KINDS[name], name, request)


@pytest.fixture(scope='module')
def client(ros_domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    specs = [s for s in node_list('mock', CONFIG) if s.executable == 'ik_service']
    folder = tmp_path_factory.mktemp('node')
    with NodeProcesses(specs, ros_domain, folder) as node, closing(Client()) as client:
        for name in KINDS:
            client.until(lambda name=name: client.node.count_services(name), name, 20.0)
        yield client
        node.check()


def joints_of(reply: GetPositionIK.Response) -> np.ndarray:
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    assert list(reply.solution.joint_state.name) == list(JOINT_NAMES)
    return np.array(reply.solution.joint_state.position)


def test_the_nearest_solution_to_the_seed_comes_back(client, rng):
    for frame in ('', 'base_link', '/base_link'):
        q = rng.uniform(-2, 2, 6)
        request = ik_request(HALF_TURN @ forward(UR5, q), q + 0.01, frame)
        state = request.ik_request.robot_state.joint_state
        state.name, state.position = state.name[::-1], state.position[::-1]
        reply = client.ask('compute_ik', request)
        assert np.abs(joints_of(reply) - q).max() < 1e-6


def test_each_of_many_requests_at_once_is_answered(client):
    """A client must keep as many replies; ROS keeps 10."""
    asking = client.node.create_client(
        GetPositionIK, 'compute_ik', qos_profile=QoSProfile(depth=500)
    )
    client.until(asking.service_is_ready, 'compute_ik')
    request = ik_request(HALF_TURN @ forward(UR5, HOME), HOME)
    replies = [asking.call_async(request) for _ in range(500)]
    client.until(lambda: all(reply.done() for reply in replies), 'all replies', 30.0)


def test_a_request_waits_for_its_frame_as_long_as_its_timeout_says(client):
    """Published while the request waits; in the meantime others are answered."""
    request = ik_request(HALF_TURN @ forward(UR5, HOME), frame='conveyor')
    request.ik_request.timeout.sec = 10
    waiting = client.call_later(GetPositionIK, 'compute_ik', request)
    for _ in range(3):
        joints_of(client.ask('compute_ik', ik_request(forward(UR5, HOME))))
    assert not waiting.done()
    message = TransformStamped(child_frame_id='conveyor')
    message.header.frame_id = 'base_link'
    message.transform.rotation.w = 1.0
    broadcaster = StaticTransformBroadcaster(client.node)
    broadcaster.sendTransform(message)
    client.until(waiting.done, 'the answer')
    assert np.abs(joints_of(waiting.result()) - HOME).max() < 1e-9


def test_a_frame_that_does_not_come_in_time_is_told(client):
    request = ik_request(forward(UR5, HOME), frame='moon')
    request.ik_request.timeout.nanosec = 200_000_000
    for service in ('compute_ik', 'compute_ik_all'):
        reply = client.ask(service, request)
        assert reply.error_code.val == Codes.TIMED_OUT
        assert "waited 0.2 s for TF: frame 'moon' is not known" in reply.error_code.message
        assert 'use base_link or base, or publish it' in reply.error_code.message
    request.ik_request.timeout.sec = -1
    reply = client.ask('compute_ik', request)
    assert reply.error_code.val == Codes.INVALID_GOAL_CONSTRAINTS
    assert 'timeout = -0.8 s: must be 0' in reply.error_code.message


@pytest.fixture
def published_scene(client: Client) -> Iterator[Callable[[World, AttachedObject | None], None]]:
    """Publishes scenes as the planner does, the empty one at the end."""
    planner = Node(SCENE_OWNER, context=client.node.context)
    publisher = planner.create_publisher(PlanningScene, SCENE_TOPIC, LATCHED)
    client.until(lambda: publisher.get_subscription_count() == 1, 'the node to listen')

    def publish(world: World, part: AttachedObject | None = None) -> None:
        publisher.publish(scene_message(KnownScene('planner', world, part), 'base_link', 'tool0'))
        assert publisher.wait_for_all_acked(Duration(seconds=20.0)), 'there, if not read yet'

    yield publish
    publish(World())
    request = ik_request(forward(UR5, HOME))
    request.ik_request.avoid_collisions = True
    joints_of(client.ask('compute_ik', request))
    planner.destroy_node()


def boxes(count: int, T_base_link_object: np.ndarray, edge: float) -> SceneObject:
    poses = [exp_se3([0.0, 0.0, 1e-3 * k, 0.0, 0.0, 0.0]) for k in range(count)]
    cube = Cuboid((edge, edge, edge))
    return SceneObject('boxes', T_base_link_object, tuple(PlacedShape(cube, T) for T in poses))


def test_a_scene_that_came_before_a_request_counts_for_it(client, published_scene):
    """However long it takes to read; each time another large scene."""
    T_base_link_tool = HALF_TURN @ forward(UR5, HOME)
    away = exp_se3([0.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    request = ik_request(forward(UR5, HOME))
    request.ik_request.avoid_collisions = True
    for _ in range(5):
        published_scene(World().with_object(boxes(250, T_base_link_tool, 0.05)))
        assert client.ask('compute_ik', request).error_code.val == Codes.GOAL_IN_COLLISION
        published_scene(World().with_object(boxes(250, away, 0.05)))
        joints_of(client.ask('compute_ik', request))


def test_a_scene_that_cannot_be_used_leaves_none_in_use(client, published_scene):
    """The one before it is no longer true."""
    away = exp_se3([0.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    part = AttachedObject(OWN_PART, np.eye(4), boxes(1, away, 0.04).shapes, 0.1, frozenset())
    published_scene(World().with_object(boxes(MAX_SHAPES, away, 0.05)), part)
    request = ik_request(forward(UR5, HOME))
    request.ik_request.avoid_collisions = True
    reply = client.ask('compute_ik', request)
    assert reply.error_code.val == Codes.COLLISION_CHECKING_UNAVAILABLE
    assert f'at most {MAX_SHAPES}' in reply.error_code.message, reply.error_code.message


def test_ghosts_are_drawn_for_whoever_listens(client):
    heard: list[MarkerArray] = []
    listener = client.node.create_subscription(MarkerArray, 'ik_markers', heard.append, 1)
    client.until(lambda: client.node.count_publishers('ik_markers') > 0, 'the markers')
    deadline = time.monotonic() + 10.0
    while not heard and time.monotonic() < deadline:  # until discovery is through both ways
        client.ask('compute_ik_all', ik_request(forward(UR5, HOME)))
        client.look()
    ghosts = [m for m in heard[0].markers if m.action == Marker.ADD]
    assert len(ghosts) == 8
    tip = ghosts[0].points[-1]
    expected = HALF_TURN @ forward(UR5, HOME)
    assert np.allclose([tip.x, tip.y, tip.z], expected[:3, 3], atol=1e-9)
    client.node.destroy_subscription(listener)


def test_joint_states_are_the_seed_and_the_state_where_none_is_given(client):
    """Until joints are heard FK says so; afterwards they are what it takes."""
    reply = client.ask('compute_fk', GetPositionFK.Request())
    assert reply.error_code.val == Codes.INVALID_ROBOT_STATE
    assert 'no recent joint_states' in reply.error_code.message
    q = HOME + 0.2
    publisher = client.node.create_publisher(JointState, 'joint_states', 10)
    state = JointState(name=sorted(JOINT_NAMES))
    state.position = [float(q[JOINT_NAMES.index(name)]) for name in state.name]
    deadline = time.monotonic() + 10.0
    while reply.error_code.val != Codes.SUCCESS and time.monotonic() < deadline:
        publisher.publish(state)
        reply = client.ask('compute_fk', GetPositionFK.Request())
    assert list(reply.fk_link_names) == ['tool0']
    gripper = JointState(name=['finger_joint'], position=[0.4])
    for _ in range(5):  # on the same topic, and says nothing of the arm
        publisher.publish(gripper)
        reply = client.ask('compute_fk', GetPositionFK.Request())
        assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    T = HALF_TURN @ forward(UR5, q)
    assert np.abs(pose_to_matrix(reply.pose_stamped[0].pose) - T).max() < 1e-12
    found = joints_of(client.ask('compute_ik', ik_request(forward(UR5, q), seed=None)))
    assert np.abs(found - q).max() < 1e-9


def fill(message: object, values: dict) -> None:
    """Set fields from YAML as `ros2 service call` does: those not named keep their defaults."""
    for name, value in values.items():
        if isinstance(value, dict):
            fill(getattr(message, name), value)
        else:
            setattr(message, name, value)


def test_the_call_of_the_page_needs_only_a_pose_and_is_answered_as_it_stands(client):
    call = r'^ros2 service call /compute_ik moveit_msgs/srv/GetPositionIK "(\{.*\})"$'
    (text,) = re.findall(call, (CONFIG.parent / 'docs/howto/moveit.md').read_text(), re.MULTILINE)
    values, request = yaml.safe_load(text), GetPositionIK.Request()
    assert list(values['ik_request']['pose_stamped']) == ['pose'] and len(values) == 1
    fill(request, values)
    q = joints_of(client.ask('compute_ik', request))
    asked = HALF_TURN @ pose_to_matrix(request.ik_request.pose_stamped.pose)
    assert np.abs(asked - forward(UR5, q)).max() < 1e-9
