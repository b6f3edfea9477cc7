# SPDX-License-Identifier: Apache-2.0
"""The client for scripts, and the examples, against real nodes and the simulated driver."""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pace
import pytest
from cells import running_cell
from task_client import TaskClient

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.errors import (
    ExecutionError,
    InvalidInput,
    NoSolution,
    PlanningError,
    TimedOut,
    Ur5PickPlaceError,
)
from ur5_pick_place.kinematics import BRANCHES, HOME, forward, load_model
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, exp_so3, tool_down
from ur5_pick_place.planning.scene.scene_file import load_scene

pytestmark = pytest.mark.nodes

EXAMPLES = Path(__file__).parents[2] / 'examples'
START, TARGET = (0.45, -0.20, 0.02), (0.40, 0.25, 0.02)


@pytest.fixture(scope='module')
def watcher(
    ros_domain: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TaskClient]:
    """Give another client of a cell, which judges by joints and part."""
    folder = tmp_path_factory.mktemp('cell')
    with running_cell(TaskClient, ros_domain, folder, quick=3.0) as watcher:
        yield watcher


@pytest.fixture(scope='module')
def cell(watcher: TaskClient) -> Iterator[PickPlaceClient]:
    with PickPlaceClient(timeout=pace.wall(30.0)) as cell:
        yield cell


@pytest.fixture
def ready(cell: PickPlaceClient, watcher: TaskClient) -> Iterator[None]:
    """Begin with the arm free at home and the part at start; no node may have ended."""
    make_ready(cell, watcher)
    yield
    watcher.processes.check()


def make_ready(cell: PickPlaceClient, watcher: TaskClient) -> None:
    if cell.state.startswith('stopped'):
        cell.rearm()
    cell.open_gripper()
    watcher.put_part((START[0], START[1], 0.0))
    cell.move_to(joints=HOME)


def teach_all(cell: PickPlaceClient) -> None:
    cell.teach('home')
    cell.teach('start', xyz=START)
    cell.teach('target', xyz=TARGET, yaw_deg=30.0)


def run_example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=pace.wall(60.0),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lies_at(watcher: TaskClient, xyz: tuple[float, ...]) -> bool:
    watcher.look()
    return bool(np.abs(watcher.part_at()[:2] - xyz[:2]).max() < 5e-3)


# ---- what it tells


def test_missing_nodes_are_named_with_namespace_and_domain(ros_domain):
    with pytest.raises(TimedOut, match=r'pick_place, trajectory_planner, ik_service not found'):
        PickPlaceClient(namespace='nobody', timeout=1.0)
    with pytest.raises(InvalidInput, match='namespace'):
        PickPlaceClient(namespace='no body')


def test_it_sees_joints_tcp_places_and_all_solutions(cell, watcher, ready):
    model = load_model('ur5')
    assert np.abs(cell.joints - watcher.look()).max() < 1e-3
    assert {'home', 'start', 'target'} <= set(cell.places)
    found = cell.solutions(cell.tcp)
    assert set(found) | set(found.missing) == set(BRANCHES)
    best = next(iter(found.values()))
    assert np.abs(best - cell.joints).max() < 1e-3
    T_tool_tcp = np.linalg.inv(T_BASE_BASE_LINK @ forward(model, best)) @ cell.tcp
    for q in found.values():
        assert np.abs(T_BASE_BASE_LINK @ forward(model, q) @ T_tool_tcp - cell.tcp).max() < 1e-6
    far = cell.solutions(tool_down(3.0, 0.0, 0.3, 0.0))
    assert not far
    assert set(far.missing) == set(BRANCHES)


# ---- what it refuses, with the nodes' own reasons


def test_a_place_that_cannot_be_is_refused_at_teach(cell, ready):
    teach_all(cell)
    with pytest.raises(PlanningError, match='target not taught: .*table'):
        cell.teach('target', xyz=(0.4, 0.2, -0.1))
    with pytest.raises(PlanningError, match='moon'):
        cell.teach('target', xyz=(0.4, 0.2, 0.1), frame='moon')
    with pytest.raises(InvalidInput, match=r"'targte' is unknown: must be one of .*target"):
        cell.teach('targte', xyz=TARGET)
    with pytest.raises(InvalidInput, match='3 finite numbers'):
        cell.teach('target', xyz=(0.4, np.nan, 0.1))
    cell.plan()  # the target as taught before


def test_a_motion_that_cannot_be_is_refused_with_the_planners_reason(cell, watcher, ready):
    before = watcher.look()
    with pytest.raises(NoSolution, match='move_to: .*too far'):
        cell.move_to(xyz=(2.0, 0.0, 0.3))
    with pytest.raises(Ur5PickPlaceError, match='table'):
        cell.move_to(xyz=(0.4, 0.0, -0.1))
    with pytest.raises(InvalidInput, match='6 finite numbers'):
        cell.move_to(joints=[0.0] * 5)
    with pytest.raises(InvalidInput, match='give one of'):
        cell.move_to('home', xyz=START)
    assert np.abs(watcher.look() - before).max() < 1e-3


def test_objects_are_added_and_removed_and_a_refusal_has_its_reason(cell, ready):
    cell.add_box('crate', (0.1, 0.1, 0.1), xyz=(0.4, 0.0, 0.3), yaw_deg=20.0)
    cell.add_cylinder('post', 0.02, 0.3, xyz=(0.6, 0.3, 0.15))
    assert cell.objects == ('crate', 'post')
    with pytest.raises(Ur5PickPlaceError, match='crate'):
        cell.move_to(xyz=(0.4, 0.0, 0.3))
    cell.remove('crate')
    cell.remove('post')
    assert not cell.objects
    with pytest.raises(InvalidInput, match="'crate' is not in the scene"):
        cell.remove('crate')
    with pytest.raises(InvalidInput, match="'ball'.*moon"):
        cell.add_box('ball', (0.1, 0.1, 0.1), xyz=(0.4, 0.0, 0.3), frame='moon')


# ---- moving


def test_it_moves_to_poses_places_and_joints(cell, watcher, ready):
    teach_all(cell)
    cell.move_to(xyz=(0.40, 0.0, 0.30), yaw_deg=20.0)
    assert np.abs(cell.tcp - tool_down(0.40, 0.0, 0.30, np.radians(20.0))).max() < 2e-3
    cell.teach('target', T=np.eye(4), frame='tcp')  # also as soon as the motion has ended
    cell.move_to('target')
    assert np.abs(cell.tcp - tool_down(0.40, 0.0, 0.30, np.radians(20.0))).max() < 2e-3
    cell.teach('target', xyz=(0.40, 0.20, 0.20))
    cell.move_to('target')
    assert np.abs(cell.tcp - tool_down(0.40, 0.20, 0.20, 0.0)).max() < 2e-3
    cell.move_to('home')
    assert np.abs(watcher.look() - HOME).max() < 3e-3


def test_an_interrupt_during_a_run_stops_the_arm(cell, watcher, ready):
    teach_all(cell)
    cell.plan()

    def interrupt(event):
        if event['event'] == 'stage' and event['stage'] == 'above start':
            threading.Timer(0.2, _thread.interrupt_main).start()

    with pytest.raises(KeyboardInterrupt):
        cell.run(interrupt)
    watcher.run(0.5)  # [s] within which a stop brings the arm to rest
    before = watcher.look()
    watcher.run(0.5)
    assert np.abs(watcher.q - before).max() < 1e-3
    assert cell.state == 'stopped: stop requested'
    with pytest.raises(ExecutionError, match='run refused: stopped: stop requested'):
        cell.run()
    cell.rearm()


# ---- measuring by touch


@pytest.mark.drill
def test_tcp_and_table_are_found_by_touches_and_written_only_on_request(cell, ready, tmp_path):
    tcp, table = cell.tcp_by_touch(), cell.table_by_touch()
    for axis in ([1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]):
        T = tool_down(0.42, 0.05, 0.30, 0.0)
        T[:3, :3] = T[:3, :3] @ exp_so3(0.5 * np.array(axis))
        cell.move_to(T=T)
        tcp.take()
    found = tcp.result()
    assert found.is_good, found
    assert np.abs(found.position - [0.0, 0.0, 0.145]).max() < 1e-3
    for x, y in ((0.35, -0.2), (0.35, 0.2), (0.5, 0.0)):
        cell.move_to(xyz=(x, y, 0.05))
        table.take()
    assert table.result().height == pytest.approx(0.05, abs=1e-3)
    with pytest.raises(InvalidInput, match='a file of the package, which is not edited: copy it'):
        table.write()
    file = tmp_path / 'scene.yaml'
    file.write_text((EXAMPLES.parent / 'config/scene_sim.yaml').read_text())
    assert 'restart the nodes' in table.write(str(file))
    assert 'restart the nodes' in tcp.write(str(file))
    scene = load_scene(file)
    assert scene.table_height == pytest.approx(0.05, abs=1e-3)
    assert scene.tool.T_tool_tcp[:3, 3] == pytest.approx(found.position, abs=1e-6)


# ---- is the cell ready?


def preflight(*arguments: str) -> tuple[int, str]:
    words = [Path(sys.executable).with_name('preflight'), *arguments]
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, timeout=60.0, check=False)
    assert time.monotonic() - begin < pace.wall(12.0)
    assert not done.stderr
    return done.returncode, done.stdout


@pytest.mark.drill
def test_preflight_passes_a_cell_that_is_ready_and_names_a_stop(cell, watcher, ready):
    before = watcher.look()
    code, text = preflight()
    assert code == 0, text
    assert text.endswith('ready to move\n')
    cell.stop()
    code, text = preflight()
    assert code == 1
    assert 'FAIL  states        stopped: stop requested\n' in text
    assert '-> remove the cause, then call pick_place/rearm' in text
    assert np.abs(watcher.look() - before).max() < 1e-3
    assert preflight('--namespace', 'nobody')[0] == 1


# ---- the examples, each as it stands


@pytest.mark.drill
def test_the_example_of_ten_lines_places_the_part(cell, watcher, ready):
    text = run_example('pick_and_place.py')
    assert text.count('placed 1, missed 0, in ') == 2 and 'cycle_done' in text
    assert text.count("'event': 'placed', 'place': 'target'") == 2
    assert lies_at(watcher, START), 'it may be run again'


@pytest.mark.drill
@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (('pallet.py', '1', '2'), 'to (0.4, 0.25, 0.02): placed'),
        (('solutions.py',), 'too far'),
        (('place_from_topic.py',), "'event': 'taught'"),
        (('jog.py',), '\n['),
        (('moveit_client.py',), 'it is there\nit is there'),
        (('stop_and_recover.py',), 'ended early: run stopped'),
        (('two_grippers.py',), 'digital: placed 1, missed 0, '),
    ],
)
def test_the_other_examples_do_as_they_say_and_may_be_run_again(cell, watcher, ready, words, said):
    assert said in run_example(*words)
    assert lies_at(watcher, START)
    assert np.abs(watcher.look() - HOME).max() < 3e-3
    assert not cell.state.startswith('stopped')


@pytest.mark.drill
def test_a_jog_that_meets_the_table_says_so(cell, watcher, ready):
    cell.move_to(xyz=(0.40, 0.0, 0.05))
    cell.jog((0.0, 0.0, 0.02, 0.0, 0.0, 0.0), seconds=0.5)
    said = 'jog covered only .* % of its path: slowed down: collision ahead: .*table'
    with pytest.raises(ExecutionError, match=said):
        cell.jog((0.0, 0.0, -0.1, 0.0, 0.0, 0.0), seconds=2.5)  # far, in a slow cell too


@pytest.mark.drill
def test_the_notebook_is_valid_and_plots(cell, watcher, ready, tmp_path):
    book = json.loads((EXAMPLES / 'notebook.ipynb').read_text())
    assert (book['nbformat'], book['nbformat_minor']) == (4, 5)
    assert all(not c['outputs'] for c in book['cells'] if c['cell_type'] == 'code')
    code = [''.join(c['source']) for c in book['cells'] if c['cell_type'] == 'code']
    assert len({c['id'] for c in book['cells']}) == len(book['cells'])
    script = tmp_path / 'notebook.py'
    end = f"plt.savefig('{tmp_path}/plot.png')\nprint(*plt.gca().lines[0].get_xdata())"
    script.write_text('\n'.join(code).replace('plt.show()', end))
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=pace.wall(60.0),
        env={**os.environ, 'MPLBACKEND': 'Agg'},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    outcome, _back = (line for line in said if line.startswith('placed 1, missed 0, in '))
    t = np.array(said[-2].split(), dtype=float)
    assert np.diff(t).min() >= 0.0
    # In the robot's time, whatever the cell's real-time factor; samples begin before the run.
    assert -0.1 < t[-1] - float(outcome.split()[-2]) < 2.0
    assert (tmp_path / 'plot.png').stat().st_size > 5000
    assert lies_at(watcher, START), 'it may be run again'


# ---- and last, as it ends the cell


@pytest.mark.drill
def test_a_node_that_dies_during_a_run_is_named(cell, watcher):
    make_ready(cell, watcher)
    teach_all(cell)
    cell.plan()

    def kill(event):
        if event['event'] == 'stage' and event['stage'] == 'above start':
            os.kill(watcher.processes.pids['pick_place'], signal.SIGKILL)

    begin = time.monotonic()
    with pytest.raises(ExecutionError, match='node pick_place has gone or is stuck'):
        cell.run(kill)
    assert time.monotonic() - begin < pace.wall(20.0)
    before = watcher.look()
    watcher.run(0.5)
    assert np.abs(watcher.q - before).max() < 1e-3
