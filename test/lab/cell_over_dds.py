# SPDX-License-Identifier: Apache-2.0
"""The simulated cell with the real nodes, one process each, over DDS: a `lab.cell.Cell`."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTrajectoryControllerState
from rcl_interfaces.srv import GetParameters
from rclpy.qos import qos_profile_sensor_data
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory
from ur_msgs.msg import IOStates

from ur5_pick_place.config_files import share_directory
from ur5_pick_place.control.robot_status import HealthSettings, io_timeout
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.demo.cycle_layout import transfer
from ur5_pick_place.demo.processes import NodeProcesses, own_domain, working_folder
from ur5_pick_place.demo.simulated_cell import SimulatedCell
from ur5_pick_place.demo.spots import Spot, T_tool_grip
from ur5_pick_place.errors import ExecutionError, InvalidInput, InvalidRobotState
from ur5_pick_place.kinematics import JOINT_NAMES, Model, forward, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    inverse_transform,
    pose_distance,
)
from ur5_pick_place.nodes.cell.node_list import NodeSpec, node_list
from ur5_pick_place.nodes.messages.conversions import (
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.planning.limits import MotionSettings, motion_limits
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.faults import FAULTS
from ur5_pick_place.sim.io_controller import TOOL_PINS
from ur5_pick_place.sim.physics.cell import PART_SIZE
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task.events import DONE, GRASP_VERIFIED, REARMED, STOPPED, read_event

_TASK, _NODES = 'pick_place', ('pick_place', 'trajectory_planner')
_JOBS = ('run', 'rearm', 'init_gripper', 'go_home', 'open_gripper')
_BUTTONS = ('unlock_protective_stop', 'brake_release', 'play')
_SEEN = 0.2  # [s] longest gap in io_states across which a switched output is counted
_FRESH = 0.3  # [s] for which the last controller state is valid
_SILENCE = 3.0  # [s] on the wall without a clock
_LOOK = 0.002  # [s] between two looks at a condition
_STAYS = 2e-3  # [rad] from the arm, up to which a streamed point counts as a hold command
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

    `real_time_factor`: largest ratio of simulated to wall time.
    """

    def __init__(
        self,
        client: SimulatedCell,
        nodes: NodeProcesses,
        model: Model,
        scene: Scene,
        configuration: Configuration,
        real_time_factor: float,
    ) -> None:
        self._client, self._link, self._nodes = client, client._link, nodes
        self._model, self._T_tool_tcp = model, T_tool_grip(scene)
        self._limit = motion_limits(model, configuration.read(MotionSettings)).qd
        silence = io_timeout(configuration.read(HealthSettings))
        self._rtf = real_time_factor
        self.silence_limit = silence * real_time_factor + _MARGIN
        self.reaction_limit = _POLL * real_time_factor + _MARGIN
        self._events: list[dict[str, Any]] = []
        self._since = 0  # number of the first event since `reset_measurements`
        self._job_began: int | None = None  # number of its first event
        self._died: float | None = None  # monotonic time when the driver died [s]
        self._clock, self._heard = 0.0, time.monotonic()  # the last one on /clock, and when [s]
        # Joints (6,) [rad] and pose of the cube (4, 4) when it was gripped last.
        self._gripped: tuple[Array, Array] | None = None
        self._peak, self._joints = np.zeros(6), np.full(6, np.nan)
        self._controlled = -math.inf, self._joints
        self._goals: set[bytes] = set()
        self._streamed = self._holds = self._switched = 0
        self._pins, self._pins_received = (False,) * len(TOOL_PINS), -math.inf
        # Early: a request before the discovery is complete may get no reply.
        for kind, folder, names in (
            (Trigger, _TASK, _JOBS),
            (Trigger, 'dashboard_client', _BUTTONS),
            (SetBool, 'sim_driver/faults', FAULTS),
        ):
            for name in names:
                self._link.client(kind, f'{folder}/{name}')
        controller = distro().controller
        status = FollowJointTrajectory.Impl.GoalStatusMessage
        action = f'{controller}/follow_joint_trajectory/_action/status'
        stream, pins = f'{controller}/joint_trajectory', 'io_and_status_controller/io_states'
        state = f'{controller}/controller_state'
        for message, topic, callback, qos in (
            (String, f'{_TASK}/event', self._on_event, 1000),
            (Clock, '/clock', self._on_clock, 10),
            (JointState, 'joint_states', self._on_joints, qos_profile_sensor_data),
            (JointTrajectoryControllerState, state, self._on_state, qos_profile_sensor_data),
            (IOStates, pins, self._on_pins, qos_profile_sensor_data),
            (status, action, self._on_goals, LATCHED),
            (JointTrajectory, stream, self._on_stream, 10),
        ):
            self._link.node.create_subscription(message, topic, callback, qos)

    @property
    def time(self) -> float:
        since = 0.0 if self._died is None else time.monotonic() - self._died
        return self._clock + self._rtf * since

    @property
    def events(self) -> list[dict[str, Any]]:
        return self._events[self._since :]

    @property
    def is_busy(self) -> bool:
        if self._job_began is None:
            return False
        return not any(e['event'] in (DONE, STOPPED) for e in self._events[self._job_began :])

    @property
    def stop_reason(self) -> str:
        changes = [e for e in self._events if e['event'] in (STOPPED, REARMED)]
        return changes[-1].get('reason', '') if changes else ''

    @property
    def q(self) -> Array:
        """
        Actual joints, (6,) [rad].

        Faults of `joint_states` do not affect the controller state, so that is used; while the
        controller is inactive, `joint_states` are.
        """
        t, q = self._controlled
        return q if self._clock - t < _FRESH else self._joints

    @property
    def T_world_part(self) -> Array:
        return np.asarray(self._client.T_base_link_parts[-1])

    @property
    def holds_part(self) -> bool:
        gap = OPEN_GAP - self._client.fingers.sum()
        away = np.linalg.norm((self._T_world_tcp(self.q) - self.T_world_part)[:3, 3])
        return bool(gap < PART_SIZE + _GRIPPED[0] and away < _GRIPPED[1])

    @property
    def commands(self) -> tuple[int, int, int]:
        # Outputs that switch while io_states are silent are not counted: the time is unknown.
        return len(self._goals) + self._streamed, self._holds, self._switched

    @property
    def speed(self) -> float:
        return float((self._peak / self._limit).max())

    def reset_measurements(self) -> None:
        self._since = len(self._events)
        self._peak, self._gripped = np.zeros(6), None

    def placement(self, target: Spot) -> tuple[float, float]:
        assert self._gripped is not None
        q, T_world_part = self._gripped
        T_tcp_part = inverse_transform(self._T_world_tcp(q)) @ T_world_part
        return pose_distance(target.T_base_link_grip @ T_tcp_part, self.T_world_part)

    def _T_world_tcp(self, q: Array) -> Array:
        return np.asarray(T_BASE_LINK_BASE @ forward(self._model, q) @ self._T_tool_tcp)

    def figures(self) -> dict[str, float]:
        """Return the memory of each node, and the mean response time of task node and planner."""
        request = GetParameters.Request(names=['use_sim_time'])  # changes nothing
        begin = time.perf_counter()
        for _ in range(_ROUND_TRIPS):
            for name in _NODES:
                self._link.call(GetParameters, f'{name}/get_parameters', request)
        response_time = (time.perf_counter() - begin) / _ROUND_TRIPS
        memory = {f'{name} [MB]': _memory(pid) for name, pid in self._nodes.pids.items()}
        return {**memory, 'response time [ms]': 1e3 * response_time}

    def teach(self, start: Spot, target: Spot) -> None:
        self._client.lay_out(transfer(start, target))

    def put_part(self, spot: Spot) -> None:
        self._client.place_cube(spot.T_base_link_part)

    def run(self) -> None:
        self._client.plan()
        self.start('run')

    def start(self, job: str) -> None:
        self._job_began = len(self._events)
        if reason := self._refusal(Trigger, f'{_TASK}/{job}'):
            raise ExecutionError(reason)

    def rearm(self) -> Outcome:
        outcome = Outcome.from_reason(self._refusal(Trigger, f'{_TASK}/rearm'))
        if not outcome.ok:
            self._pause()
        return outcome

    def inject(self, fault: str) -> None:
        name = f'sim_driver/faults/{fault}'
        if fault == 'driver_killed':  # whose silence is no error from here on
            self._link.client(SetBool, name).call_async(SetBool.Request(data=True))
            self._link.watch, self._died = lambda: None, time.monotonic()
            return
        if reason := self._refusal(SetBool, name, data=True):
            raise InvalidInput(reason)
        # `time` advances with joint_states: else the stop might seem earlier than the fault.
        self.wait(CYCLE)

    def clear(self, fault: str = '') -> bool:
        if fault:
            return self._is_granted(SetBool, f'sim_driver/faults/{fault}', data=False)
        return self._is_granted(Trigger, 'sim_driver/clear_faults')

    def press(self, button: str) -> bool:
        return self._is_granted(Trigger, f'dashboard_client/{button}')

    def _is_granted(self, kind: Any, name: str, **fields: Any) -> bool:
        try:
            is_granted = not self._refusal(kind, name, **fields)
        except ExecutionError:
            is_granted = False
        if not is_granted:
            self._pause()
        return is_granted

    def _refusal(self, kind: Any, name: str, **fields: Any) -> str:
        """Call a service; return why it refuses, or ''."""
        reply = self._link.call(kind, name, kind.Request(**fields))
        return '' if reply.success else f'{name}: {reply.message}'

    def settle(self) -> None:
        end, q = self.time + _BRAKING, np.full(6, np.inf)
        while np.abs(self.q - q).max() > _STILL and self.time < end:
            q = self.q
            self.wait(_CHECK_PERIOD)
        self.wait(_UNDER_WAY)

    def wait(self, seconds: float) -> None:
        end = self.time + seconds
        self._await(lambda: self.time >= end)

    def until(self, condition: Callable[[], bool], limit: float, what: str) -> None:
        end = self.time + limit
        self._await(lambda: condition() or self.time >= end)
        if not condition():
            raise ExecutionError(f'timed out after {limit} s waiting for {what}')

    def _pause(self) -> None:
        end = time.monotonic() + _RETRY
        self._await(lambda: time.monotonic() > end)

    def _await(self, is_done: Callable[[], bool]) -> None:
        """Wait until a condition holds; errors as `watch`, or if the clock stands still."""
        while not is_done():
            self._link.watch()
            if self._died is None and time.monotonic() > self._heard + _SILENCE:
                raise ExecutionError(f'no clock for {_SILENCE:.0f} s')
            time.sleep(_LOOK)

    def _on_event(self, message: String) -> None:
        if event := read_event(message.data):
            if event['event'] == GRASP_VERIFIED:
                self._gripped = self.q, self.T_world_part
            self._events.append(event)

    def _on_clock(self, message: Clock) -> None:
        self._clock, self._heard = to_seconds(message.clock), time.monotonic()

    def _on_joints(self, message: JointState) -> None:
        with contextlib.suppress(InvalidRobotState):  # a fault
            self._joints = joints_from_state(message, JOINT_NAMES)
            self._peak = np.fmax(self._peak, np.abs(velocities_from_state(message, JOINT_NAMES)))

    def _on_state(self, message: JointTrajectoryControllerState) -> None:
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        q = np.array(message.feedback.positions)[order]
        self._controlled = to_seconds(message.header.stamp), q

    def _on_pins(self, message: IOStates) -> None:
        pins = tuple(bool(message.digital_out_states[pin].state) for pin in TOOL_PINS)
        if self._clock - self._pins_received < _SEEN:
            self._switched += sum(a != b for a, b in zip(self._pins, pins, strict=True))
        self._pins, self._pins_received = pins, self._clock

    def _on_goals(self, message: Any) -> None:
        self._goals |= {bytes(s.goal_info.goal_id.uuid) for s in message.status_list}

    def _on_stream(self, message: JointTrajectory) -> None:
        """Count motion commands and hold commands of the stream."""
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        last = np.array(message.points[-1].positions)[order]
        is_motion = len(message.points) > 1 or np.abs(last - self.q).max() > _STAYS
        self._streamed += int(is_motion)
        self._holds += int(not is_motion)


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
        SimulatedCell(scene, nodes.check) as client,
    ):
        cell = NodesCell(client, nodes, model, scene, Configuration(overrides), real_time_factor)
        client.prepare()
        yield cell


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
