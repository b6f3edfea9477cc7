# SPDX-License-Identifier: Apache-2.0
"""The demo as a user meets it: what it leaves behind, and how it ends when something fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
import pace
import pytest
from PIL import Image
from recordings import ARM, EVENTS, demo_facts, nodding, write_recording

from ur5_pick_place.report import command as report
from ur5_pick_place.report.time_shares import SHARES, shares_lines
from ur5_pick_place.sim.physics.cell import PART_SIZE
from ur5_pick_place.terminal import Ended, signals_raised

pytestmark = pytest.mark.nodes

DEMO = Path(sys.executable).with_name('demo')


class DemoProcess:
    """A demo in a folder of its own; everything it starts carries a mark in its environment."""

    def __init__(self, folder: Path, *before: str, **environment: str) -> None:
        self.out = folder / 'out'
        self._mark = f'UR5_TEST_DEMO={os.getpid()}-{id(self)}'
        name, _, value = self._mark.partition('=')
        self._log = (folder / 'terminal.log').open('w+')
        self.process = subprocess.Popen(
            [*before, DEMO, '--rtf', str(pace.real_time_factor()), '--out', self.out],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment, name: value, 'PYTHONFAULTHANDLER': '1'},
            cwd=folder,
            # A shell starts what runs behind it with SIGINT ignored, and so would the demo be.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def wait_for(self, text: str) -> None:
        """Wait until the terminal shows a text."""
        deadline = time.monotonic() + pace.wall(60.0)
        while text not in self.said:
            assert self.process.poll() is None, self.said
            if time.monotonic() > deadline:
                self.abort(f'no {text!r}')
            time.sleep(0.02)

    def code(self, seconds: float) -> int:
        """Return the exit code of a demo that ends within some seconds on the wall."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.abort(f'not ended after {seconds} s')

    def abort(self, what: str) -> NoReturn:
        """End it where it hangs, which it shows, and fail."""
        self.process.send_signal(signal.SIGABRT)
        self.process.wait()
        pytest.fail(f'{what}: {self.said}')

    @property
    def said(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def others(self) -> dict[int, str]:
        """Return the processes beside the demo's own: command line by id."""
        found = {}
        for folder in Path('/proc').glob('[0-9]*'):
            try:
                if self._mark.encode() in (folder / 'environ').read_bytes():
                    found[int(folder.name)] = (folder / 'cmdline').read_text().replace('\0', ' ')
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        found.pop(self.process.pid, None)
        return {pid: command for pid, command in found.items() if command}

    def clean_up(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture
def demo(tmp_path: Path):
    process = DemoProcess(tmp_path)
    yield process
    process.clean_up()


def test_demo_places_the_cube_and_leaves_its_story(demo: DemoProcess) -> None:
    assert demo.code(100) == 0, demo.said
    assert not demo.others()
    latest = demo.out / 'latest'
    (run,) = json.loads((latest / 'result.json').read_text())['runs']
    assert run['success'] is True
    assert run['method'] == 'ik'
    assert run['reason'] == ''
    assert 0.0 < run['placement_error_m'] < 0.002
    assert run['placement_error_rad'] < np.radians(1.0)
    assert 4.0 < run['cycle_time_s'] < 60.0
    assert sum(run[name] for name in SHARES) == pytest.approx(run['cycle_time_s'], abs=5e-3)
    assert '\n'.join(shares_lines(run)) in demo.said
    assert 0.2 < run['max_tcp_speed_m_s'] <= 1.001  # max_speed of the simulated cell
    events = [json.loads(line) for line in (latest / 'events.jsonl').read_text().splitlines()]
    stages = [event['stage'] for event in events if event['event'] == 'stage']
    assert stages[0] == 'check empty'
    assert stages[-1] == 'home'
    (recorded,) = report.read_report(latest).runs
    motion = recorded.motion
    assert motion.t[-1] - motion.t[0] > run['cycle_time_s']
    assert motion.tcp_speed.max() == pytest.approx(run['max_tcp_speed_m_s'], rel=0.01)
    assert motion.tcp_speed.max() <= motion.max_speed + 1e-3
    numeric = np.gradient(motion.q, motion.t, axis=0)
    assert np.abs(numeric - motion.qd).max() < 0.2
    assert np.nanmax(motion.deviation) < 1e-3
    for name, size in (('cell.png', (960, 720)), ('cycle.gif', (640, 480))):
        with Image.open(latest / name) as picture:
            assert picture.size == size
            assert np.asarray(picture.convert('L')).std() > 10.0  # not blank
    assert 'placed' in demo.said
    assert 'cycle.gif' in demo.said
    assert (latest / 'report.html').read_text().count('<img') == 7
    check_recording(latest / 'run.mcap', run)


def check_recording(path: Path, told: dict) -> None:
    """Check that the recording is of this run: figures from its messages, by foreign readers."""
    (run,) = report.read_report(path).runs
    assert run.result == told
    highlevel = pytest.importorskip('rosbags.highlevel')
    part, measured, taught = [], [], {}
    with highlevel.AnyReader([path]) as bag:
        for connection, _, data in bag.messages():
            message = bag.deserialize(data, connection.msgtype)  # every one of every topic
            if connection.topic == '/sim_driver/part_pose':
                p = message.pose.position
                part.append([p.x, p.y, p.z])
            elif connection.topic.endswith('/controller_state'):
                stamp = message.header.stamp
                measured.append([stamp.sec + 1e-9 * stamp.nanosec, *message.feedback.positions])
            elif connection.topic == '/pick_place/event':
                event = json.loads(message.data)
                taught[event['event'], event.get('job')] = event['time']
        topics = {c.topic: c.ext.offered_qos_profiles[0].durability.value for c in bag.connections}
    cycle = taught['done', 'run'] - taught['started', 'run']
    assert cycle == pytest.approx(told['cycle_time_s'], abs=2e-3)
    target = np.array([told['target']['x'], told['target']['y'], PART_SIZE / 2])
    miss = np.linalg.norm(part[-1] - target)
    assert miss == pytest.approx(told['placement_error_m'], abs=2e-6)
    t, *q = np.array(measured).T
    assert np.median(np.diff(t)) == pytest.approx(0.008, abs=1e-6)
    assert np.abs(np.diff(q, axis=1)).max() < 0.1
    for topic in ('/joint_states', '/tf', '/tf_static', '/monitored_planning_scene',
                  '/trajectory_planner/motion_state', '/pick_place/state',
                  '/io_and_status_controller/io_states', '/io_and_status_controller/robot_mode',
                  '/speed_scaling_state_broadcaster/speed_scaling'):  # fmt: skip
        assert topic in topics
    assert topics['/tf_static'] == 1 and topics['/tf'] == 2, 'transient local, and volatile'


@pytest.mark.drill
def test_ctrl_c_ends_everything_within_two_seconds(demo: DemoProcess) -> None:
    demo.wait_for('open gripper')
    nodes = [command for command in demo.others().values() if '--ros-args' in command]
    assert len(nodes) == 4
    begin = time.monotonic()
    demo.process.send_signal(signal.SIGINT)
    code = demo.code(10)
    assert time.monotonic() - begin < pace.wall(2.0)
    assert code == 128 + signal.SIGINT
    assert not demo.others()
    assert not demo.out.exists()
    assert 'Traceback' not in demo.said


def test_a_signal_is_told_whatever_its_exception_became_on_the_way() -> None:
    """As in rclpy's C++."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    try:
        with pytest.raises(Ended, match='SIGTERM'), signals_raised():
            try:
                signal.raise_signal(signal.SIGTERM)
            except Ended as ended:
                raise RuntimeError('something else') from ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.mark.drill
@pytest.mark.parametrize(('how', 'gripper'), [('wall', 'digital'), ('ceiling', 'vacuum')])
def test_an_arm_that_is_mounted_elsewhere_places_the_cube(tmp_path: Path, how, gripper) -> None:
    words = ['--mounting', how, '--gripper', gripper, '--rtf', str(pace.real_time_factor())]
    from ur5_pick_place.demo.command import run

    assert run([*words, '--out', str(tmp_path / 'out')]) == 0
    result = json.loads((tmp_path / 'out/latest/result.json').read_text())
    assert result['mounting'] == how and result['runs'][0]['placement_error_m'] < 0.002


@pytest.mark.drill
def test_a_killed_make_takes_the_demo_along(tmp_path: Path) -> None:
    make = (sys.executable, '-c', 'import subprocess, sys; subprocess.run(sys.argv[1:])')
    demo = DemoProcess(tmp_path, *make, MAKELEVEL='1')
    try:
        demo.wait_for('are ready')
    finally:
        demo.clean_up()
    deadline = time.monotonic() + pace.wall(3.0)
    while demo.others() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not demo.others()
    assert not demo.out.exists()


@pytest.mark.drill
def test_a_node_that_dies_on_the_way_is_named(demo: DemoProcess) -> None:
    demo.wait_for('open gripper')
    (planner,) = [pid for pid, line in demo.others().items() if 'trajectory_planner' in line]
    os.kill(planner, signal.SIGKILL)
    assert demo.code(60) == 1
    assert 'node trajectory_planner was killed by SIGKILL' in demo.said
    (run,) = json.loads((demo.out / 'latest' / 'result.json').read_text())['runs']
    assert run['success'] is False
    assert 'trajectory_planner' in run['reason']
    assert not demo.others()


def test_what_the_first_method_has_left_stays_when_the_next_fails(tmp_path, monkeypatch, capsys):
    from ur5_pick_place.demo import command as demo
    from ur5_pick_place.errors import ExecutionError

    def perform(method, *_):
        if method != 'ik':
            raise ExecutionError('every ROS_DOMAIN_ID is in use')
        return [], {}

    joints = nodding()
    facts = [{'arm': ARM}, {'run': demo_facts('ik', joints)}]
    monkeypatch.setattr(demo, 'record_run', perform)
    monkeypatch.setattr(
        demo, 'write_runs', lambda path, *_: write_recording(path, joints, EVENTS, facts)
    )
    assert demo.run(['--method', 'all', '--out', str(tmp_path / 'out')]) == 1
    latest = tmp_path / 'out/latest'
    assert json.loads((latest / 'result.json').read_text())['runs'][0]['method'] == 'ik'
    lines = (latest / 'events.jsonl').read_text().splitlines()
    assert [json.loads(line)['event'] for line in lines] == [event['event'] for event in EVENTS]
    assert 'every ROS_DOMAIN_ID is in use' in capsys.readouterr().err
