# SPDX-License-Identifier: Apache-2.0
"""
Messages of random content, and right ones spoilt anywhere, are answered or refused.

The nodes' own callbacks are called, as their executor calls them. `test_plan_requests.py` and
`test_ik_requests.py` judge which error it is; here any field may hold anything.
UR5_FUZZ=50000 asks for more.

"""

import array
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import rclpy
from callbacks import callbacks_of, nodes_alone
from fuzzing import NUMBERS, TEXT, fuzzed
from geometry_msgs.msg import Pose
from hypothesis import given
from hypothesis import strategies as st
from motion_planners import PICK, make_planner, tool_down
from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    MoveItErrorCodes,
    RobotTrajectory,
)
from moveit_msgs.srv import (
    GetCartesianPath,
    GetMotionPlan,
    GetPositionFK,
    GetPositionIK,
)
from moveit_requests import (
    box_message,
    ik_request,
    joint_goal,
    line_request,
    motion_request,
)
from rclpy.serialization import serialize_message
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractString,
    Array,
    BasicType,
    NamespacedType,
)
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward, load_model
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings
from ur5_pick_place.nodes.messages.conversions import trajectory_from_msg, trajectory_to_msg
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.scene.scene_book import ATTACHED, OBJECT, SceneBook
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene import MAX_BOXES, Scene
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.task.grippers.digital import DigitalSettings

UR5 = load_model('ur5')
ALL_AWAY = CollisionObject(operation=CollisionObject.REMOVE)
END = tool_down(0.45, -0.1, 0.35, 0.2)
INTEGERS = {
    f'{sign}int{bits}': st.integers(
        -(2 ** (bits - 1)) if not sign else 0, 2 ** (bits - (not sign)) - 1
    )
    for sign in ('', 'u')
    for bits in (8, 16, 32, 64)
}
PARAMETERS = st.one_of(
    st.booleans(),
    INTEGERS['int64'],
    st.integers(-1, 30),
    NUMBERS,
    st.sampled_from(['', 'ur5', 'none', 'tool_input', 'scene_sim.yaml', 'x' * 5000]),
    st.lists(NUMBERS, min_size=1, max_size=7),
    st.lists(st.just('arm'), min_size=1, max_size=3),
)
# What DDS carries: no lone surrogates.
WORDS = TEXT.filter(lambda text: '\ud800' not in text and text.isascii()) | st.sampled_from(
    ['böse', '\t', *JOINT_NAMES[:2]]
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Give what a field of a type may hold."""
    if isinstance(kind, AbstractNestedType):
        size = kind.size if isinstance(kind, Array) else None
        some = st.lists(values(kind.value_type), min_size=size or 0, max_size=size or 3)
        if size:
            return some
        return some | some.map(lambda few: few * 400)
    if isinstance(kind, NamespacedType):
        return st.deferred(lambda: messages(imported(kind)))
    if isinstance(kind, AbstractString):
        return WORDS
    assert isinstance(kind, BasicType)
    if kind.typename in ('float', 'double'):
        width = 32 if kind.typename == 'float' else 64
        return st.floats(width=width) | (st.floats(-7, 7) if width == 32 else NUMBERS)
    if kind.typename == 'boolean':
        return st.booleans()
    if kind.typename == 'octet':
        return st.sampled_from([CollisionObject.ADD, CollisionObject.REMOVE, b'\x02', b'\xff'])
    return INTEGERS[kind.typename] | st.just(1)


def imported(kind: NamespacedType) -> type:
    """Return the class of a message."""
    package, folder, name = kind.namespaced_name()
    module = __import__(f'{package}.{folder}', fromlist=[name])
    found: type = getattr(module, name)
    return found


def field_types(message: Any) -> dict[str, Any]:
    names = message.get_fields_and_field_types()
    return dict(zip(names, message.SLOT_TYPES, strict=True))


@st.composite
def messages(draw: st.DrawFn, kind: type) -> Any:
    """Give a message of which some fields hold anything."""
    message = kind()
    types = field_types(message)
    for name in draw(st.sets(st.sampled_from(sorted(types)), max_size=3)) if types else ():
        setattr(message, name, draw(values(types[name])))
    return message


def spoil(message: Any, draw: st.DrawFn) -> None:
    """Let one field somewhere in a message hold anything."""
    types = field_types(message)
    name = draw(st.sampled_from(sorted(types)))
    inner, kind = getattr(message, name), types[name]
    if isinstance(kind, NamespacedType) and field_types(inner):
        spoil(inner, draw)
    elif isinstance(kind, AbstractNestedType) and len(inner) and draw(st.booleans()):
        if isinstance(kind.value_type, NamespacedType):
            spoil(inner[draw(st.integers(0, len(inner) - 1))], draw)
        else:
            if isinstance(inner, array.array):
                inner = inner.tolist()
            inner[draw(st.integers(0, len(inner) - 1))] = draw(values(kind.value_type))
            setattr(message, name, inner)
    else:
        setattr(message, name, draw(values(kind)))


@st.composite
def spoilt(draw: st.DrawFn, make: Callable[[], Any]) -> Any:
    """Give a right message spoilt a few times, or one of random content."""
    message = make()
    if draw(st.integers(0, 4)) == 0:
        return draw(messages(type(message)))
    for _ in range(draw(st.integers(1, 4))):
        spoil(message, draw)
    return message


def check_reply(reply: Any, points: int) -> None:
    """A refusal holds no motion and says why; a success holds one."""
    is_ok = reply.error_code.val == MoveItErrorCodes.SUCCESS
    assert is_ok == bool(points)
    assert is_ok or reply.error_code.message


@pytest.fixture(scope='module')
def services(ros_domain: int) -> Iterator[dict[str, Callable]]:
    """Give the callbacks of a planner and an IK service by the names of their services."""
    from ur5_pick_place.nodes.ik_service.node import IkService
    from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner

    with nodes_alone(TrajectoryPlanner, IkService) as nodes:
        yield callbacks_of(*nodes)


@fuzzed(0.02)
@given(planner_id=st.sampled_from(['PTP', 'LIN', 'CIRC', 'RESOLVED_RATE']), data=st.data())
def test_every_planning_request_is_answered(
    services: dict[str, Callable], planner_id: str, data: st.DataObject
) -> None:
    def make() -> Any:
        request = motion_request(planner_id, END)
        if data.draw(st.booleans()):
            wish = request.motion_plan_request
            wish.goal_constraints = [joint_goal(PICK + 0.05)]
        return request

    request = data.draw(spoilt(make))
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    check_reply(
        reply.motion_plan_response,
        len(reply.motion_plan_response.trajectory.joint_trajectory.points),
    )


@fuzzed(0.02)
@given(request=spoilt(lambda: line_request(END)))
def test_every_cartesian_request_is_answered(
    services: dict[str, Callable], request: Any
) -> None:
    reply = services['compute_cartesian_path'](request, GetCartesianPath.Response())
    check_reply(reply, len(reply.solution.joint_trajectory.points))
    assert 0.0 <= reply.fraction <= 1.0


@pytest.mark.parametrize('name', ['compute_ik', 'compute_ik_all'])
@fuzzed(0.04)
@given(request=spoilt(lambda: ik_request(forward(UR5, HOME))))
def test_every_ik_request_is_answered(
    services: dict[str, Callable], name: str, request: Any
) -> None:
    request.ik_request.timeout.sec = min(request.ik_request.timeout.sec, 0)
    request.ik_request.timeout.nanosec = 0
    reply = services[name](request, GetPositionIK.Response())
    check_reply(reply, len(reply.solution.joint_state.position))
    assert np.isfinite(reply.solution.joint_state.position).all()


def fk_request() -> GetPositionFK.Request:
    request = GetPositionFK.Request(fk_link_names=['tool0', 'tcp'])
    request.robot_state = ik_request(forward(UR5, HOME)).ik_request.robot_state
    return request


@fuzzed(0.04)
@given(request=spoilt(fk_request))
def test_every_fk_request_is_answered(
    services: dict[str, Callable], request: Any
) -> None:
    reply = services['compute_fk'](request, GetPositionFK.Response())
    check_reply(reply, len(reply.pose_stamped))


@pytest.fixture(scope='module')
def planner() -> MotionPlanner:
    return make_planner()


@fuzzed(0.06)
@given(data=st.data())
def test_every_trajectory_message_is_admitted_or_refused(
    planner: MotionPlanner, data: st.DataObject
) -> None:
    good = planner.ptp(PICK, PICK + 0.01).trajectory
    motion = trajectory_to_msg(good, JOINT_NAMES)
    message = data.draw(spoilt(lambda: RobotTrajectory(joint_trajectory=motion)))
    try:
        trajectory = trajectory_from_msg(message, JOINT_NAMES)
        planner.check(trajectory, PICK)
    except Ur5PickPlaceError as refusal:
        assert str(refusal)
        return
    assert np.abs(trajectory.q[0] - PICK).max() <= planner.settings.start_tolerance


@fuzzed(0.02)
@given(data=st.data())
def test_a_ros_parameter_is_kept_or_refused(
    services: dict[str, Callable], data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([RobotSettings, MotionSettings, DigitalSettings]))
    name = data.draw(st.sampled_from([f.name for f in fields(kind)] + ['max_sped']))
    value = data.draw(PARAMETERS)
    override = rclpy.Parameter(name, value=value)
    node = rclpy.create_node(
        'fuzzed', parameter_overrides=[override], use_global_arguments=False
    )
    try:
        (kept,) = declare_settings(node, kind)
    except InvalidInput as refusal:
        assert name in str(refusal)
    else:
        given_again = kind(**{name: value})
        assert getattr(kept, name) == getattr(given_again, name)
    finally:
        node.destroy_node()


@pytest.fixture(scope='module')
def frames(ros_domain: int, planner: MotionPlanner) -> Iterator[Frames]:
    context = rclpy.Context()
    rclpy.init(context=context)
    node = SerialNode('frames', context=context)
    yield Frames(node, '', planner.scene.tool.T_tool_tcp)
    node.destroy_node()
    rclpy.try_shutdown(context=context)


def attached() -> AttachedCollisionObject:
    message = AttachedCollisionObject(link_name='tool0', weight=0.3)
    message.object = box_message('part')
    message.object.primitive_poses = [Pose()]
    message.object.primitives = [SolidPrimitive(type=1, dimensions=[0.05, 0.05, 0.05])]
    return message


@fuzzed(0.06)
@given(data=st.data())
def test_a_refused_object_moves_none_and_bars_all_until_it_is_removed(
    frames: Frames, data: st.DataObject
) -> None:
    planner = make_planner()
    book = SceneBook(planner.scene, frames, lambda _link: forward(UR5, HOME), lambda _line: None)
    for _ in range(data.draw(st.integers(1, 4))):
        is_held = data.draw(st.booleans())
        message = data.draw(spoilt(attached if is_held else lambda: box_message('box', 2)))
        try:
            wire = serialize_message(message)
        except (UnicodeEncodeError, RuntimeError):
            continue  # no client could send it
        before = fingerprint(planner.scene, book.world)
        refusal = book.take(ATTACHED if is_held else OBJECT, wire)
        if refusal:
            assert fingerprint(planner.scene, book.world) == before
            assert book.world.refusal
    assert book.world.shape_count <= MAX_BOXES
    for thing in book.world.objects.values():
        assert np.isfinite(thing.poses()).all()
    planner.set_scene(replace(planner.scene, world=book.world))
    book.take(ATTACHED, serialize_message(AttachedCollisionObject(object=ALL_AWAY)))
    book.take(OBJECT, serialize_message(ALL_AWAY))
    assert not book.world.objects and not book.world.attached and not book.world.refused


def fingerprint(scene: Scene, world: World) -> str:
    """Return a digest of what is known to be there."""
    return replace(scene, world=world).fingerprint()
