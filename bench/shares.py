# SPDX-License-Identifier: Apache-2.0
"""The share of a core that our nodes, recorder and cockpit each take while the arm is idle."""

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
from ur5_pick_place.nodes.recorder.recorded_topics import TopicPoller, recorded_topics
rclpy.init()
poller = TopicPoller(rclpy.create_node('receiver'), recorded_topics('{controller}'))
threading.Event().wait()
"""
_START, _SPAN = 12.0, 20.0  # [s] by the wall clock


def measure() -> list[Row]:
    """Return the shares; nothing else should run on the machine."""
    return [
        *_recorder(),
        *_shares('ur5', {_COCKPIT: 5.0}, 125, beside=_NODES),
        *_shares('ur5e', dict.fromkeys(_NODES, 8.0), 500),
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
        environment = {**os.environ, 'ROS_DOMAIN_ID': str(domain), **discovery('LOCALHOST')}
        with (
            NodeProcesses(specs, domain, Path(folder)) as nodes,
            subprocess.Popen([sys.executable, '-c', script], env=environment) as receiver,
        ):
            time.sleep(_START)
            used = _used({'recorder': nodes.pids['recorder'], 'receiver': receiver.pid})
            receiver.kill()
            nodes.check()
    ours, alone = 100.0 * used['recorder'], 100.0 * used['receiver']
    return [
        Row('recorder at 125 Hz, of a core', ours, '%', goal=2.0),
        Row('recorder at 125 Hz', ours, '%', 'its subscriptions alone', alone, ours / alone, 1.25),
    ]


def _shares(
    ur_type: str, goals: dict[str, float], rate: int, beside: tuple[str, ...] = ()
) -> list[Row]:
    """Return the share of a core [%] of each node in `goals`, the driver being at `rate` [Hz]."""
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
        with NodeProcesses(specs, domain, Path(folder)) as nodes:
            time.sleep(_START)
            log = Path(folder) / f'{_COCKPIT}.log'
            with _viewer(log) if _COCKPIT in goals else contextlib.nullcontext():
                used = _used({name: nodes.pids[name] for name in goals})
            nodes.check()
    return [
        Row(f'{name} at {rate} Hz, of a core', 100.0 * used[name], '%', goal=goal)
        for name, goal in goals.items()
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
