# SPDX-License-Identifier: Apache-2.0
"""The cockpit without ROS and browser: what may be pressed, held and shown."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull

from ur5_pick_place.cockpit.actions import (
    FREEDRIVE,
    JOG,
    SERVICES,
    CellState,
    advice,
    next_button,
    why_not,
)
from ur5_pick_place.cockpit.arm_meshes import arm_meshes, meshes_of
from ur5_pick_place.cockpit.checks import checks_html, figures_html, figures_of
from ur5_pick_place.cockpit.jog import HoldFilter
from ur5_pick_place.cockpit.node import Cockpit
from ur5_pick_place.cockpit.panel import event_text, solutions_html
from ur5_pick_place.cockpit.places import pose_of
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import UR_TYPES, forward, link_frames, link_pose, load_model
from ur5_pick_place.kinematics.arm_shapes import LINKS, arm_bodies
from ur5_pick_place.kinematics.forward import LINK_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.driver.joint_listener import Joints
from ur5_pick_place.nodes.pick_place.statistics_file import StatisticsFile
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.task.preflight import Check
from ur5_pick_place.task.statistics import Tally, save_statistics

READY = 'ready'
BUTTONS = (*SERVICES, FREEDRIVE, 'Teach home')


def allowed(task: str, planner: str = READY) -> set[str]:
    return {name for name in BUTTONS if not why_not(name, CellState(task, planner))}


def test_only_what_the_task_node_would_take_can_be_pressed() -> None:
    free = {'Plan', 'Go home', 'Init gripper', 'Open gripper', 'Close gripper', FREEDRIVE}
    assert allowed('idle') == free | {'Teach home'}
    assert allowed('planned') == free | {'Teach home', 'Run'}
    assert allowed('running: transfer') == {'Pause'}
    assert allowed('paused: transfer') == {'Resume', 'Teach home'}
    assert allowed('busy: go_home') == set()
    assert allowed('freedrive') == {FREEDRIVE, 'Teach home'}
    assert allowed('stopped: stop requested') == {'Rearm', 'Teach home', FREEDRIVE}
    assert allowed('') == set()


@pytest.mark.parametrize(
    ('task', 'planner', 'why'),
    [
        ('idle', READY, ''),
        ('planned', 'moving', ''),  # as during a jog
        ('', READY, ''),
        ('idle', '', 'trajectory_planner is not there'),
        ('stopped: stop requested', 'stopped: stop requested', 'Rearm'),
        ('running: transfer', 'moving', 'running'),
        ('paused: transfer', READY, 'paused'),
        ('busy: go_home', 'moving', 'busy'),
        ('freedrive', READY, 'freedrive'),
    ],
)
def test_a_jog_is_offered_only_where_the_planner_would_take_it(task, planner, why) -> None:
    found = why_not(JOG, CellState(task, planner))
    assert (why in found) if why else not found


def test_a_stop_of_the_planner_alone_can_be_rearmed() -> None:
    state = CellState('idle', 'stopped: foreign motion')
    assert 'Rearm' in allowed(state.task, state.planner)
    assert state.reason == 'foreign motion'
    assert next_button(state) == 'Rearm'


def test_the_log_names_the_figures_of_a_plan() -> None:
    planned = {'event': 'planned', 'branch': 'left-up-up', 'motion_time': 4.4639, 'cycles': 1}
    text = event_text({**planned, 'stages': ['start'], 'time': 3.0})
    assert text == 'planned: branch left-up-up, 4.5 s of motion, cycles: 1'
    assert event_text({'event': 'stage', 'stage': 'grip', 'remark': ''}) == 'stage: grip'
    assert event_text({'event': 'rearmed'}) == 'rearmed'


@pytest.mark.parametrize('task', ['', 'idle', 'planned', 'running: a', 'paused: a', 'busy: b',
                                  'freedrive', 'planning', 'stopped: x', 'something new'])
def test_every_state_has_advice_and_its_next_button_may_be_pressed(task) -> None:
    state = CellState(task, READY)
    assert advice(state)
    name = next_button(state)
    assert not name or not why_not(name, state)


def test_a_held_button_is_passed_on_only_as_often_as_the_browser_reports_it() -> None:
    now = [0.0]
    hold_filter = HoldFilter(lambda: now[0])
    passed = 0
    for _ in range(30):
        passed += hold_filter.accepts(1, 'X +')
        now[0] += 1 / 30
    assert passed == 29  # the first one may be late, of a button that has been let go since
    for gap in (0.0, 0.001):  # what a stalled connection delivers at once moves nothing
        now[0] += 5.0
        burst = 0
        for _ in range(150):
            burst += hold_filter.accepts(1, 'X +')
            now[0] += gap
        assert burst == 0


def test_of_two_browsers_that_hold_a_button_the_first_one_jogs() -> None:
    now = [0.0]
    hold_filter = HoldFilter(lambda: now[0])
    assert not hold_filter.accepts(1, 'X +')
    now[0] = 0.03
    assert hold_filter.accepts(1, 'X +')
    now[0] = 0.08
    assert not hold_filter.accepts(2, 'X +')
    assert not hold_filter.accepts(1, 'Y +')
    now[0] = 0.33
    assert not hold_filter.accepts(2, 'X +')
    now[0] = 0.36
    assert hold_filter.accepts(2, 'X +')


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_drawn_arm_is_within_its_collision_bodies_and_quick_to_send(ur_type) -> None:
    """The bodies are independent of it: other figures of UR, in other frames."""
    model = load_model(ur_type)
    meshes, bodies = arm_meshes(model), arm_bodies(model)
    assert {mesh.link for mesh in meshes} == set(range(len(LINKS)))
    for mesh in meshes:
        outside = np.min([
            (mesh.vertices @ planes[:, :3].T + planes[:, 3]).max(axis=1)
            for planes in (ConvexHull(b.vertices).equations for b in bodies if b.link == mesh.link)
        ], axis=0)
        assert outside.max() < 0.02, f'{LINKS[mesh.link]}: {1e3 * outside.max():.1f} mm'
    assert sum(12 * (len(mesh.vertices) + len(mesh.faces)) for mesh in meshes) < 200_000  # bytes


def urdf(folder: Path, xyz: str = '0 0 0') -> str:
    """Return a description whose every link is a cube of 2 mm about `xyz` of its frame."""
    trimesh.creation.box(extents=(0.002,) * 3).export(folder / 'cube.stl')
    links = ''.join(
        f'<link name="{name}"><collision><origin xyz="{xyz}" rpy="0 0 0"/><geometry>'
        f'<mesh filename="file://{folder}/cube.stl"/></geometry></collision></link>'
        for name in ('base_link_inertia', *LINK_NAMES)
    )
    return f'<robot name="ur">{links}</robot>'


def test_meshes_of_the_description_lie_in_the_frames_of_its_links(tmp_path, rng) -> None:
    model, q = load_model('ur5e'), rng.uniform(-3.0, 3.0, 6)
    meshes = meshes_of(urdf(tmp_path, '0.01 0.02 0.03'), model, '')
    assert [mesh.link for mesh in meshes] == list(range(len(LINKS)))
    for mesh, name in zip(meshes[1:], LINK_NAMES, strict=True):
        drawn = link_frames(model, q)[mesh.link] @ [*mesh.vertices.mean(axis=0), 1.0]
        np.testing.assert_allclose(
            drawn, link_pose(model, q, name) @ [0.01, 0.02, 0.03, 1.0], atol=1e-6
        )


@pytest.mark.parametrize(
    'text', ['', '<robot/>', 'x' * 100, '<robot><link name="base_link_inertia"/></robot>']
)
def test_another_description_leaves_the_arm_as_it_is_drawn(text) -> None:
    with pytest.raises(InvalidInput, match='robot_description'):
        meshes_of(text, load_model('ur5'), '')


def test_a_description_whose_meshes_are_not_there_is_refused(tmp_path) -> None:
    text = urdf(tmp_path)
    header = 'ply\nformat binary_little_endian 1.0\nelement face 1\nproper{y list\nend_header\n'
    (tmp_path / 'cut.ply').write_text(header)
    for broken in (
        text.replace('cube.stl', 'none.stl'),
        text.replace('cube.stl', 'cube.dae'),
        text.replace('file://', 'http://'),
        text.replace('0 0 0', '0 nan 0'),
        text.replace('0 0 0', '0 0'),
        text.replace('cube.stl', 'cut.ply'),
    ):
        with pytest.raises(InvalidInput, match='robot_description'):
            meshes_of(broken, load_model('ur5'), '')


def test_what_a_node_says_is_no_html() -> None:
    text = solutions_html([('<b>', 'rgb(1,2,3)')], {'a': '<script>'}, '"x"')
    assert '<script>' not in text
    assert '&lt;script&gt;' in text
    assert '<b><b>' not in text


def test_preflight_shows_each_check_green_or_with_its_cure() -> None:
    good, bad = Check('joints', '125 Hz'), Check('scene', 'a <box>', 'remove it & look')
    html = checks_html([good, bad])
    assert '1 check failed' in html
    assert 'joints: 125 Hz' in html
    assert 'a &lt;box&gt;' in html
    assert 'remove it &amp; look' in html
    assert 'ready to move' in checks_html([good])


def test_statistics_are_shown_as_the_task_node_publishes_them(tmp_path) -> None:
    save_statistics(tmp_path / 'all', Tally(cycles=3, placed=2, timed=1, time=8.0, bins={209: 1}))
    file = StatisticsFile(tmp_path / 'all', print)
    for t, event, data in (
        (0.0, 'started', {'job': 'run'}), (4.0, 'placed', {}), (9.0, 'cycle_done', {}),
        (10.0, 'stopped', {'reason': 'protective stop: <b>'}),
    ):
        file.take(t, event, data)
    figures = figures_of({'state': 'idle', **file.figures()})
    assert figures['cycles'] == ('1', '4')
    assert figures['placed'] == ('1', '3')
    assert figures['missed'] == ('0', '0')
    assert figures['stopped: protective stop'] == ('1', '1')
    assert figures['cycle time mean [s]'] == ('9.00', '8.50')
    assert 'state' not in figures
    assert '<td' in figures_html({'<b>': ('1', '2')})
    assert '<b>' not in figures_html({'<b>': ('1', '2')})


def test_a_touch_needs_an_arm_at_rest_and_a_driver_that_speaks() -> None:
    cockpit = Cockpit.__new__(Cockpit)  # without its page and its nodes
    model, T_tool_tcp = load_model('ur5'), np.eye(4)
    T_tool_tcp[2, 3] = 0.17
    cockpit._view, cockpit._cell = MagicMock(), SimpleNamespace(model=model)
    cockpit._frames = Frames(MagicMock(), '', T_tool_tcp)
    cockpit._joints, cockpit._bad_joints, cockpit._stillness = None, '', Stillness()
    q = np.array([0.3, -1.2, 1.4, -1.7, -1.5, 0.2])

    def come(t: float, q: Array) -> None:
        cockpit._on_joints(Joints(t, q, q, (), 0.008))

    with pytest.raises(ExecutionError, match='silent'):
        cockpit._pose_at_rest('tcp')
    for i in range(5):
        come(0.05 * i, q + 1e-5 * i)
    assert cockpit._pose_at_rest('tcp') == pytest.approx(
        np.diag([-1.0, -1.0, 1.0, 1.0]) @ forward(model, q + 4e-5) @ T_tool_tcp
    )
    come(0.25, q + 0.01)
    with pytest.raises(ExecutionError, match='moving: hold it still'):
        cockpit._pose_at_rest('tcp')
    cockpit._joints_came -= 2.0
    with pytest.raises(ExecutionError, match='silent'):
        cockpit._pose_at_rest('tcp')


@pytest.mark.parametrize(
    'numbers',
    [None, 'x', [1, 2], [0] * 7, [np.nan] * 7, [10**400] * 7, [0, 0, 0, 0, 0, 0, 'a'], {'a': 1}],
)
def test_an_event_without_a_pose_moves_no_handle(numbers) -> None:
    assert pose_of(numbers) is None
