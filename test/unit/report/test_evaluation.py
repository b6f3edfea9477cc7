# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, from samples made by hand and from a recording of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ur5_pick_place.demo.cycle_layout import transfer
from ur5_pick_place.demo.spots import Displacement, Spot
from ur5_pick_place.kinematics import HOME, load_model
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.planning.limits import MotionSettings, arm_facts, motion_limits
from ur5_pick_place.report.evaluation import evaluate, measured, misplacement
from ur5_pick_place.report.motion import RecordedJoints, Samples, motion_of

MODEL = load_model('ur5')
T_TOOL_TCP = np.eye(4)
T_TOOL_TCP[2, 3] = 0.145
# At HOME the upper arm is upright and the forearm level, so that the TCP is, by the DH lengths:
HOME_TCP = (0.39225 + 0.09465, 0.10915, 0.089159 + 0.425 - 0.0823 - 0.145)
HOME_YAW = -90.0  # [deg] of a cube that sits straight in the hand there
EVENTS = [
    {'time': 0.1, 'event': 'started', 'job': 'run'},
    {'time': 1.0, 'event': 'grasp_verified'},
    {'time': 1.9, 'event': 'done', 'job': 'run'},
]
ASKED = {
    'method': 'ik',
    'failure': '',
    'planning_time_s': 0.123456789,
    'T_tool_grip': T_TOOL_TCP.tolist(),
    'limits': {'max_velocity': 3.0, 'max_acceleration': 5.0, 'max_jerk': 50.0, 'max_speed': 1.0},
}


def pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    R = Rotation.from_euler('z', yaw, degrees=True).as_matrix()
    return make_transform(R, [x, y, z])


def samples_of(T_gripped: np.ndarray, *T_ends: np.ndarray) -> Samples:
    """The arm stands at home while it grips at 1 s, and the cubes are elsewhere at 2 s."""
    t = np.array([0.1, 1.0, 2.0])
    q = np.tile(HOME, (3, 1))
    parts = np.full((3, len(T_ends), 4, 4), np.nan)
    parts[:2, 0], parts[2] = T_gripped, T_ends
    joints = RecordedJoints(t, q, 0.0 * q, q)
    return Samples(joints, (t, parts), (t, np.zeros((3, 2))), EVENTS)


STRAIGHT = pose(*HOME_TCP, HOME_YAW)
END = pose(0.4, 0.2, 0.0225, 0.0)


def test_placement_error_is_from_target_to_cube():
    end = Spot(0.4, 0.2, math.radians(30.0)).T_base_link_part
    samples = samples_of(STRAIGHT, pose(0.403, 0.204, 0.0225, 32.0))
    found = measured(samples, end[None], MODEL, T_TOOL_TCP)
    assert found['placement_error_m'] == pytest.approx(0.005, abs=1e-9)
    assert found['placement_error_rad'] == pytest.approx(math.radians(2.0), abs=1e-9)
    assert found['cycle_time_s'] == pytest.approx(1.8)


def test_a_quarter_turn_of_the_cube_is_no_symmetry():
    samples = samples_of(STRAIGHT, pose(0.4, 0.2, 0.0225, 90.0))
    found = measured(samples, END[None], MODEL, T_TOOL_TCP)
    assert found['placement_error_rad'] == pytest.approx(math.pi / 2)


def test_displaced_cube_is_measured_against_its_place_in_the_hand():
    """Gripped 3 mm off along its own x and put down so, the arm has made no mistake."""
    off = pose(0.003, 0.0, 0.0, 0.0)
    found = measured(samples_of(STRAIGHT @ off, END @ off), END[None], MODEL, T_TOOL_TCP)
    assert found['placement_error_m'] == pytest.approx(0.003, abs=1e-9)
    assert found['grip_offset_m'] == pytest.approx((0.003, 0.0, 0.0), abs=1e-9)
    assert found['in_hand_error_m'] == pytest.approx(0.0, abs=1e-9)
    assert found['in_hand_error_rad'] == pytest.approx(0.0, abs=1e-9)
    assert not misplacement(found, is_displaced=True)
    assert '3.0 mm and 0.0 deg: must be at most 2 mm and 1 deg' in misplacement(found, False)


def test_of_several_cubes_the_worst_counts_and_each_is_kept():
    ends = np.array([pose(0.4, y, 0.0225, 0.0) for y in (0.1, 0.2)])
    samples = samples_of(STRAIGHT, ends[0], ends[1] @ pose(0.003, 0.0, 0.0, 0.0))
    found = measured(samples, ends, MODEL, T_TOOL_TCP)
    assert found['placement_errors_m'] == pytest.approx((0.0, 0.003), abs=1e-9)
    assert found['placement_error_m'] == pytest.approx(0.003, abs=1e-9)
    assert 'grip_offset_m' not in found
    assert '3.0 mm' in misplacement(found, False)
    t, parts = samples.parts
    only_one = replace(samples, parts=(t[:2], parts[:2]))
    assert 'placement_error_m' not in measured(only_one, ends, MODEL, T_TOOL_TCP)


def test_top_speed_comes_from_the_joints():
    """Joint 1 turning at 1 rad/s moves the TCP at its distance from the axis."""
    t = np.arange(0.0, 1.0, 0.008)
    q = HOME + np.outer(t, np.eye(6)[0])
    arm = arm_facts(MODEL, T_TOOL_TCP, motion_limits(MODEL, MotionSettings()))
    motion = motion_of(RecordedJoints(t, q, q, q), arm)
    asked = {**ASKED, **transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0)).facts()}
    found = evaluate(asked, samples_of(END, END), motion, 'ur5')
    radius = math.hypot(HOME_TCP[0], HOME_TCP[1])
    assert found['max_tcp_speed_m_s'] == pytest.approx(radius, rel=1e-3)


def test_without_samples_nothing_is_measured_and_nothing_counts_as_placed():
    nothing = np.zeros(0)
    samples = replace(samples_of(END, END), parts=(nothing, np.zeros((0, 0, 4, 4))))
    assert measured(samples, END[None], MODEL, T_TOOL_TCP) == {}
    assert 'published no pose' in misplacement({}, False)


def test_a_result_is_rounded_and_gives_spots_in_degrees():
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, math.radians(30.0)))
    asked = {**ASKED, **task.facts()}
    samples = samples_of(STRAIGHT, pose(0.4001234567, 0.2, 0.0225, 30.0))
    result = evaluate(asked, samples, None, 'ur5')
    assert (result['success'], result['reason']) == (True, '')
    assert result['placement_error_m'] == 0.000123 and result['planning_time_s'] == 0.123457
    assert result['target'] == {'x': 0.4, 'y': 0.2, 'yaw': 30.0}
    assert result['time_floor_s'] is None and result['displacement'] is None
    moved = replace(task, displacement=Displacement(0.003, 0.0, math.radians(5.0)))
    result = evaluate({**asked, **moved.facts(), 'failure': 'why'}, samples, None, 'ur5')
    assert result['displacement'] == {'dx': 3.0, 'dy': 0.0, 'dyaw': 5.0}
    assert (result['success'], result['reason']) == (False, 'why')


def test_a_recording_gives_the_result_of_its_samples(tmp_path):
    """The preparation is no part of the run, and of two messages of one stamp the first counts."""
    pytest.importorskip('rclpy')
    from geometry_msgs.msg import PoseArray
    from recordings import ARM, demo_facts, log_time, nodding, stamped, write_recording
    from sensor_msgs.msg import JointState

    from ur5_pick_place.nodes.messages.conversions import matrix_to_pose
    from ur5_pick_place.report.command import read_report

    joints = nodding(150)
    others = []
    for t in (99.0, 100.0, 100.5, 100.5, 101.0):
        T = STRAIGHT if t < 101.0 else END
        rows = PoseArray(poses=[matrix_to_pose(T)]), JointState(position=[0.0, 0.0])
        for name, message in zip(('part_poses', 'finger_states'), rows, strict=True):
            others.append((f'/sim_driver/{name}', stamped(message, t), log_time(joints, t)))
    events = [{**event, 'time': 100.0 + 0.5 * event['time']} for event in EVENTS]
    task = transfer(Spot(0.5, 0.1, 0.0), Spot(0.4, 0.2, 0.0))
    asked = {**ASKED, **task.facts(), 'log_times': demo_facts('ik', joints)['log_times']}
    path = tmp_path / 'run.mcap'
    write_recording(path, joints, events, [{'arm': ARM}, {'run': asked}], others)
    (run,) = read_report(path).runs
    assert run.samples.joints.t[0] == pytest.approx(events[0]['time'], abs=0.008)
    assert run.samples.parts[0].tolist() == [100.5, 101.0]
    assert run.result['success'] and run.result['placement_error_m'] == 0.0
    assert run.result['cycle_time_s'] == pytest.approx(0.9)
    assert run.result == evaluate(asked, run.samples, run.motion, 'ur5')
