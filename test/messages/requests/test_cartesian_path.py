# SPDX-License-Identifier: Apache-2.0
"""A Cartesian path is planned whole, or in parts where allowed, or refused with its reason."""

import threading
import time

import numpy as np
import pace
import pytest
from callbacks import check_refused, line
from motion_planners import PICK
from moveit_requests import GOAL, UR5, Codes, line_request
from std_msgs.msg import String

from ur5_pick_place.kinematics import forward

PARTS = ('-p', 'allow_partial_cartesian:=true', '-r', '__ns:=/parts')


def test_a_path_is_all_or_nothing_unless_parts_are_allowed(services):
    beyond = GOAL.copy()
    beyond[0, 3] -= 1.0
    whole = line(services, line_request(GOAL, beyond))
    check_refused(whole, Codes.PLANNING_FAILED)
    assert 0.5 < whole.fraction < 1.0 and 'on line 2 of 2' in whole.error_code.message
    table = GOAL.copy()
    table[2, 3] = 0.0
    blocked = line(services, line_request(table))
    check_refused(blocked, Codes.INVALID_MOTION_PLAN)
    assert 0.0 < blocked.fraction < 1.0 and 'table' in blocked.error_code.message


def test_waypoints_are_of_the_link_that_is_named(services):
    T_base_tcp = GOAL.copy()
    T_base_tcp[:3, 3] += 0.145 * GOAL[:3, 2]
    request = line_request(T_base_tcp)
    request.link_name = 'tcp'
    end = line(services, request).solution.joint_trajectory.points[-1].positions
    np.testing.assert_allclose(forward(UR5, end), GOAL, atol=1e-9)


@pytest.mark.parametrize('name', ['jump_threshold', 'revolute_jump_threshold'])
def test_jump_thresholds_end_a_path(services, name):
    request = line_request()
    setattr(request, name, 1e-3)
    reply = line(services, request)
    check_refused(reply, Codes.PLANNING_FAILED)
    assert 'jumps by' in reply.error_code.message and reply.fraction < 0.1


def test_a_stop_ends_the_planning_of_a_cartesian_path(services, monkeypatch):
    from ur5_pick_place.nodes.trajectory_planner import plan_requests

    request = line_request(*(GOAL, forward(UR5, PICK)) * 200)
    word = String(data='STOP\n')  # as a person may type it
    stop = threading.Timer(0.5, services['trajectory_execution_event'], [word])
    begin = time.monotonic()
    stop.start()
    check_refused(line(services, request), Codes.PREEMPTED)
    assert time.monotonic() - begin < pace.wall(3.0)
    monkeypatch.setattr(plan_requests, '_MAX_CARTESIAN_TIME', 0.5)
    begin, reply = time.monotonic(), line(services, request)
    check_refused(reply, Codes.TIMED_OUT)
    assert time.monotonic() - begin < pace.wall(3.0)
    assert '400 waypoints took longer than 0.5 s to plan' in reply.error_code.message


def test_steps_of_a_cartesian_path_have_a_smallest_size(services, capfd):
    request = line_request()
    request.max_step = 1e-7
    assert line(services, request).error_code.val == Codes.SUCCESS
    assert 'max_step = 1e-07 m: using 0.0005 m' in capfd.readouterr().err


@pytest.mark.parametrize('services', [PARTS], indirect=True)
def test_with_parts_allowed_the_part_comes_with_its_fraction_and_the_reason(services):
    beyond = GOAL.copy()
    beyond[0, 3] -= 1.0
    reply = line(services, line_request(GOAL, beyond))
    assert reply.error_code.val == Codes.SUCCESS
    assert 0.5 < reply.fraction < 1.0 and 'too far' in reply.error_code.message
    end = forward(UR5, np.array(reply.solution.joint_trajectory.points[-1].positions))
    way = (end - GOAL)[:3, 3]
    assert np.abs(way[1:]).max() < 1e-6
    assert -way[0] == pytest.approx(2.0 * (reply.fraction - 0.5), abs=1e-6)
    whole = line(services, line_request())
    assert (whole.fraction, whole.error_code.message) == (1.0, '')


@pytest.mark.parametrize('services', [PARTS], indirect=True)
def test_with_parts_allowed_nothing_at_all_is_still_no_success(services):
    request = line_request()
    request.revolute_jump_threshold = 1e-9
    check_refused(line(services, request), Codes.PLANNING_FAILED)
