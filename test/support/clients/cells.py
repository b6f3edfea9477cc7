# SPDX-License-Identifier: Apache-2.0
"""Simulated cells of real nodes for tests, each a process of its own."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pace
from driver_client import LATCHED, DriverClient, goal, rest
from moveit_msgs.action import ExecuteTrajectory
from rclpy.action import ActionClient
from std_msgs.msg import String
from task_client import START, TaskClient

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.nodes.cell.node_list import NodeSpec, node_list

CONFIG = Path(__file__).parents[3] / 'config'
TURNED = HOME + [1.0, 0, 0, 0, 0, 0]
Client = TypeVar('Client', bound=DriverClient)


def sim_nodes(
    folder: Path,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    quick: float = 2.0,
    without: Sequence[str] = (),
    namespace: str = '',
    controller: str = '',
) -> list[NodeSpec]:
    """
    Return the nodes of a simulated cell, as a user starts them with a file of his own in `folder`.

    `own`: what else that file says, by node as ROS names them. `quick`: simulated seconds per
    second on a quick machine. `without`: executables that are not needed.
    """
    said = {name: dict(parameters) for name, parameters in (own or {}).items()}
    said.setdefault('/**/pick_place', {})['poses_file'] = str(folder / 'poses.yaml')
    file = folder / 'own.yaml'
    file.write_text(json.dumps({name: {'ros__parameters': p} for name, p in said.items()}))
    specs = node_list(
        'sim',
        CONFIG,
        namespace=namespace,
        controller=controller,
        params_file=str(file),
        parameters={'sim_driver': pace.sim(quick)},
    )
    return [spec for spec in specs if spec.executable not in without]


@contextlib.contextmanager
def running_cell(
    client_type: type[Client], domain: int, folder: Path, namespace: str = '', **options: Any
) -> Iterator[Client]:
    """Start a cell of `sim_nodes`; gives a client once it is ready, with its `processes`."""
    specs = sim_nodes(folder, namespace=namespace, **options)
    with (
        NodeProcesses(specs, domain, folder) as processes,
        contextlib.closing(client_type(namespace)) as client,
    ):
        client.processes = processes
        client.wait_until_ready()
        yield client


class KillableCell:
    """
    Driver, planner and task node, each to be killed, frozen and started again, and a client.

    `stack`: ends the processes. `peer_timeout` [s] of planner and task node, on a quick machine;
    a shared one may stall either for more than a second. `max_speed` [m/s] of TCP and elbow.
    """

    def __init__(
        self,
        domain: int,
        folder: Path,
        stack: contextlib.ExitStack,
        peer_timeout: float = 3.0,
        quick: float = 2.0,
        max_speed: float = 1.0,
    ) -> None:
        common = {'peer_timeout': min(10.0, pace.wall(peer_timeout)), 'max_speed': max_speed}
        own = {'/**/pick_place': dict(common), '/**/trajectory_planner': common}
        self.specs = {spec.executable: spec for spec in sim_nodes(folder, own, quick)}
        self._domain, self._folder, self._stack = domain, folder, stack
        self._running: dict[str, NodeProcesses] = {}
        self.planner = ''
        for name in ('sim_driver', 'trajectory_planner', 'pick_place'):
            self.start(name)
        self.client = TaskClient()
        self.client.hear(
            String, 'trajectory_planner/motion_state', self._hear_planner, LATCHED
        )
        stack.callback(self.client.close)
        self.client.wait_until_ready()

    def _hear_planner(self, message: String) -> None:
        self.planner = message.data

    def start(self, name: str) -> None:
        """Start a node, again if it was killed."""
        processes = NodeProcesses([self.specs[name]], self._domain, self._folder)
        self._running[name] = self._stack.enter_context(processes)

    def signal(self, name: str, how: signal.Signals) -> None:
        """Send a signal to a node."""
        os.kill(self._running[name].pids[name], how)

    def ended(self, name: str) -> int:
        """Wait for a node to end; return its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self._running[name].pids[name], 0)[1])

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

    def carry(self) -> None:
        """Run the cycle to the middle of the transfer."""
        client, since = self.client, len(self.client.events)
        client.put_part(START)
        client.teach_places()
        client.do('plan')
        client.do('run')
        client.event('stage', since=since, stage='transfer')

    def comes_to_rest_with_the_part(self) -> None:
        """Check that the arm comes to rest and that the gripper is not told anything."""
        client = self.client
        client.run(0.5)
        self.stays_at_rest(1.5)
        assert client.has_part_in_hand(), 'and nothing was sent to the gripper'

    def stays_at_rest(self, seconds: float) -> None:
        """Check that no joint moves for some simulated time [s]."""
        before = self.client.look()
        self.client.run(seconds)
        assert np.abs(self.client.q - before).max() < 1e-3

    def time_to_rest(self, limit: float) -> float:
        """Return when the arm came to rest [s on the wall of a quick machine], within `limit`."""
        begin = last = time.monotonic()
        q, seen = self.client.q, self.client.time
        # An arm whose joints are not heard for a moment is not at rest.
        while time.monotonic() - last < pace.wall(0.3) or self.client.time - seen < 0.1:
            self.client.spin_once(0.05)
            if np.abs(self.client.q - q).max() > 1e-3:
                q, last, seen = self.client.q, time.monotonic(), self.client.time
            assert time.monotonic() - last < pace.wall(10.0), 'no joints are heard'
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
def killable_cell(domain: int, folder: Path, **options: float) -> Iterator[KillableCell]:
    """Start a cell, and end it."""
    with contextlib.ExitStack() as stack:
        yield KillableCell(domain, folder, stack, **options)


def execute(cell: KillableCell, q: np.ndarray = TURNED, seconds: float = 8.0) -> ActionClient:
    """Let another client move the arm through the planner; returns once the arm moves."""
    client = cell.client
    action = ActionClient(client.node, ExecuteTrajectory, 'execute_trajectory')
    client.until(action.server_is_ready, 'execute_trajectory')
    request = ExecuteTrajectory.Goal()
    points = goal(rest(client.look(), 0.0), rest(q, seconds))
    request.trajectory.joint_trajectory = points.trajectory
    client.wait(action.send_goal_async(request), 'the motion to be taken')
    client.until(lambda: np.abs(client.qd).max() > 0.05, 'the arm to move')
    return action
