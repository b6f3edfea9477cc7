# SPDX-License-Identifier: Apache-2.0
"""A plan told as a table and drawn for RViz."""

import json

import numpy as np
import pytest
from cycle_poses import CONFIG, MODEL, ORIGIN, POSES, SCENE

from ur5_pick_place.kinematics import HOME, forward, link_frames
from ur5_pick_place.kinematics.arm_shapes import arm_bodies
from ur5_pick_place.planning.limits import MotionSettings, tcp_and_elbow_speed
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.plan_report import plan_rows, report_text

SLOW = MotionSettings(max_speed=0.25, velocity_scaling=1.0, acceleration_scaling=1.0)


@pytest.fixture(scope='module')
def planner():
    cycle = load_cycle(CONFIG / 'cycle.yaml')
    motion = MotionPlanner(MODEL, SLOW, SCENE)
    return CyclePlanner(motion, TaskSettings(), cycle, ORIGIN, PatternSettings(cycles=3))


@pytest.fixture(scope='module')
def plan(planner):
    return planner.plan(POSES, HOME)


def test_a_report_has_each_motion_once_with_what_the_gate_measured(planner, plan):
    rows = plan_rows(plan)
    retry = 'verify grip: retry'
    cycle = ['above start, start', retry, retry, 'lift, transfer, target', 'retreat, home']
    assert [row['motion'] for row in rows] == cycle  # all three start at home
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    planned = [row for row in rows if row['motion'] != retry]
    for row, motion in zip(planned, plan.motions[: len(planned)], strict=True):
        assert row['method'] == 'ik'
        assert row['duration'] == pytest.approx(motion.trajectory.duration, abs=1e-4)
        q, qd, *_ = motion.trajectory.sample(motion.trajectory.dense_times(2e-3))
        speeds = tcp_and_elbow_speed(MODEL, q, qd, SCENE.tool.p_tool_tcp).max(axis=0)
        assert (row['tcp_speed'], row['elbow_speed']) == pytest.approx(tuple(speeds), abs=1e-4)
        share = np.abs(qd / planner.planner.limits.qd).max()
        assert row['joint_velocity'] == pytest.approx(share, abs=1e-4)


def test_a_report_is_read_as_a_table_and_shows_closed_loops_and_remarks(planner):
    loop = CyclePlanner(
        planner.planner, TaskSettings(method='resolved_rate'), planner.cycle, ORIGIN
    )
    lines = report_text(plan_rows(loop.plan(POSES, HOME))).splitlines()
    assert lines[0].split()[:3] == ['cycle', 'motion', 'method']
    methods = {line.split()[1]: line for line in lines[1:]}
    assert ' resolved_rate ' in methods['lift'] and ' ik ' in methods['home']
    column = lines[0].index('TCP [m/s]')
    assert all(0.0 < float(line[column:].split()[0]) <= 0.25 for line in lines[1:])


def test_the_swept_tool_is_drawn_where_its_boxes_are(planner, plan):
    from ur5_pick_place.nodes.messages import markers

    drawn = markers.cycle(planner.planner, plan, POSES).markers
    solids = [m for m in drawn if m.ns == markers.SWEPT]
    assert len(solids) == 3  # of nine motions three differ
    points = np.array([(p.x, p.y, p.z) for p in solids[0].points])
    assert len(points) % 36 == 0  # twelve triangles of a box
    T = np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(MODEL, HOME)
    for box in SCENE.tool.shapes:
        corner = (T @ box.T_tool_box @ [*(box.size / 2), 1.0])[:3]
        assert np.linalg.norm(points - corner, axis=1).min() < 1e-6
    lowest = points[:, 2].min()
    assert 0.0 < lowest < 0.03  # down at the cube, above the table


def test_the_arm_along_a_plan_is_drawn_from_home_to_the_part_without_repeats(planner, plan):
    from ur5_pick_place.nodes.messages import markers

    drawn = markers.cycle(planner.planner, plan, POSES).markers
    ghosts = [m for m in drawn if m.ns == markers.GHOSTS]
    postures = [q for ghost in ghosts for q in markers.posture_of(ghost)]
    assert 4 <= len(postures) == len(ghosts) <= 12
    np.testing.assert_allclose(postures[0], HOME, atol=1e-9)
    for motion in plan.motions:
        assert min(np.abs(motion.trajectory.q[-1] - q).max() for q in postures) < 0.4
    for i, q in enumerate(postures):
        assert all(np.abs(q - other).max() > 0.3 for other in postures[:i])
    turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    for ghost, q in zip(ghosts, postures, strict=True):
        assert (ghost.type, len(ghost.points) % 3) == (ghost.TRIANGLE_LIST, 0)
        assert len(ghost.points) <= 1200, 'few triangles, as RViz gets all of them at each change'
        points = np.array([(p.x, p.y, p.z) for p in ghost.points])
        for link in range(2, 7):  # each is drawn as far out as it is
            bodies = [body.vertices for body in arm_bodies(MODEL) if body.link == link]
            T = turn @ link_frames(MODEL, q)[link]
            for corner in np.concatenate(bodies)[np.concatenate(bodies).argmax(axis=0)]:
                assert np.linalg.norm(points - (T @ [*corner, 1.0])[:3], axis=1).min() < 1e-9


@pytest.mark.parametrize('text', ['', '[', '[1,2,3]', '[0,0,0,0,0,NaN]', '{"a":1}', '[' * 9999])
def test_a_ghost_of_others_without_joints_is_not_drawn(text):
    from ur5_pick_place.nodes.messages import markers

    assert markers.posture_of(markers.Marker(text=text)) == []
