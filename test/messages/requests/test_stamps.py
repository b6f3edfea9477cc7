# SPDX-License-Identifier: Apache-2.0
"""A stamp means when: poses in frames that move are converted with the transforms of that time."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from callbacks import callbacks_of, check_refused, line, nodes_alone, plan
from fake_graph import ByHand
from geometry_msgs.msg import PoseStamped, TransformStamped, TwistStamped
from motion_planners import PICK, make_planner, tool_down
from moveit_msgs.msg import AttachedCollisionObject, PlanningScene
from moveit_msgs.srv import GetPlanningScene, GetPositionFK
from moveit_requests import UR5, Codes, box_message, ik_request, line_request, motion_request
from rclpy.serialization import serialize_message
from scenes import pose as shifted
from sensor_msgs.msg import JointState
from taught_poses import NOW
from tf2_msgs.msg import TFMessage

from ur5_pick_place.errors import ExecutionError, UnknownFrame
from ur5_pick_place.kinematics import JOINT_NAMES, forward, link_pose
from ur5_pick_place.nodes.cell.robot_settings import GroupSettings
from ur5_pick_place.nodes.driver.joint_listener import JointListener
from ur5_pick_place.nodes.ik_service.requests import IkRequests
from ur5_pick_place.nodes.messages.conversions import (
    matrix_to_pose,
    matrix_to_transform,
    pose_to_matrix,
    time_to_msg,
    to_seconds,
)
from ur5_pick_place.nodes.pick_place.teaching import Teaching
from ur5_pick_place.nodes.trajectory_planner.jogging import CommandReader
from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner
from ur5_pick_place.task.cycle.file import PlaceSettings

BASE = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link from base
MOVED = PICK + [0.25, 0.0, 0.0, 0.0, 0.0, 0.0]  # about 0.1 m further


T_TOOL_CAMERA = shifted(0.05, 0.0, -0.03)
T_FOREARM_LAMP = shifted(0.0, 0.1)


class Cell:
    """
    A planner that knows the last four seconds of an arm and of a belt.

    The arm stood at PICK, moved evenly from 2.0 s to 1.5 s ago, and stands at MOVED. The belt
    runs along x of base_link with 0.2 m/s, and was at x = 0.5 m now.
    """

    def __init__(self, node: TrajectoryPlanner) -> None:
        self.node = node
        self.services = callbacks_of(node)
        self.now = time.time()  # what was before is forgotten, as when a clock is set
        for k in range(401):
            before = 4.0 - 0.01 * k
            self.say_joints(before, self.q(before))
            if k % 5 == 0:
                self.say_frames('tf', before, belt=('base_link', shifted(0.5 - 0.2 * before)))
        self.say_frames('tf_static', 0.0, table=('base_link', shifted(0.7)))
        self.say_frames('tf_static', 0.0, camera=('tool0', T_TOOL_CAMERA))
        self.say_frames('tf_static', 0.0, lamp=('forearm_link', T_FOREARM_LAMP))

    def q(self, before: float) -> np.ndarray:
        return PICK + np.clip((2.0 - before) / 0.5, 0.0, 1.0) * (MOVED - PICK)

    def T_base_link(self, frame: str, before: float) -> np.ndarray:
        """Where a frame was, some time before now [s]."""
        if frame == 'belt':
            return shifted(0.5 - 0.2 * before)
        if frame == 'table':
            return shifted(0.7)
        if frame == 'lamp':
            return BASE @ link_pose(UR5, self.q(before), 'forearm_link') @ T_FOREARM_LAMP
        T = BASE @ forward(UR5, self.q(before))
        return T @ T_TOOL_CAMERA if frame == 'camera' else T

    def stamp(self, before: float):
        return time_to_msg(self.now - before)

    def say_joints(self, before: float, q: np.ndarray) -> None:
        self.node.cell.frames.joints.add(self.now - before, q)

    def say_frames(self, topic: str, before: float, **frames) -> None:
        message = TFMessage()
        for child, (parent, T) in frames.items():
            one = TransformStamped(child_frame_id=child, transform=matrix_to_transform(T))
            one.header.frame_id, one.header.stamp = parent, self.stamp(before)
            message.transforms.append(one)
        store, data = self.node.cell.frames.store, serialize_message(message)
        store.add([data]) if topic == 'tf' else store.add_static(data)

    def scene(self):
        reply = self.services['get_planning_scene'](
            GetPlanningScene.Request(), GetPlanningScene.Response()
        )
        return reply.scene


@pytest.fixture(scope='module')
def node(ros_domain: int) -> Iterator[TrajectoryPlanner]:
    with nodes_alone(TrajectoryPlanner) as (node,):
        yield node


@pytest.fixture
def cell(node: TrajectoryPlanner) -> Iterator[Cell]:
    cell = Cell(node)
    yield cell
    cell.services['planning_scene'](serialize_message(PlanningScene()))  # nothing


MOVING = ('belt', 'tool0', 'camera', 'lamp')


@pytest.mark.parametrize('before', [3.0, 1.737, 0.5])
@pytest.mark.parametrize('frame', MOVING)
def test_an_object_is_where_its_frame_was_at_the_stamp(cell, frame, before):
    message = box_message('crate')
    message.header.frame_id, message.header.stamp = frame, cell.stamp(before)
    message.pose = matrix_to_pose(shifted(0.1, 0.2, 0.3))
    cell.services['collision_object'](serialize_message(message))
    found = pose_to_matrix(cell.scene().world.collision_objects[0].pose)
    expected = cell.T_base_link(frame, before) @ shifted(0.1, 0.2, 0.3)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_object_is_attached_where_it_was_in_the_hand(cell):
    """A tray on the belt, say, that the arm took along."""
    message = AttachedCollisionObject(object=box_message('tray'), weight=0.1)
    message.object.header.frame_id, message.object.header.stamp = 'belt', cell.stamp(3.0)
    cell.services['attached_collision_object'](serialize_message(message))
    held = cell.scene().robot_state.attached_collision_objects[0].object
    T = np.linalg.inv(cell.T_base_link('tool0', 3.0)) @ cell.T_base_link('belt', 3.0)
    np.testing.assert_allclose(pose_to_matrix(held.pose), T, atol=1e-6)


@pytest.mark.parametrize('service', ['AUTO', 'LIN', 'CIRC', 'line'])
@pytest.mark.parametrize('frame', ['camera', 'belt', 'lamp'])
def test_a_goal_is_where_its_frame_was_at_the_stamp(cell, frame, service):
    goal = BASE @ tool_down(0.45, -0.15, 0.3, 0.5)
    T = np.linalg.inv(cell.T_base_link(frame, 3.0)) @ goal
    if service == 'line':
        request = line_request(T)
        request.header.frame_id, request.header.stamp = frame, cell.stamp(3.0)
        reply = line(cell.services, request)
        trajectory = reply.solution
    else:
        motion = motion_request(service, T)
        wish = motion.motion_plan_request
        parts = wish.goal_constraints[0]
        for one in (*parts.position_constraints, *parts.orientation_constraints):
            one.header.frame_id, one.header.stamp = frame, cell.stamp(3.0)
        for arc in wish.path_constraints.position_constraints:
            p = cell.T_base_link(frame, 3.0)
            via = np.linalg.inv(p) @ ([*(BASE @ forward(UR5, PICK) + goal)[:3, 3] / 2, 1.0])
            at = arc.constraint_region.primitive_poses[0].position
            at.x, at.y, at.z = (float(v) for v in via[:3] + [0.0, 0.0, 0.02])
            arc.header.frame_id, arc.header.stamp = frame, cell.stamp(3.0)
        reply = plan(cell.services, motion)
        trajectory = reply.trajectory
    assert reply.error_code.val == Codes.SUCCESS, reply.error_code.message
    end = np.array(trajectory.joint_trajectory.points[-1].positions)
    np.testing.assert_allclose(BASE @ forward(UR5, end), goal, atol=1e-5)


def test_a_goal_in_the_tool_is_meant_where_the_motion_starts_whatever_its_stamp(cell):
    """MoveGroupInterface stamps every pose with the present time."""
    for stamp in (3.0, 0.0):
        request = line_request(shifted(0.0, 0.0, -0.05))
        request.header.frame_id, request.header.stamp = 'tool0', cell.stamp(stamp)
        reply = line(cell.services, request)
        assert reply.fraction == 1.0, reply.error_code.message
        end = np.array(reply.solution.joint_trajectory.points[-1].positions)
        expected = forward(UR5, PICK) @ shifted(0.0, 0.0, -0.05)
        np.testing.assert_allclose(forward(UR5, end), expected, atol=1e-6)


@pytest.mark.parametrize(
    ('frame', 'before', 'reason'),
    [
        ('camera', 9.0, "'camera' moves, and .* it is 9.* s old, must be at most 5 s old"),
        ('belt', 9.0, "'belt' moves, and .* it is 9.* s old, must be at most 5 s old"),
        ('camera', -9.0, 'it is [89].* s ahead, .* check the clock and use_sim_time'),
        ('camera', 4.2, 'of the joint_states, the oldest is 0.2'),
        ('belt', 4.2, r'of its transforms \(belt\), the oldest is 0.200 s newer'),
        ('belt', -0.8, r'of its transforms \(belt\), the newest is 0.800 s older'),
    ],
)  # fmt: skip
def test_what_is_too_old_or_not_known_so_long_is_refused(cell, frame, before, reason):
    request = line_request()
    request.header.frame_id, request.header.stamp = frame, cell.stamp(before)
    reply = line(cell.services, request)
    check_refused(reply, Codes.FRAME_TRANSFORM_FAILURE)
    message = box_message('crate')
    message.header = request.header
    cell.services['collision_object'](serialize_message(message))
    barred = line(cell.services, line_request())
    check_refused(barred, Codes.INVALID_MOTION_PLAN)
    for code in (reply.error_code, barred.error_code):
        with pytest.raises(UnknownFrame, match=reason):
            raise UnknownFrame(code.message)


def test_a_tag_that_the_camera_on_the_arm_has_lost_did_not_move_with_the_arm(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamp 0: seen 2.5 s ago, before the arm moved on; 0.12 m away if it had been carried."""
    frames, steady, lost = cell.node.cell.frames, time.monotonic(), 0.0
    monkeypatch.setattr(time, 'monotonic', lambda: steady + lost)
    cell.say_frames('tf', 2.5, tag=('camera', shifted(0.0, 0.0, 0.3)))
    lost = 0.9
    T = frames.T_base_frame('tag', lambda link: link_pose(UR5, MOVED, link))
    seen = forward(UR5, MOVED) @ T_TOOL_CAMERA @ shifted(0.0, 0.0, 0.3)
    np.testing.assert_allclose(T, seen, atol=1e-6)
    lost = 1.3
    assert frames.T_base_frame('tag', lambda link: link_pose(UR5, MOVED, link)) is not None
    lost = 2.5
    with pytest.raises(UnknownFrame, match="'tag' has come for 2.5 s.*the arm has moved since"):
        frames.T_base_frame('tag', lambda link: link_pose(UR5, MOVED, link))


@pytest.mark.parametrize('frame', ['base_link', 'table', ''])
@pytest.mark.parametrize('before', [1e6, -1e6])
def test_a_frame_that_does_not_move_needs_no_history(cell, frame, before):
    message = box_message('crate')
    message.header.frame_id, message.header.stamp = frame, cell.stamp(before)
    cell.services['collision_object'](serialize_message(message))
    found = pose_to_matrix(cell.scene().world.collision_objects[0].pose)
    assert found[0, 3] == pytest.approx(0.7 if frame == 'table' else 0.0)


def test_a_stamp_a_little_ahead_is_waited_for(cell):
    """A client stamps with the present time, and TF is some milliseconds behind it."""
    frames = cell.node.cell.frames

    def arrives(*_args) -> None:
        for k in range(3):
            cell.say_joints(-0.01 * k, MOVED + [0.0, 0.0, 0.0, 0.0, 0.0, 0.1 * k])

    patience = SimpleNamespace(sleep=arrives, monotonic=time.monotonic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('ur5_pick_place.nodes.tf.frames.time', patience)
        T = frames.T_base_frame('camera', lambda _: np.eye(4), stamp=cell.now + 0.01)
    q = MOVED + [0.0, 0.0, 0.0, 0.0, 0.0, 0.1]
    np.testing.assert_allclose(T, forward(UR5, q) @ T_TOOL_CAMERA, atol=1e-6)


@pytest.mark.parametrize(('frame', 'is_on_tool'), [('lamp', False), ('camera', True)])
def test_a_jog_has_the_axes_of_its_frame_at_the_stamp(cell, frame, is_on_tool):
    """In a frame on the tool it turns with the tool; TF may be as old as the command."""
    read = CommandReader(cell.node.cell).twist
    message = TwistStamped()
    message.twist.linear.x = 0.1
    message.header.frame_id, message.header.stamp = frame, time_to_msg(time.time() - 0.1)
    for before in (-0.05, -0.1, -0.15, -0.2):  # the test itself takes time
        cell.say_joints(before, MOVED)
    command = read(message, MOVED)
    assert command.is_on_tool is is_on_tool
    R = np.eye(3) if is_on_tool else link_pose(UR5, MOVED, 'forearm_link')[:3, :3]
    np.testing.assert_allclose(command.rotation, R, atol=1e-6)


def test_a_long_gap_is_no_history(cell):
    for before in (3.0, 1.5):
        cell.say_frames('tf', before, cart=('base_link', shifted(before)))
    frames = cell.node.cell.frames
    with pytest.raises(UnknownFrame, match=r'\(cart\), there is none for 1.500 s, more than 1'):
        frames.T_base_frame('cart', stamp=cell.now - 2.0)
    for before in (3.0, 2.8):  # the clock goes back: what was known is forgotten
        frames.joints.add(cell.now - before, PICK)
    with pytest.raises(UnknownFrame, match='there is none for 0.200 s, more than 0.1 s'):
        frames.arm_at(cell.now - 2.9)('wrist_3_link')


@pytest.mark.parametrize('frame', ['camera', 'belt', 'tool0'])
def test_ik_and_fk_take_a_frame_where_it_was_at_the_stamp(cell, frame):
    """A link of the arm is where the request has it."""
    requests = IkRequests(cell.node.cell, GroupSettings(), lambda: MOVED, None)
    goal = BASE @ tool_down(0.45, -0.15, 0.3, 0.5)
    T_frame = cell.T_base_link(frame, 2.0 if frame == 'tool0' else 3.0)
    ik = ik_request(np.linalg.inv(T_frame) @ goal, PICK, frame).ik_request
    ik.pose_stamped.header.stamp = cell.stamp(3.0)
    q = requests.solve(ik).solutions[0].q
    np.testing.assert_allclose(BASE @ forward(UR5, q), goal, atol=1e-5)
    fk = GetPositionFK.Request(header=ik.pose_stamped.header, robot_state=ik.robot_state)
    found = pose_to_matrix(requests.poses(fk)[0].pose)
    expected = np.linalg.inv(T_frame) @ BASE @ forward(UR5, PICK)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_of_two_arms_nobody_knows_the_joints_at_a_stamp(cell):
    frames = cell.node.cell.frames
    node = ByHand(cell.node)
    listener = JointListener(node, JOINT_NAMES, lambda _: None, lambda _: None, 10.0)
    listener.record_in(frames.joints)

    def take(before: float, publisher: bytes) -> None:
        message = JointState(name=list(JOINT_NAMES), position=MOVED.tolist(), velocity=[0.0] * 6)
        message.header.stamp = cell.stamp(before)
        node.take(message, publisher=publisher)

    take(-0.01, b'ours')
    at = to_seconds(cell.stamp(-0.01))
    np.testing.assert_allclose(frames.arm_at(at)('wrist_3_link'), forward(UR5, MOVED), atol=1e-9)
    take(-0.02, b'ours')
    take(-0.02, b'another')
    with pytest.raises(UnknownFrame, match='2 publishers send joint_states of this arm'):
        frames.arm_at(at)('wrist_3_link')


def test_nothing_is_taught_by_a_frame_on_an_arm_whose_joints_nobody_knows(cell, tmp_path):
    """TF has the arm somewhere, of one of two publishers: that is not known to be ours."""
    cell.say_frames('tf', 0.0, tool0=('base_link', shifted(0.4)))
    places = SimpleNamespace(check_taught=lambda *_: '')
    station = SimpleNamespace(
        planner=make_planner(), provenance=NOW, cycle_planner=SimpleNamespace(places=places)
    )
    teaching = Teaching(
        cell.node.cell, station, tmp_path / 'poses.yaml', {'start': PlaceSettings()}
    )
    message = PoseStamped()
    message.header.frame_id, message.pose.orientation.w = 'camera', 1.0
    with pytest.raises(ExecutionError, match='the arm carries camera, and 2 publishers'):
        teaching.teach_pose('start', message, None, '2 publishers')
    assert not teaching.poses
