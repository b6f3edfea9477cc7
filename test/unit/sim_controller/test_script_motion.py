# SPDX-License-Identifier: Apache-2.0
"""Motions of URScript: their time and shape against formulas of their own, and SciPy's."""

import math

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation
from script_robot import ScriptRobot

STEPS = (0.008, 0.002)
START = np.array([0.2, -1.4, 1.5, -1.6, -1.5, 0.3])


def moved(body, step=0.008, seconds=20.0, **settings):
    """Run a program's lines from START; return robot, joints and speeds of every cycle (n, 6)."""
    robot = ScriptRobot(step, 'ur5' if step == 0.008 else 'ur5e')
    robot.q = robot.target_q = START.copy()
    for name, value in settings.items():
        setattr(robot, name, value)
    program = robot.run(f'def test():\n{body}\nend\n', seconds)
    assert program.is_over, robot.events
    q, qd = (np.array(part) for part in zip(*robot.targets, strict=True))
    return robot, q, qd


def pose_text(position, turn):
    """Return a pose as URScript writes it."""
    return f'p{[float(x) for x in (*position, *turn)]}'


def trapezoid_time(length, a, v):
    """Return the time of a trapezoid, or of a triangle."""
    return length / v + v / a if length > v * v / a else 2.0 * math.sqrt(length / a)


@pytest.mark.parametrize('step', STEPS)
@pytest.mark.parametrize(('a', 'v', 'scale'), [(1.4, 1.05, 1), (3.4, 3.1, 1), (1.4, 1.05, 0.5)])
def test_movej_is_a_trapezoid_of_the_leading_joint(step, a, v, scale):
    goal = START + [0.8, -0.4, 0.2, 0.0, 0.1, -0.8]
    robot, q, qd = moved(f'movej({goal.tolist()}, a={a}, v={v})\nset_flag(0, True)', step,
                         time_scale=scale)  # fmt: skip
    assert robot.q == pytest.approx(goal, abs=1e-12) and not qd[-1].any()
    assert len(q) * step == pytest.approx(trapezoid_time(0.8, a, v) / scale, abs=2 * step)
    assert np.abs(qd).max() <= min(v, math.sqrt(0.8 * a)) * scale + 1e-9
    assert np.abs(np.diff(qd, axis=0)).max() / step <= a * scale * scale + 1e-6
    assert np.diff(q, axis=0) / step == pytest.approx(qd[1:], abs=a * step)
    share = (q - START) / (goal - START + [0, 0, 0, 1, 0, 0])
    assert share[:, [1, 2, 4, 5]] == pytest.approx(share[:, [0] * 4], abs=1e-9)


@pytest.mark.parametrize('t', [0.05, 1.0, 3.0])
def test_a_time_replaces_speed_and_acceleration_as_far_as_the_joints_can(t):
    goal = START + [0.5, 0, 0, 0, 0, 0]
    robot, q, qd = moved(f'movej({goal.tolist()}, a=1.4, v=0.1, t={t})')
    assert robot.q == pytest.approx(goal, abs=1e-12)
    assert np.abs(qd).max() <= robot.qd_max[0] + 1e-9
    if t > 0.5:
        assert len(q) * 0.008 == pytest.approx(t, abs=0.016)


def test_a_tool_move_takes_as_long_as_the_joints_need():
    robot, q, qd = moved('movel(pose_trans(get_actual_tcp_pose(), p[0, 0, -0.2, 0, 0, 1]), t=0.1)')
    assert len(q) > 20 and robot.events == []
    assert np.all(np.abs(qd) <= robot.qd_max * 1.01)


def test_a_negative_blend_is_an_exception():
    for call in ('movej([0, -1, 1, 0, 0, 0]', 'optimovel([0, -1, 1, 0, 0, 0]'):
        robot = ScriptRobot()
        robot.run(f'{call}, r=-0.1)\n')
        assert robot.events == [('exception', 1, 1, 'r = -0.1: must not be negative')]


@pytest.mark.parametrize('step', STEPS)
def test_movel_runs_a_trapezoid_along_the_straight_line(step):
    robot = ScriptRobot(step, 'ur5' if step == 0.008 else 'ur5e')
    tcp = np.eye(4)
    tcp[:3, 3] = [0.0, 0.05, 0.1]
    T = robot.forward(START) @ tcp
    way = np.array([0.1, -0.05, 0.12])
    turned = Rotation.from_matrix(T[:3, :3]) * Rotation.from_rotvec([0.3, 0, 0])
    goal = pose_text(T[:3, 3] + way, turned.as_rotvec())
    robot, q, _ = moved(f'movel({goal}, a=1.2, v=0.25)', step, tcp=tcp)
    poses = np.array([robot.forward(joints) @ tcp for joints in q])
    s = (poses[:, :3, 3] - T[:3, 3]) @ way / (way @ way)
    assert poses[:, :3, 3] == pytest.approx(T[:3, 3] + s[:, None] * way, abs=1e-9)
    turns = Rotation.from_matrix(T[:3, :3].T @ poses[:, :3, :3]).as_rotvec()
    assert turns == pytest.approx(s[:, None] * [0.3, 0, 0], abs=1e-6)
    length = float(np.linalg.norm(way))
    assert len(q) * step == pytest.approx(trapezoid_time(length, 1.2, 0.25), abs=2 * step)
    speed = np.diff(s) * length / step
    assert speed.max() == pytest.approx(0.25, abs=1e-6)
    assert np.abs(np.diff(speed)).max() / step <= 1.2 + 1e-3


@pytest.mark.parametrize(('lookahead', 'gain'), [(0.03, 2000), (0.1, 300), (0.2, 100)])
@pytest.mark.parametrize('step', STEPS)
def test_servoj_is_a_spring_to_the_target_with_lookahead(step, lookahead, gain):
    """With the values of UR's driver, the first of these, it is critically damped."""
    goal = START + 0.05
    n = round(0.4 / step)
    _, q, qd = moved(
        f'i = 0\nwhile i < {n}:\n servoj({goal.tolist()}, t={step}, lookahead_time={lookahead}, '
        f'gain={gain})\n i = i + 1\nend\nhalt', step
    )  # fmt: skip
    stiffness = gain / 2000.0 * (2.0 / 0.03) ** 2
    A = np.array([[0.0, 1.0], [-stiffness, -stiffness * lookahead]])
    for k in (1, n // 10, n // 2, n - 1):
        error, speed = expm(A * k * step) @ [-0.05, 0.0]
        assert q[k - 1] - goal == pytest.approx(np.full(6, error), abs=1e-9)
        assert qd[k - 1] == pytest.approx(np.full(6, speed), abs=1e-9)


@pytest.mark.parametrize('step', STEPS)
def test_servoj_trails_a_ramp_by_the_lookahead_whatever_the_cycle(step):
    robot, q, _ = moved(
        f'q = get_joint_positions()\ni = 0\nwhile i < {1.0 / step}:\n q[0] = q[0] + {0.5 * step}\n'
        f' servoj(q, t={step}, lookahead_time=0.05, gain=2000)\n i = i + 1\nend\n'
        'write_output_float_register(0, q[0])\nhalt', step
    )  # fmt: skip
    last = round(1.0 / step) - 1
    assert robot.output_floats[0] - q[last, 0] == pytest.approx(0.05 * 0.5, abs=1e-6)


@pytest.mark.parametrize('step', STEPS)
def test_speedj_reaches_the_speed_with_the_asked_acceleration(step):
    _, q, qd = moved('speedj([0.4, -0.2, 0, 0, 0, 0], 2.0, 0.5)\nhalt', step)
    t = step * np.arange(1, len(q) + 1)
    assert qd[:, 0] == pytest.approx(np.minimum(2.0 * t, 0.4), abs=1e-9)
    assert qd[:, 1] == pytest.approx(-0.5 * qd[:, 0], abs=1e-9)
    position = np.where(t < 0.2, t * t, 0.4 * t - 0.04)
    assert q[:, 0] - START[0] == pytest.approx(position, abs=1e-9)
    assert len(q) == pytest.approx(0.5 / step, abs=1)


@pytest.mark.parametrize('step', STEPS)
def test_speedj_with_just_enough_acceleration_is_there_after_one_cycle(step):
    a = 0.3 / step
    _, _, qd = moved(f'speedj([0.3, 0, 0, 0, 0, 0], {a}, {step})\nhalt', step)
    assert qd[0] == pytest.approx([0.3, 0, 0, 0, 0, 0], abs=1e-12)


def test_an_arm_keeps_its_speed_after_speedj_and_stops_when_its_thread_dies():
    _, _, qd = moved('speedj([0.3, 0, 0, 0, 0, 0], 5.0, 0.1)\nsleep(0.2)\nhalt')
    assert qd[-2, 0] == 0.3
    _, _, qd = moved(
        f'thread t():\n movej({(START + 1.0).tolist()})\nend\nr = run t()\nsleep(0.5)\n'
        f'kill r\nsleep(0.5)'
    )
    assert qd[60, 0] > 0.3 and not qd[-1].any()
    assert np.abs(np.diff(qd, axis=0)).max() / 0.008 < 11.0


@pytest.mark.parametrize('stop', ['stopj(2.0)', 'stopl(2.0)'])
def test_a_stop_takes_speed_over_deceleration(stop):
    robot, q, qd = moved(f'speedj([0.5, 0, 0, 0, 0, 0], 5.0, 0.2)\n{stop}\nset_flag(0, True)')
    assert not qd[-1].any()
    reach = np.linalg.norm(robot.forward(START)[:2, 3])
    expected = 0.5 / 2.0 if 'j' in stop else max(0.5 * reach, 0.5) / 2.0
    assert (len(q) - 25) * 0.008 == pytest.approx(expected, abs=0.024)


def test_speedl_moves_the_tcp_straight_with_the_asked_acceleration():
    twist = np.array([0.0, 0.06, 0.08, 0.0, 0.0, 0.0])
    robot, q, qd = moved(f'speedl({twist.tolist()}, 0.5, 1.0)\nstopl(1.0)', 0.002)
    p = np.array([robot.forward(joints)[:3, 3] for joints in q])
    speed = np.diff(p, axis=0) / 0.002
    assert speed[300] == pytest.approx(twist[:3], abs=1e-4)
    assert np.linalg.norm(speed[50]) == pytest.approx(0.5 * 0.101, abs=2e-3)
    assert not qd[-1].any()
    off = np.cross(p - robot.forward(START)[:3, 3], twist[:3] / 0.1)
    assert np.abs(off).max() < 1e-4


def test_a_move_of_a_moving_arm_begins_with_a_stop():
    goal = START + 0.3
    robot, _, qd = moved(f'speedj([-0.4, 0, 0, 0, 0, 0], 5.0, 0.2)\nmovej({goal.tolist()}, a=1.4)')
    assert robot.q == pytest.approx(goal, abs=1e-12)
    assert np.abs(np.diff(qd, axis=0)).max() / 0.008 < 5.1


@pytest.mark.parametrize('kind', ['movej', 'movel'])
def test_a_blend_passes_within_its_radius_without_a_stop(kind):
    robot = ScriptRobot()
    T = robot.forward(START)
    turn = Rotation.from_matrix(T[:3, :3]).as_rotvec()
    corner = T[:3, 3] + [0.0, 0.0, 0.15]
    end = corner + [0.1, 0.1, 0.0]
    a, b = (pose_text(point, turn) for point in (corner, end))
    robot, q, qd = moved(f'{kind}({a}, a=1.2, v=0.2, r=0.03)\n{kind}({b}, a=1.2, v=0.2)')
    p = np.array([robot.forward(joints)[:3, 3] for joints in q])
    assert p[-1] == pytest.approx(end, abs=1e-9) and not qd[-1].any()
    distance = np.linalg.norm(p - corner, axis=1)
    assert 0.0005 < distance.min() < 0.03
    k = int(distance.argmin())
    assert np.abs(qd[5 : k + 5]).max(axis=1).min() > 0.0
    _, slow, _ = moved(f'{kind}({a}, a=1.2, v=0.2)\n{kind}({b}, a=1.2, v=0.2)')
    assert len(q) < len(slow)
    if kind == 'movel':
        jolts = np.linalg.norm(np.diff(p, n=2, axis=0), axis=1) / 0.008**2
        assert jolts.max() < 1.05 * 2.0 * 1.2
    else:
        assert np.abs(np.diff(qd, axis=0)).max() / 0.008 < 1.05 * 2.0 * 1.2


def test_a_blend_without_a_next_move_ends_at_its_point():
    goal = START + 0.3
    robot, _, qd = moved(f'movej({goal.tolist()}, r=0.05)\nsleep(1.0)')
    assert robot.q == pytest.approx(goal, abs=1e-12) and not qd[-1].any()


def test_movec_runs_the_circle_through_its_three_points():
    robot = ScriptRobot()
    T = robot.forward(START)
    turn = Rotation.from_matrix(T[:3, :3]).as_rotvec()
    centre = T[:3, 3] + [0.0, 0.0, 0.06]
    via, to = centre + [0.0, 0.06, 0.0], centre + [0.0, 0.0, 0.06]
    robot, q, _ = moved(f'movec({pose_text(via, turn)}, {pose_text(to, turn)}, a=1.2, v=0.1)')
    p = np.array([robot.forward(joints)[:3, 3] for joints in q])
    assert np.linalg.norm(p - centre, axis=1) == pytest.approx(np.full(len(p), 0.06), abs=1e-9)
    assert p[-1] == pytest.approx(to, abs=1e-9)
    assert np.linalg.norm(p - via, axis=1).min() < 1e-3
    length = 0.06 * math.pi
    assert len(q) * 0.008 == pytest.approx(trapezoid_time(length, 1.2, 0.1), abs=0.024)


def test_a_tool_path_out_of_reach_is_a_protective_stop_and_is_tried_again():
    robot = ScriptRobot()
    robot.run('movel(p[10, 0, 0, 0, 0, 0])\n', seconds=0.05)
    kinds = [event[0] for event in robot.events]
    assert kinds[:3] == ['error', 'protective_stop', 'error'] and robot.events[0][3] == 2
    assert robot.commands == 0


def test_kinematics_come_with_the_tool():
    tcp = np.eye(4)
    tcp[:3, 3] = [0.0, 0.0, 0.1]
    robot, _, _ = moved(
        'x = get_forward_kin()\nq = get_inverse_kin(x)\nwrite_output_float_register(0, norm(q - '
        'get_actual_joint_positions()))\n'
        'textmsg(get_inverse_kin_has_solution(p[9, 0, 0, 0, 0, 0]))\n'
        'textmsg(point_dist(get_actual_tcp_pose(), get_actual_tool_flange_pose()))\n'
        'textmsg(is_within_safety_limits([0, 0, 0, 0, 0, 7]))', tcp=tcp
    )  # fmt: skip
    assert robot.output_floats[0] < 1e-9
    assert robot.texts() == ['False', '0.1', 'False']


def test_force_mode_pushes_until_the_force_is_there():
    robot = ScriptRobot()
    robot.q = robot.target_q = START.copy()
    floor = robot.forward(START)[2, 3] - 0.005

    class Spring(ScriptRobot):
        """A floor of 2 N/mm."""

        def command(self, q, qd):
            super().command(q, qd)
            self.wrench = np.zeros(6)
            self.wrench[2] = max(0.0, 2000.0 * (floor - self.forward(q)[2, 3]))

    robot.__class__ = Spring
    robot.run(
        'def f():\nforce_mode(p[0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, -20, 0, 0, 0], 2, '
        '[0.1, 0.1, 0.05, 1, 1, 1])\nsleep(6)\ntextmsg(tool_contact([0, 0, -1]))\n'
        'end_force_mode()\nend\n'
    )
    assert robot.events == [('text', '1')]
    assert robot.wrench[2] == pytest.approx(20.0, abs=0.5)
    assert robot.forward(robot.q)[:2, 3] == pytest.approx(robot.forward(START)[:2, 3], abs=1e-4)


def test_after_force_mode_moves_end_at_their_goals():
    robot = ScriptRobot()
    robot.q = robot.target_q = START.copy()
    goal = START + 0.2
    robot.run(
        'def f():\nforce_mode(p[0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 20, 0, 0, 0], 2, '
        f'[0.1, 0.1, 0.05, 1, 1, 1])\nsleep(1)\nend_force_mode()\nmovej({goal.tolist()})\nend\n'
    )
    assert robot.events == [] and robot.q == pytest.approx(goal, abs=1e-9)
