# SPDX-License-Identifier: Apache-2.0
"""
The life of a node's process: refused in one line, ended in silence, one server of a name.

A node that learns late of another server ends, and only while it is new.
"""

import gc
import importlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger

from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.nodes.ros import process
from ur5_pick_place.nodes.ros.executor import SerialNode

CONFIG = Path(__file__).parents[3] / 'config'
NAME = 'plan'
MODULES = {
    'TrajectoryPlanner': 'trajectory_planner.node',
    'PickPlace': 'pick_place.node',
    'SimDriver': 'sim.driver',
    'IkService': 'ik_service.node',
}
PARAMETER_SERVICES = ('parameters', 'parameter_types', 'parameters_atomically', 'type_description')
LOADING = """
from ur5_pick_place.nodes.ros.entry_points import sim_driver
print('loading', flush=True)
sim_driver()
"""


class Server:
    """A node with a DDS participant of its own that offers a service."""

    def __init__(self, is_checked, name=NAME):
        self._context = Context()
        rclpy.init(context=self._context)
        self.node = rclpy.create_node('server', context=self._context)
        if is_checked:
            process.refuse_if_served(self.node, [name])
        self.node.create_service(Trigger, name, lambda _request, reply: reply)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def spin_until(self, condition):
        deadline = time.monotonic() + 20.0
        while not condition():
            assert time.monotonic() < deadline
            self._executor.spin_once(timeout_sec=0.1)

    def close(self):
        self._executor.shutdown()
        self.node.destroy_node()
        self._context.try_shutdown()


@pytest.fixture
def serve(ros_domain):
    servers = []

    def start(is_checked, *name):
        servers.append(Server(is_checked, *name))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_a_server_that_is_discovered_late_ends_the_new_node(serve):
    new = serve(is_checked=True)
    serve(is_checked=False)  # discovered only now
    with pytest.raises(Ur5PickPlaceError, match='/plan is already offered by another node'):
        new.spin_until(lambda: False)


@pytest.mark.parametrize(
    ('name', 'served'),
    [
        ('plan', '/ours/plan'),
        ('~/plan', '/ours/plan'),
        ('act/_action/send_goal', '/ours/act/_action/send_goal'),
    ],
)
def test_servers_are_counted_at_the_name_as_remapped(context, monkeypatch, name, served):
    monkeypatch.setattr(process, '_DISCOVERY', 0.3)
    monkeypatch.setattr(process, '_LEASE', 0.0)
    monkeypatch.setattr(process, '_reserve', lambda *_: None)  # it is asked twice
    given = f'/{name}'.replace('~', 'new')
    rules = (f'{name}:={served}', f'act:={served.partition("/_action")[0]}')
    arguments = ['--ros-args', *(word for rule in rules for word in ('-r', rule))]
    other = Node('other', context=context)
    new = Node('new', context=context, cli_args=arguments)
    other.create_service(Trigger, given, lambda _request, reply: reply)
    process.refuse_if_served(new, [name])
    other.create_service(Trigger, served, lambda _request, reply: reply)
    with pytest.raises(Ur5PickPlaceError, match=f'{served} is already offered'):
        process.refuse_if_served(new, [name])


def test_a_server_is_reserved_until_its_context_ends(ros_domain):
    """However late the servers discover each other."""
    contexts = [Context() for _ in range(3)]
    nodes = []
    for context in contexts:
        rclpy.init(context=context)
        nodes.append(Node('new', context=context))
    first, second, third = nodes
    process._reserve(first, NAME)
    with pytest.raises(Ur5PickPlaceError, match='/plan is already offered'):
        process._reserve(second, NAME)
    contexts[0].shutdown()
    process._reserve(third, NAME)
    for context in contexts[1:]:
        context.shutdown()


@pytest.mark.drill
def test_of_two_nodes_started_together_one_stays(serve):
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(serve, True) for _ in range(2)]
    errors = [future.exception() for future in started]
    assert sorted(map(type, errors), key=str) == [type(None), Ur5PickPlaceError]
    assert '/plan is already offered by another node' in str(next(filter(None, errors)))
    (first,) = [future.result() for future in started if not future.exception()]
    for _ in range(30):
        first._executor.spin_once(timeout_sec=0.1)


@pytest.mark.drill
def test_a_node_that_runs_for_long_is_not_ended_by_another(serve, monkeypatch):
    monkeypatch.setattr(process, '_LATE_DISCOVERY', 0)
    old = serve(is_checked=True)
    old.spin_until(lambda: not list(old.node.timers))
    serve(is_checked=False)
    old.spin_until(lambda: old.node.count_services(NAME) == 2)
    for _ in range(15):
        old._executor.spin_once(timeout_sec=0.1)


def served_by(node):
    """Return what a node serves, of an action its goals, without its parameters."""
    own = node.get_name(), node.get_namespace()
    others = '/_action/cancel_goal', '/_action/get_result', *PARAMETER_SERVICES
    found = node.get_service_names_and_types_by_node(*own)
    return {name for name, _ in found if not name.endswith(others)}


@pytest.mark.parametrize('kind', ['digital', 'action'])
@pytest.mark.parametrize('name', ['TrajectoryPlanner', 'PickPlace', 'SimDriver', 'IkService'])
def test_each_service_and_action_of_a_node_is_looked_for_before_it_starts(
    ros_domain, monkeypatch, tmp_path, name, kind
):
    """As the ROS graph has them, so that no list of names is left behind by a new service."""
    module = importlib.import_module(f'ur5_pick_place.nodes.{MODULES[name]}')
    looked_for = []
    monkeypatch.setattr(module, 'refuse_if_served', lambda _node, names: looked_for.extend(names))
    gripper = ['-p', f'gripper:={kind}'] if name in ('PickPlace', 'SimDriver') else []
    file = 'sim_driver.yaml' if name == 'SimDriver' else 'robot_sim.yaml'
    arguments = ['--params-file', str(CONFIG / file), *gripper]
    if name == 'PickPlace':
        arguments += ['-p', f'poses_file:={tmp_path / "poses.yaml"}']
    rclpy.init(args=['--ros-args', *arguments])
    node = getattr(module, name)()
    names = {node.resolve_service_name(s) for s in looked_for}
    created = {node.resolve_service_name(service.srv_name) for service in node.services}
    created = {name for name in created if not name.endswith(PARAMETER_SERVICES)}
    try:
        deadline = time.monotonic() + 10.0
        served = set()
        while not (created <= served and names <= served):
            assert time.monotonic() < deadline, created ^ served
            time.sleep(0.01)
            served = served_by(node)
        # One of the dashboard and of what is for simulations only stands for all of them.
        many = {s for s in served if s.startswith(('/dashboard_client/', '/sim_driver/'))}
        assert served - many == names - many and bool(many & names) == bool(many)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
        # Its context lives in a reference cycle. Until that is collected the graph still has the
        # node, and answers for it when asked about the next node of this name.
        del node
        gc.collect()


@pytest.fixture
def refusal(ros_domain, monkeypatch, capsys):
    """Run a node with ROS arguments that it refuses; return what it says."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = {number: signal.getsignal(number) for number in numbers}
    monkeypatch.setattr(process, '_exit_now', sys.exit)  # else it would end the tests too

    def run(*arguments):
        monkeypatch.setattr(sys, 'argv', ['node', '--ros-args', *arguments])
        with pytest.raises(SystemExit) as end:
            process.run_node(lambda: SerialNode('refused'))
        assert end.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('/**: [', 'Error at line 1'),
        ('/**: {ros__parameters: {a: [0, 0, 0.05]}}', 'line_num 1; in a list with fractions'),
        ('/**: {ros__parameters: {use_sim_time: 3}}', "'use_sim_time' to '3'"),
        ('/**: {ros__parameters: {a: 1, a: 2}}', "'a' is given twice"),
    ],
)
def test_a_malformed_parameter_file_is_refused_in_one_line(refusal, tmp_path, text, message):
    file = tmp_path / 'own.yaml'
    file.write_text(text)
    line = refusal('--params-file', str(file))
    assert line.startswith('refused to start: ') and message in line


@pytest.mark.parametrize(
    ('earlier', 'later'),
    [('0.25', "'0.2'"), ('0.25', '0,2'), ('1', '0.2'), ('true', '1'), ('[0.1]', '[]')],
)
def test_a_parameter_that_ros_would_ignore_for_an_earlier_one_is_refused(
    refusal, tmp_path, earlier, later
):
    file = tmp_path / 'own.yaml'
    file.write_text(f'/**: {{ros__parameters: {{a: {earlier}}}}}')
    line = refusal('--params-file', str(file), '-p', f'a:={later}')
    assert line.startswith('refused to start: -p: a = ')
    assert f'for {earlier} of {file}' in line.replace('True', 'true')


def test_words_that_ros_would_ignore_are_refused(refusal):
    line = refusal('--', 'foo', '-p', 'a:=1')
    assert line == 'refused to start: foo -p a:=1: give what is meant for ROS after --ros-args'


def test_a_parameter_file_that_is_a_pipe_or_not_there_keeps_no_node_waiting(refusal, tmp_path):
    os.mkfifo(tmp_path / 'own.yaml')
    assert 'own.yaml is a pipe' in refusal('--params-file', str(tmp_path / 'own.yaml'))
    assert '/nowhere.yaml' in refusal('--params-file', '/nowhere.yaml')


@pytest.mark.parametrize('delay', [0.1, 0.5])
def test_ctrl_c_ends_a_node_in_silence_while_it_loads(delay):
    node = subprocess.Popen(
        [sys.executable, '-c', LOADING], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert node.stdout.readline() == b'loading\n'
    time.sleep(delay)
    node.send_signal(signal.SIGINT)
    assert node.communicate(timeout=30.0) == (b'', b'')
    assert node.returncode == 0


BUSY = """
import time
from std_srvs.srv import Trigger
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.process import run_node

class Busy(SerialNode):
    def __init__(self):
        super().__init__('busy')
        self.create_service(Trigger, 'plan', self.plan)

    async def plan(self, _request, reply):
        return await self.in_pool(self.compute, reply)

    def compute(self, reply):
        print('planning', flush=True)
        end = time.monotonic() + 20.0
        while time.monotonic() < end:
            pass
        return reply

run_node(Busy)
"""


def closable():
    """Let a process that is to start end with its terminal, even if the tests do not."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    'signals', [[signal.SIGINT], [signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT] * 3]
)
def test_a_node_ends_within_two_seconds_while_it_serves_a_long_request(context, signals):
    node = rclpy.create_node('client', context=context)
    busy = subprocess.Popen(
        [sys.executable, '-c', BUSY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=closable,
    )
    try:
        client = node.create_client(Trigger, 'plan')
        assert client.wait_for_service(20.0)
        client.call_async(Trigger.Request())
        assert busy.stdout.readline() == b'planning\n'
        begin = time.monotonic()
        for number in signals:
            busy.send_signal(number)
            time.sleep(0.05)
        _, errors = busy.communicate(timeout=30.0)
    finally:
        busy.kill()
        node.destroy_node()
    assert (busy.returncode, errors) == (0, b'')
    assert time.monotonic() - begin < 2.0
