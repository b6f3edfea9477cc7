# SPDX-License-Identifier: Apache-2.0
"""
Right messages that are spoilt anywhere are answered or refused.

The nodes' own callbacks are called, as their executor calls them. `test_plan_requests.py` and
`test_ik_requests.py` judge which error it is; here any field may hold anything.
UR5_FUZZ=50000 asks for more.
"""

import array
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from fuzzing import NUMBERS, TEXT, fuzzed
from hypothesis import given
from hypothesis import strategies as st
from motion_planners import PICK, tool_down
from motion_planners import planner as planner
from moveit_msgs.msg import CollisionObject, MoveItErrorCodes, RobotTrajectory
from moveit_msgs.srv import GetCartesianPath, GetMotionPlan, GetPositionFK, GetPositionIK
from moveit_requests import UR5, fk_request, ik_request, joint_goal, line_request, motion_request
from rosidl_parser.definition import AbstractString, NamespacedType

from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.nodes.messages.conversions import trajectory_from_msg, trajectory_to_msg

END = tool_down(0.45, -0.1, 0.35, 0.2)
INTEGERS = st.integers(-(2**31), 2**31 - 1) | st.integers(-1, 30)
# What DDS carries: no lone surrogates.
WORDS = TEXT.filter(lambda text: '\ud800' not in text and text.isascii()) | st.sampled_from(
    ['böse', '\t', *JOINT_NAMES[:2]]
)


OCTETS = st.sampled_from([CollisionObject.ADD, CollisionObject.REMOVE, b'\x02', b'\xff'])
LEAVES = {str: WORDS, float: NUMBERS, bool: st.booleans(), bytes: OCTETS, int: INTEGERS}


def element(holder: Any, name: str) -> Any:
    """Return something that a list which is a field of a message may hold."""
    types = dict(zip(holder.get_fields_and_field_types(), holder.SLOT_TYPES, strict=True))
    kind = types[name].value_type
    if isinstance(kind, NamespacedType):
        package, folder, found = kind.namespaced_name()
        return getattr(import_module(f'{package}.{folder}'), found)()
    return 'a' if isinstance(kind, AbstractString) else 1


def spoil(holder: Any, draw: st.DrawFn) -> None:
    """Let one thing somewhere in a message or in a list of one hold anything of its type."""
    is_list = isinstance(holder, list)
    keys = range(len(holder)) if is_list else sorted(holder.get_fields_and_field_types())
    key = draw(st.sampled_from(keys))
    inner = holder[key] if is_list else getattr(holder, key)
    if isinstance(inner, array.array | np.ndarray):
        inner = inner.tolist()
    if isinstance(inner, list) and inner and draw(st.booleans()):
        spoil(inner, draw)
    elif isinstance(inner, list):
        inner = inner or [element(holder, key)]
        inner = draw(st.sampled_from([[], inner[:1], inner * 2, inner * 400]))
    elif type(inner) in LEAVES:
        inner = draw(LEAVES[type(inner)])
    else:
        spoil(inner, draw)
    if is_list:
        holder[key] = inner
    else:
        with suppress(AssertionError, OverflowError):  # no value of this very field
            setattr(holder, key, inner)


@st.composite
def spoilt(draw: st.DrawFn, make: Callable[[], Any]) -> Any:
    """Give a right message spoilt a few times, or one with nothing but its defaults spoilt."""
    message = make()
    if draw(st.integers(0, 4)) == 0:
        message = type(message)()
    for _ in range(draw(st.integers(1, 4))):
        spoil(message, draw)
    return message


def check_reply(reply: Any, points: int) -> None:
    """A refusal holds no motion and says why; a success holds one."""
    is_ok = reply.error_code.val == MoveItErrorCodes.SUCCESS
    assert is_ok == bool(points)
    assert is_ok or reply.error_code.message


@fuzzed(0.02)
@given(planner_id=st.sampled_from(['PTP', 'LIN', 'CIRC', 'RESOLVED_RATE']), data=st.data())
def test_every_planning_request_is_answered(services, planner_id, data):
    goals = [joint_goal(PICK + 0.05)] * data.draw(st.booleans())
    request = data.draw(spoilt(lambda: motion_request(planner_id, END, goals)))
    reply = services['plan_kinematic_path'](request, GetMotionPlan.Response())
    check_reply(
        reply.motion_plan_response,
        len(reply.motion_plan_response.trajectory.joint_trajectory.points),
    )


@fuzzed(0.02)
@given(request=spoilt(lambda: line_request(END)))
def test_every_cartesian_request_is_answered(services, request):
    reply = services['compute_cartesian_path'](request, GetCartesianPath.Response())
    check_reply(reply, len(reply.solution.joint_trajectory.points))
    assert 0.0 <= reply.fraction <= 1.0


@pytest.mark.parametrize('name', ['compute_ik', 'compute_ik_all'])
@fuzzed(0.04)
@given(request=spoilt(lambda: ik_request(forward(UR5, HOME))))
def test_every_ik_request_is_answered(services, name, request):
    request.ik_request.timeout.sec = min(request.ik_request.timeout.sec, 0)
    request.ik_request.timeout.nanosec = 0
    reply = services[name](request, GetPositionIK.Response())
    check_reply(reply, len(reply.solution.joint_state.position))
    assert np.isfinite(reply.solution.joint_state.position).all()


@fuzzed(0.04)
@given(request=spoilt(lambda: fk_request('tool0', 'tcp')))
def test_every_fk_request_is_answered(services, request):
    reply = services['compute_fk'](request, GetPositionFK.Response())
    check_reply(reply, len(reply.pose_stamped))


@fuzzed(0.06)
@given(data=st.data())
def test_every_trajectory_message_is_admitted_or_refused(planner, data):
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
