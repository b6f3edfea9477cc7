# SPDX-License-Identifier: Apache-2.0
"""The task node alone, through DDS: the places of its cycle file, one of them a tag's frame."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from task_client import TARGET, TaskClient, pose
from tf2_msgs.msg import TFMessage
from tf2_ros import TransformBroadcaster
from visualization_msgs.srv import GetInteractiveMarkers

from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.nodes.pick_place.teaching import Teaching
from ur5_pick_place.nodes.ros.executor import LockedExecutor
from ur5_pick_place.task.places.file import PosesFile

CONFIG = Path(__file__).parents[3] / 'config'
PLACES = 'places: {home: , part: {from_frame: part_0}, target: , tray: }\n'
LATCHED = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Around(TaskClient):
    """An arm at rest at home, a tag, and a client of the task node."""

    def __init__(self, poses_file):
        super().__init__()
        self.kept = lambda: set(PosesFile(poses_file).poses)
        self._joints = self.node.create_publisher(JointState, 'joint_states', 10)
        self._tf = TransformBroadcaster(self.node)
        self.tag = None  # x, y [m] of the part
        self.frames = []
        self.hear(TFMessage, '/tf_static', lambda m: self.frames.extend(m.transforms), LATCHED)
        self.node.create_timer(0.02, self._publish)

    def _publish(self):
        now = self.node.get_clock().now().to_msg()
        joints = JointState(name=list(JOINT_NAMES), position=HOME.tolist(), velocity=[0.0] * 6)
        joints.header.stamp = now
        self._joints.publish(joints)
        if self.tag:
            frame = TransformStamped(child_frame_id='part_0')
            frame.header.frame_id, frame.header.stamp = 'base_link', now
            p, frame.transform.rotation.w = frame.transform.translation, 1.0
            (p.x, p.y), p.z = self.tag, 0.0225
            self._tf.sendTransform(frame)

    def run(self, seconds):
        """Spin for some time of this machine, as another publisher's stamps may be anything."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, wall=seconds + 10.0)

    def show(self, x=None, y=None):
        """Show the tag somewhere for a second, or nowhere."""
        self.tag = None if x is None else (x, y)
        self.run(1.0)

    def teach(self, name, *spot):
        topic = f'pick_place/{name}_pose'
        publisher = self.node.create_publisher(PoseStamped, topic, 10)
        self.until(publisher.get_subscription_count, topic)
        publisher.publish(pose(*spot))


@pytest.fixture(scope='module')
def around(ros_domain, tmp_path_factory):
    from ur5_pick_place.nodes.pick_place.node import PickPlace

    folder = tmp_path_factory.mktemp('task')
    path = folder / 'cycle.yaml'
    stages = (CONFIG / 'cycle_tag.yaml').read_text().split('stages:\n')[1]
    path.write_text(f'{PLACES}stages:\n{stages}')
    own = {'cycle_file': path, 'poses_file': folder / 'poses.yaml'}
    given = [word for name, value in own.items() for word in ('-p', f'{name}:={value}')]
    files = ['--params-file', str(CONFIG / 'robot_sim.yaml')]
    rclpy.init(args=['--ros-args', *files, *given])
    task = PickPlace()
    executor = LockedExecutor(task)
    threading.Thread(target=executor.spin, daemon=True).start()
    around = Around(folder / 'poses.yaml')
    try:
        with task.reader.running(executor.fail):
            around.until(lambda: around.ask('teach_home').success)
            yield around
    finally:
        executor.shutdown()
        task.destroy_node()
        rclpy.try_shutdown()
        around.close()


def test_each_place_of_the_file_is_taught_kept_and_shown(around):
    around.teach('target', *TARGET)
    around.teach('tray', 0.3, -0.3, 0.0)
    around.until(lambda: around.kept() == {'home', 'target', 'tray'})
    names = {'tcp', 'home', 'target', 'tray'}
    around.until(lambda: names <= {frame.child_frame_id for frame in around.frames})
    shown = around.call(GetInteractiveMarkers, 'pick_place/teach_markers/get_interactive_markers')
    assert {marker.name for marker in shown.markers} == {'target', 'tray'}


def test_what_cannot_be_taught_is_refused_with_the_reason(around):
    refused = around.ask('teach_part')
    assert not refused.success and 'part is not taught: ~/plan reads it' in refused.message
    for name, reason in (('home', 'call ~/teach_home'), ('part', 'part is not taught')):
        around.teach(name, *TARGET)
        around.until(lambda reason=reason: any(reason in str(e) for e in around.events))
    assert 'part' not in around.kept()


def test_a_frame_is_read_when_planning_and_refused_by_name_when_it_cannot_be_relied_on(around):
    around.tag = None
    refusal = around.ask('plan')
    assert not refusal.success
    assert refusal.message.startswith("part: TF frame 'part_0' is not known")

    around.show(0.45, -0.2)
    planned = around.ask('plan')
    assert planned.success, planned.message
    around.until(lambda: any(frame.child_frame_id == 'part' for frame in around.frames))
    part = next(f.transform for f in reversed(around.frames) if f.child_frame_id == 'part')
    place = [part.translation.x, part.translation.y, part.translation.z]
    np.testing.assert_allclose(place, [0.45, -0.2, 0.0225], atol=1e-9)

    refusal = around.ask('run')
    assert 'the planner is not there' in refusal.message, 'the part has not moved'
    around.show(0.45, -0.25)
    refusal = around.ask('run')
    assert not refusal.success and refusal.message.startswith('part: ')
    assert 'moved by 50.0 mm' in refusal.message and 'plan again' in refusal.message

    around.show()
    refusal = around.ask('plan')
    assert not refusal.success and 's old, more than max_age = 0.5 s' in refusal.message


def test_an_error_of_this_package_is_the_answer_and_not_the_end_of_the_node(around, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Teaching, 'teach_joints', lambda *_: 1 / 0)
        refused = around.ask('teach_home')
    assert not refused.success
    assert 'error of this package, ZeroDivisionError: division by zero' in refused.message
    assert around.ask('teach_home').success


def test_of_two_arms_nothing_is_taught_and_nothing_planned(around):
    around.show(0.45, -0.2)
    assert around.ask('plan').success
    second = around.node.create_publisher(JointState, 'joint_states', 10)
    joints = JointState(name=list(JOINT_NAMES), position=[0.1] * 6, velocity=[0.0] * 6)
    timer = around.node.create_timer(0.02, lambda: second.publish(joints))
    around.run(1.0)
    for request in ('teach_home', 'plan'):
        refusal = around.ask(request)
        assert not refusal.success and '2 publishers send joint_states' in refusal.message
    around.node.destroy_timer(timer)
    around.node.destroy_publisher(second)
    around.run(1.5)
    assert around.ask('plan').success
