# SPDX-License-Identifier: Apache-2.0
"""The simulated cell with the real nodes, one process each, over DDS: a `lab.cell.Cell`."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lab.fault_operator import FaultOperator
from ur5_pick_place.config_files import share_directory
from ur5_pick_place.control.robot_status import HealthSettings, io_timeout
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.demo.cycle_layout import transfer
from ur5_pick_place.demo.processes import NodeProcesses, own_domain, working_folder
from ur5_pick_place.demo.spots import Spot, T_tool_grip
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import Model, forward, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, inverse_transform
from ur5_pick_place.nodes.cell.node_list import NodeSpec, node_list
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.report.evaluation import distance
from ur5_pick_place.sim.physics.cell import PART_SIZE
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task.events import DONE, REARMED, STOPPED

_POLL = 0.2  # [s] wall time between the nodes' requests to the dashboard for the program state
_MARGIN = 0.5  # [s] until a stop is reported
_BRAKING = 1.0  # [s] longest time to brake
_CHECK_PERIOD = 0.1  # [s] between two checks whether the arm is at rest
_STILL = 1e-3  # [rad] largest joint motion between two checks of an arm at rest
_UNDER_WAY = 0.25  # [s] for messages in transit to arrive
_RETRY = 0.1  # [s] wall time before a refused request is repeated
# A gripped cube: largest finger gap beyond its size, and largest distance of its centre and the
# TCP [m].
_GRIPPED = (0.002, 0.02)
_ROUND_TRIPS = 10


class NodesCell:
    """
    A `lab.cell.Cell` whose nodes run as processes over DDS, with their parameters.

    `operator` is already prepared; `real_time_factor`: largest ratio of simulated to wall time.
    """

    def __init__(
        self,
        operator: FaultOperator,
        nodes: NodeProcesses,
        model: Model,
        scene: Scene,
        configuration: Configuration,
        real_time_factor: float,
    ) -> None:
        self._operator, self._nodes = operator, nodes
        self._model, self._T_tool_tcp = model, T_tool_grip(scene)
        self._limit = motion_limits(model, configuration.read(MotionSettings)).qd
        silence = io_timeout(configuration.read(HealthSettings))
        self._rtf = real_time_factor
        self.silence_limit = silence * real_time_factor + _MARGIN
        self.reaction_limit = _POLL * real_time_factor + _MARGIN
        self._since = 0  # number of the first event since `reset_measurements`
        self._job_began: int | None = None  # number of its first event
        self._died: float | None = None  # monotonic time when the driver died [s]

    @property
    def time(self) -> float:
        since = 0.0 if self._died is None else time.monotonic() - self._died
        return self._operator.clock + self._rtf * since

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._operator.events[self._since :]

    @property
    def is_busy(self) -> bool:
        if self._job_began is None:
            return False
        since = self._operator.events[self._job_began :]
        return not any(e['event'] in (DONE, STOPPED) for e in since)

    @property
    def stop_reason(self) -> str:
        changes = [e for e in self._operator.events if e['event'] in (STOPPED, REARMED)]
        return changes[-1].get('reason', '') if changes else ''

    @property
    def q(self) -> Array:
        return self._operator.q

    @property
    def T_world_part(self) -> Array:
        return np.asarray(self._operator.T_base_link_parts[-1])

    @property
    def holds_part(self) -> bool:
        gap = OPEN_GAP - self._operator.fingers.sum()
        away = np.linalg.norm((self._T_world_tcp(self.q) - self.T_world_part)[:3, 3])
        return bool(gap < PART_SIZE + _GRIPPED[0] and away < _GRIPPED[1])

    @property
    def commands(self) -> tuple[int, int, int]:
        return self._operator.commands

    @property
    def speed(self) -> float:
        return float((self._operator.peak / self._limit).max())

    def reset_measurements(self) -> None:
        self._since = len(self._operator.events)
        self._operator.peak, self._operator.gripped = np.zeros(6), None

    def placement(self, target: Spot) -> tuple[float, float]:
        assert self._operator.gripped is not None
        q, T_world_part = self._operator.gripped
        T_tcp_part = inverse_transform(self._T_world_tcp(q)) @ T_world_part
        return distance(target.T_base_link_grip @ T_tcp_part, self.T_world_part)

    def _T_world_tcp(self, q: Array) -> Array:
        return np.asarray(T_BASE_LINK_BASE @ forward(self._model, q) @ self._T_tool_tcp)

    def figures(self) -> dict[str, float]:
        """Return the memory of each node, and the mean response time of task node and planner."""
        begin = time.perf_counter()
        for _ in range(_ROUND_TRIPS):
            self._operator.ask_parameters()
        response_time = (time.perf_counter() - begin) / _ROUND_TRIPS
        memory = {f'{name} [MB]': _memory(pid) for name, pid in self._nodes.pids.items()}
        return {**memory, 'response time [ms]': 1e3 * response_time}

    def teach(self, start: Spot, target: Spot) -> None:
        self._operator.lay_out(transfer(start, target))

    def put_part(self, spot: Spot) -> None:
        self._operator.place_cube(spot.T_base_link_part)

    def run(self) -> None:
        self._operator.plan()
        self.start('run')

    def start(self, job: str) -> None:
        self._job_began = len(self._operator.events)
        self._operator.start(job)

    def rearm(self) -> Outcome:
        outcome = Outcome.from_reason(self._operator.refusal('rearm'))
        if not outcome.ok:
            self._pause()
        return outcome

    def inject(self, fault: str) -> None:
        if fault == 'driver_killed':
            self._operator.kill_driver()
            self._died = time.monotonic()
            return
        try:
            self._operator.inject(fault)
        except ExecutionError as error:
            raise InvalidInput(str(error)) from error
        # `time` advances with joint_states: else the stop might seem earlier than the fault.
        self.wait(CYCLE)

    def clear(self, fault: str = '') -> bool:
        if fault:
            return self._is_granted(lambda: self._operator.inject(fault, is_on=False))
        return self._is_granted(self._operator.clear_faults)

    def press(self, button: str) -> bool:
        return self._is_granted(lambda: self._operator.press(button))

    def _is_granted(self, request: Callable[[], None]) -> bool:
        try:
            request()
        except ExecutionError:
            self._pause()
            return False
        return True

    def settle(self) -> None:
        end, q = self.time + _BRAKING, np.full(6, np.inf)
        while np.abs(self.q - q).max() > _STILL and self.time < end:
            q = self.q
            self.wait(_CHECK_PERIOD)
        self.wait(_UNDER_WAY)

    def wait(self, seconds: float) -> None:
        end = self.time + seconds
        self._operator.await_true(lambda: self.time >= end)

    def until(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        end = self.time + limit
        self._operator.await_true(lambda: condition() or self.time >= end)
        if not condition():
            raise ExecutionError(f'timed out after {limit} s waiting for {what}')

    def _pause(self) -> None:
        end = time.monotonic() + _RETRY
        self._operator.await_true(lambda: time.monotonic() > end)


@contextlib.contextmanager
def open_nodes(
    overrides: Mapping[str, Any], real_time_factor: float = 2.0
) -> Iterator[NodesCell]:
    """
    Start the nodes of a cell in their own DDS domain; leaving the context ends them.

    `overrides`: parameters of the task node that differ from `config/`. `real_time_factor`:
    simulated seconds per second.
    """
    config = share_directory() / 'config'
    model = load_model(overrides.get('ur_type', 'ur5'))
    scene = load_scene(config / Configuration(overrides)['scene_file'])
    with (
        working_folder() as folder,
        own_domain() as domain,
        NodeProcesses(
            _nodes(overrides, real_time_factor, config, folder), domain, folder
        ) as nodes,
        FaultOperator(scene, nodes.check) as operator,
    ):
        operator.prepare()
        yield NodesCell(operator, nodes, model, scene, Configuration(overrides), real_time_factor)


def _nodes(
    overrides: Mapping[str, Any], real_time_factor: float, config: Path, folder: Path
) -> tuple[NodeSpec, ...]:
    """Return the nodes of a cell, with a poses file of their own."""
    own = {
        'pick_place': {'poses_file': str(folder / 'poses.yaml'), **overrides},
        'sim_driver': {'real_time_factor': real_time_factor},
    }
    ur_type, gripper = overrides.get('ur_type', 'ur5'), str(overrides.get('gripper', ''))
    return node_list('sim', config, ur_type=ur_type, gripper=gripper, parameters=own)


def _memory(pid: int) -> float:
    """Return the resident memory of a process [MB]."""
    pages = int(Path(f'/proc/{pid}/statm').read_text(encoding='ascii').split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE') / 2**20
