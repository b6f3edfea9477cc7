# SPDX-License-Identifier: Apache-2.0
"""A cell of real nodes for tests, each of which can be killed, frozen and started again."""

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pace
from driver_client import LATCHED
from std_msgs.msg import String
from test_pick_place_node import START, TARGET, TaskClient

from ur5_pick_place.nodes.node_list import node_list
from ur5_pick_place.trials.processes import NodeProcesses

CONFIG = Path(__file__).parents[1] / 'config'


class NodesCell:
    """
    Driver, planner and task node as processes, and a client of them.

    Parameters
    ----------
    domain : int
        ROS_DOMAIN_ID.
    folder : Path
        For logs and taught poses.
    stack : contextlib.ExitStack
        Ends the processes.
    peer_timeout : float
        Of planner and task node [s], on a quick machine.
    real_time_factor : float
        On a quick machine.
    controller : str
        That planner and task node use; empty for the driver's own.

    """

    def __init__(
        self,
        domain: int,
        folder: Path,
        stack: contextlib.ExitStack,
        peer_timeout: float = 0.5,
        real_time_factor: float = 2.0,
        controller: str = '',
    ) -> None:
        own, text = folder / 'own.yaml', f'peer_timeout: {pace.wall(peer_timeout)}'
        own.write_text(
            f'/**/pick_place: {{ros__parameters: {{poses_file: {folder}/poses.yaml, {text}}}}}\n'
            f'/**/trajectory_planner: {{ros__parameters: {{{text}}}}}\n'
        )
        sim = {'real_time_factor': real_time_factor * pace.pace()}
        specs = node_list('sim', CONFIG, params_file=str(own), sim_parameters=sim)
        self._specs = {spec.executable: spec for spec in specs}
        if controller:
            for name in ('trajectory_planner', 'pick_place'):
                spec = self._specs[name]
                changed = {**spec.parameters, 'controller': controller}
                self._specs[name] = dataclasses.replace(spec, parameters=changed)
        self._domain, self._folder, self._stack = domain, folder, stack
        self._running: dict[str, NodeProcesses] = {}
        self.planner = ''
        for name in ('sim_driver', 'trajectory_planner', 'pick_place'):
            self.start(name)
        self.client = TaskClient('')
        self.client.hear(
            String, 'trajectory_planner/motion_state', self._hear_planner, LATCHED
        )
        stack.callback(self.client.close)
        self.client.wait_for_driver()
        self.client.until(lambda: self.client.ask('init_gripper').success, 'the planner')
        self.client.event('done', job='init_gripper')

    def _hear_planner(self, message: String) -> None:
        self.planner = message.data

    def start(self, name: str) -> None:
        """Start a node, again if it was killed."""
        processes = NodeProcesses([self._specs[name]], self._domain, self._folder)
        self._running[name] = self._stack.enter_context(processes)

    def signal(self, name: str, how: signal.Signals) -> None:
        """Send a signal to a node."""
        os.kill(self._running[name].pids[name], how)

    def kill(self, *names: str) -> None:
        """Kill nodes without a chance to clean up."""
        for name in names:
            self.signal(name, signal.SIGKILL)

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Freeze a node for a while."""
        self.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(name, signal.SIGCONT)

    def log(self, name: str) -> str:
        """Return what a node wrote since it was started last."""
        return (self._folder / f'{name}.log').read_text()

    def carry(self) -> None:
        """Run the cycle to the middle of the transfer."""
        client, since = self.client, len(self.client.events)
        client.put_part(START)
        client.do('teach_home')
        client.teach('start', START)
        client.teach('target', TARGET)
        client.do('plan')
        client.do('run')
        client.event('stage', since=since, stage='transfer')

    def comes_to_rest_with_the_part(self) -> None:
        """Check that the arm comes to rest and that the gripper is not told anything."""
        client = self.client
        client.run(0.5)
        self.stays_at_rest(1.5)
        assert client.output(16), 'nothing was sent to the gripper'
        assert client.part_at()[2] > 0.05, 'the part is still in the hand'

    def stays_at_rest(self, seconds: float) -> None:
        """Check that no joint moves for some simulated time [s]."""
        before = self.client.look()
        self.client.run(seconds)
        assert np.abs(self.client.q - before).max() < 1e-3

    def time_to_rest(self, limit: float) -> float:
        """
        Return when the arm came to rest [s on the wall of a quick machine].

        Fails if that takes longer than `limit`.

        """
        begin = last = time.monotonic()
        q = self.client.q
        while time.monotonic() - last < pace.wall(0.3):
            self.client._executor.spin_once(timeout_sec=0.05)
            if np.abs(self.client.q - q).max() > 1e-3:
                q, last = self.client.q, time.monotonic()
            assert last - begin < pace.wall(limit), f'the arm still moves {limit} s later'
        return (last - begin) * pace.pace()

    def rearm(self, wall: float = 20.0) -> None:
        """Rearm as soon as it is granted."""
        self.client.until(lambda: self.client.ask('rearm').success, 'rearm', wall)

    def recover(self) -> None:
        """Rearm, open the gripper and go home."""
        self.rearm()
        self.client.job('open_gripper')
        self.client.job('go_home')


@contextlib.contextmanager
def nodes_cell(domain: int, folder: Path, **options: object) -> Iterator[NodesCell]:
    """Start a cell, and end it."""
    with contextlib.ExitStack() as stack:
        yield NodesCell(domain, folder, stack, **options)
