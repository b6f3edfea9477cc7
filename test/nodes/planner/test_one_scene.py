# SPDX-License-Identifier: Apache-2.0
"""
One scene for all nodes: what a client says is there bars the way in each of them, or is refused.

Through the real nodes with the simulated cell; whether something moved is judged by the joints.
"""

import os
import signal
import time

import numpy as np
import pace
import pytest
import rclpy
from cells import running_cell, sim_nodes
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    MoveItErrorCodes,
    PlanningScene,
)
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene, GetPositionIK
from planner_client import PlannerClient, box, joints, tool_down
from rclpy.context import Context
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.serialization import deserialize_message, serialize_message
from shape_msgs.msg import SolidPrimitive
from std_srvs.srv import Trigger

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose

pytestmark = pytest.mark.nodes
CODE = MoveItErrorCodes
AWAY = HOME + np.array([1.0, 0, 0, 0, 0, 0])
IN_THE_WAY = (0.35, 0.36, 0.3)
ONE = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
DIFF = QoSProfile(depth=10)


class SceneClient(PlannerClient):
    """Tells of objects, and hears what the planner makes of it."""

    def __init__(self, namespace: str = '') -> None:
        super().__init__(namespace)
        self._scenes: list[bytes] = []  # as bytes: reading a flood would keep the client waiting
        self.node.create_subscription(
            PlanningScene, 'monitored_planning_scene', self._scenes.append, ONE, raw=True
        )
        self.diff = self.node.create_publisher(PlanningScene, 'planning_scene', DIFF)
        for kind, name in (
            (ApplyPlanningScene, 'apply_planning_scene'),
            (GetPlanningScene, 'get_planning_scene'),
            (GetPositionIK, 'compute_ik'),
            (Trigger, 'pick_place/stop'),
            (Trigger, 'pick_place/rearm'),
            (Trigger, 'pick_place/open_gripper'),
            (Trigger, 'pick_place/init_gripper'),
        ):
            self._clients[name] = self.node.create_client(kind, name)

    def seen(self) -> list[str]:
        """Give the ids of the objects that were published last."""
        scene = deserialize_message(self._scenes[-1], PlanningScene)
        return [thing.id for thing in scene.world.collision_objects]

    def code(self):
        return self.plan(joints(AWAY)).error_code

    def barred_by(self, text: str) -> None:
        """Wait until no motion is planned for a reason that names `text`."""
        codes: list[MoveItErrorCodes] = []

        def is_barred() -> bool:
            codes.append(self.code())
            return codes[-1].val == CODE.INVALID_MOTION_PLAN

        self.until(is_barred, f'{text} to bar the way')
        assert text in codes[-1].message, codes[-1].message

    def free(self) -> None:
        self.until(lambda: self.code().val == CODE.SUCCESS, 'the way to be free')

    def ik(self) -> MoveItErrorCodes:
        """Ask for joints that hold the fingers in what is in the way, free of collision."""
        request = GetPositionIK.Request()
        wish = request.ik_request
        wish.pose_stamped.header.frame_id = 'base_link'
        x, y, z = IN_THE_WAY
        wish.pose_stamped.pose = matrix_to_pose(tool_down(x, y, z + 0.12))
        wish.avoid_collisions = True
        return self.call(GetPositionIK, 'compute_ik', request).error_code

    def apply(self, scene: PlanningScene) -> bool:
        return self.call(ApplyPlanningScene, 'apply_planning_scene', scene=scene).success

    def scene(self) -> PlanningScene:
        return self.call(GetPlanningScene, 'get_planning_scene').scene


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    with running_cell(SceneClient, ros_domain, tmp_path_factory.mktemp('cell')) as client:
        yield client


@pytest.fixture
def client(cell):
    """A client of a cell whose scene is empty and whose arm is at home."""
    client = cell
    assert client.apply(PlanningScene())
    if client.states[-1] != 'ready':
        client.until(lambda: client.trigger('rearm').success, 'the planner to be ready')
    client.go_home()
    return client


def of_shape(name: str, kind: int, *dimensions: float) -> CollisionObject:
    message = box(name, *IN_THE_WAY)
    message.primitives = [SolidPrimitive(type=kind, dimensions=dimensions)]
    return message


def test_a_shape_of_any_name_bars_the_way_in_planner_and_ik_alike(client):
    assert client.ik().val == CODE.SUCCESS
    client.boxes.publish(of_shape('table', SolidPrimitive.SPHERE, 0.08))
    client.barred_by("object 'table'")
    client.until(lambda: client.ik().val == CODE.GOAL_IN_COLLISION, 'compute_ik to see it')
    assert client.seen() == ['table']
    client.boxes.publish(CollisionObject(id='table', operation=CollisionObject.REMOVE))
    client.free()


def test_what_cannot_be_taken_bars_planning_and_execution_until_it_is_removed(client):
    motion = client.plan(joints(AWAY)).trajectory
    client.boxes.publish(of_shape('crate', SolidPrimitive.BOX, 0.1, -0.1, 0.1))
    client.barred_by("object 'crate' of collision_object was refused")
    _, code = client.end(client.start(motion))
    assert "object 'crate'" in code.message and 'REMOVE' in code.message
    assert np.abs(client.look() - HOME).max() < 1e-3
    client.until(
        lambda: client.ik().val == CODE.COLLISION_CHECKING_UNAVAILABLE, 'compute_ik to refuse'
    )
    client.boxes.publish(CollisionObject(id='crate', operation=CollisionObject.REMOVE))
    client.free()


def test_a_publisher_that_cannot_be_heard_bars_all_motion_until_it_has_gone(client):
    """DDS connects no best-effort publisher to a reliable subscription, and drops its objects."""
    motion = client.plan(joints(AWAY)).trajectory
    for topic, kind in (
        ('collision_object', CollisionObject),
        ('attached_collision_object', AttachedCollisionObject),
        ('planning_scene', PlanningScene),
    ):
        lossy = client.node.create_publisher(kind, topic, qos_profile_sensor_data)
        client.barred_by(f'{topic} has a best-effort publisher, of node')
        _, code = client.end(client.start(motion))
        assert 'its QoS must be reliable' in code.message
        client.node.destroy_publisher(lossy)
        client.free()
    context = Context()  # of its own, as a process has one type for a topic
    rclpy.init(context=context)
    stranger = rclpy.create_node('stranger', context=context)
    stranger.create_publisher(PlanningScene, 'collision_object', 10)
    client.barred_by('has a publisher of moveit_msgs/msg/PlanningScene, of node')
    stranger.destroy_node()
    context.shutdown()
    client.free()


def test_no_flood_of_scenes_keeps_a_stop_of_the_task_node_waiting(client):
    """Whoever publishes it: here 10,000 objects at once, again and again."""
    flood = PlanningScene(name='flood')
    flood.world.collision_objects = [box('crowd', 2.0, 2.0, 2.0)] * 10_000
    data = serialize_message(flood)
    publisher = client.node.create_publisher(PlanningScene, 'monitored_planning_scene', ONE)
    client.until(lambda: publisher.get_subscription_count() >= 3, 'pick_place to hear')
    client.set_off()
    for _ in range(5):
        publisher.publish(data)
    begin = time.monotonic()
    assert client.call(Trigger, 'pick_place/stop').success
    took = time.monotonic() - begin
    client.node.destroy_publisher(publisher)
    client.run(0.6)
    assert np.abs(client.qd).max() < 1e-3
    assert took < pace.wall(1.0), f'answered after {took} s'
    client.until(lambda: client.call(Trigger, 'pick_place/rearm').success, 'the rearming')


def test_what_comes_into_the_way_of_a_motion_stops_it(client):
    handle = client.set_off()
    wall = box('wall', -0.2, 0.45, 0.3, size=0.2)
    client.boxes.publish(wall)
    _, code = client.end(handle)
    assert code.val == CODE.CONTROL_FAILED and "object 'wall'" in code.message, code.message
    client.run(0.5)
    assert np.abs(client.qd).max() < 1e-3 and client.q[0] < HOME[0] + 1.9


@pytest.mark.drill
def test_a_planner_that_was_started_anew_is_told_again_what_is_there(
    client, ros_domain, tmp_path
):
    topic = 'monitored_planning_scene'
    client.until(
        lambda: 'pick_place' in {
            other.node_name for other in client.node.get_subscriptions_info_by_topic(topic)
        },
        'pick_place, which is to remember the scene',
    )  # fmt: skip
    client.boxes.publish(box('post', *IN_THE_WAY))
    client.barred_by("object 'post'")
    told = len(client.states)
    os.kill(client.processes.pids['trajectory_planner'], signal.SIGKILL)
    planner = sim_nodes(tmp_path, without=['ik_service', 'sim_driver', 'pick_place'])
    with NodeProcesses(planner, ros_domain, tmp_path):
        client.until(lambda: client.states[told:], 'the new planner', 60.0)
        client.until(lambda: client.seen() == ['post'], 'the scene to be told again', 20.0)
        client.barred_by("object 'post'")
    assert "has lost 'post': published it again" in client.processes.log()
