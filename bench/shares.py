# SPDX-License-Identifier: Apache-2.0
"""Processor time of nodes, recorder and cockpit while the arm is idle, beside simpler nodes."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import viser
from measure import Row
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from ur5_pick_place.demo.processes import NodeProcesses, own_domain
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.nodes.ros.distro import discovery, distro

CONFIG = Path(__file__).resolve().parents[1] / 'config'
_DRIVER, _NODES = 'sim_driver', ('ik_service', 'trajectory_planner', 'pick_place')
_COCKPIT, _ADDRESS = 'cockpit', re.compile(r'cockpit: http://(\S+?)/\?(token=\S+)')
# Receives what a recorder receives, and reads none of it: what middleware and system take alone.
_RECEIVER = """
import threading
import rclpy
from ur5_pick_place.nodes.recorder.recorded_topics import recorded_topics, subscribe_all
from ur5_pick_place.nodes.ros.executor import SerialNode
rclpy.init()
node = SerialNode('receiver')
subscribe_all(node, recorded_topics('{controller}'), lambda *_row: None, 1.0)
threading.Event().wait()
"""
# An rclpy node that does nothing but receive the joints.
_LISTENER = """
import rclpy
from sensor_msgs.msg import JointState
rclpy.init()
node = rclpy.create_node('listener')
node.create_subscription(JointState, 'joint_states', lambda message: None, 10)
rclpy.spin(node)
"""
_START, _SPAN = 12.0, 20.0  # [s] by the wall clock


def measure() -> list[Row]:
    """Return the shares; nothing else should run on the machine."""
    return [
        *_recorder(),
        *_shares('ur5', {_COCKPIT: 0.73}, 125, beside=_NODES),
        *_shares('ur5e', dict(zip(_NODES, (0.36, 0.65, 0.6), strict=True)), 500),
    ]


def _recorder() -> list[Row]:
    """Return the recorder's share [%], and its ratio to that of the same subscriptions alone."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        own = {'recorder': {'records_folder': folder}}
        specs = [
            spec
            for spec in node_list('sim', CONFIG, record=True, parameters=own)
            if spec.executable in ('recorder', _DRIVER)
        ]
        script = _RECEIVER.format(controller=distro().controller)
        with NodeProcesses(specs, domain, Path(folder)) as nodes, _alone(script, domain) as alone:
            time.sleep(_START)
            used = _used({'recorder': nodes.pids['recorder'], 'alone': alone})
            nodes.check()
    ours, theirs = 100.0 * used['recorder'], 100.0 * used['alone']
    return [
        Row(
            'recorder at 125 Hz',
            ours,
            '%',
            'its subscriptions alone',
            theirs,
            ours / theirs,
            goal=1.25,
        )
    ]


@contextlib.contextmanager
def _alone(script: str, domain: int) -> Iterator[int]:
    """Run a script beside the nodes; gives its process."""
    environment = {**os.environ, 'ROS_DOMAIN_ID': str(domain), **discovery('LOCALHOST')}
    with subprocess.Popen([sys.executable, '-c', script], env=environment) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _shares(
    ur_type: str, goals: dict[str, float], rate: int, beside: tuple[str, ...] = ()
) -> list[Row]:
    """Return the share of a core [%] of each node, beside that of an rclpy node which listens."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        own = {'pick_place': {'poses_file': f'{folder}/poses.yaml'}}
        nodes_of_cell = node_list(
            'sim', CONFIG, ur_type=ur_type, cockpit={'port': 0}, parameters=own
        )
        specs = [
            spec
            for spec in nodes_of_cell
            if spec.executable in (*goals, *beside, _DRIVER)
        ]
        with NodeProcesses(specs, domain, Path(folder)) as nodes, _alone(_LISTENER, domain) as pid:
            time.sleep(_START)
            log = Path(folder) / f'{_COCKPIT}.log'
            with _viewer(log) if _COCKPIT in goals else contextlib.nullcontext():
                used = _used({**{name: nodes.pids[name] for name in goals}, 'alone': pid})
            nodes.check()
    alone = 100.0 * used.pop('alone')
    return [
        Row(
            f'{name} at {rate} Hz',
            100.0 * share,
            '%',
            'a node that listens',
            alone,
            100.0 * share / alone,
            goals[name],
        )
        for name, share in used.items()
    ]


def _used(pids: dict[str, int]) -> dict[str, float]:
    """Return the share of a core of each process over `_SPAN`."""
    before, begin = {name: _processor_time(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(_SPAN)
    span = time.monotonic() - begin
    return {name: (_processor_time(pid) - before[name]) / span for name, pid in pids.items()}


@contextlib.contextmanager
def _viewer(log: Path) -> Iterator[None]:
    """Let one viewer receive all that the cockpit sends, but draw nothing."""
    found = _ADDRESS.search(log.read_text(encoding='utf-8'))
    assert found, 'the cockpit has not printed its address'
    with connect(
        f'ws://{found[1]}/?{found[2]}',
        origin=f'http://{found[1]}',
        subprotocols=[f'viser-v{viser.__version__}'],
        max_size=None,
        proxy=None,
    ) as socket:
        sizes: list[int] = []
        reader = threading.Thread(target=_receive, args=(socket, sizes), daemon=True)
        reader.start()
        yield
        assert reader.is_alive() and sum(sizes) > 10_000, 'the cockpit has not sent the page'


def _receive(socket: ClientConnection, sizes: list[int]) -> None:
    with contextlib.suppress(ConnectionClosed):
        for message in socket:
            sizes.append(len(message))


def _processor_time(pid: int) -> float:
    """Return the processor time of a process [s]."""
    fields = Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
