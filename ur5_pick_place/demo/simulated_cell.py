# SPDX-License-Identifier: Apache-2.0
"""The client of a simulated cell: what only a simulator can do, and a task as a person does it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseArray, PoseStamped
from rclpy.context import Context
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from ur_msgs.srv import SetIO

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.client.connection import PLANNER
from ur5_pick_place.client.requests import stamped
from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.demo.cycle_layout import Attendant, Task
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.demo.spots import Spot, T_tool_grip
from ur5_pick_place.errors import ExecutionError, TimedOut, Ur5PickPlaceError
from ur5_pick_place.kinematics.transforms import Array, pose_distance
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix, to_seconds
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.cycle.stages import Stage

START_TIME = 30.0  # [s] for the nodes to start
_REPEAT = 0.5  # [s] after which a cube that has not come is placed again
_PLACING = 10.0  # [s] for a cube to be where it was placed, or to come from the feeder
_DISCOVERY = 5.0  # [s] for the nodes to discover each other
_IN_PLACE = (1e-3, math.radians(0.5))  # [m], [rad] tolerance of a cube just placed
_SETTLING = 0.4  # [s] simulated, from the end of the run until the cube is at rest
_SILENCE = 3.0  # [s] on the wall without a message of the simulator
_NO_PROGRESS = 300.0  # [s] simulated, without an event of the run


class SimulatedCell(PickPlaceClient):
    """
    The client of a simulated cell; `watch` as in `PickPlaceClient`.

    `scene`: of the nodes; says where the tool grips a cube.

    `now` is the simulated time [s], `heard` when the simulator published last, by
    `time.monotonic` [s], `fingers` the closing travel of both fingers (2,) [m].
    """

    def __init__(self, scene: Scene, watch: Callable[[], object]) -> None:
        self._scene = scene
        self.now = self.heard = 0.0
        self._parts, self.fingers = PoseArray(), np.zeros(2)
        super().__init__(timeout=START_TIME, watch=watch)
        subscribe = self._link.node.create_subscription
        subscribe(PoseArray, 'sim_driver/part_poses', self._on_parts, 10)
        subscribe(JointState, 'sim_driver/finger_states', self._on_fingers, 10)

    @property
    def T_base_link_parts(self) -> Array:
        """Where the cubes are, (k, 4, 4), in order of feeding."""
        return np.array([pose_to_matrix(pose) for pose in self._parts.poses]).reshape(-1, 4, 4)

    @property
    def context(self) -> Context:
        """Of this client's node."""
        return self._link.node.context

    # -- a task ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """
        Wait for the cell, teach the current pose as home, and initialise the gripper.

        Raises `Ur5PickPlaceError`: a service or topic timed out, or a request was refused.
        """
        self.wait_until_ready()
        self.teach_at('home')
        self.persist(self.init_gripper)

    def teach_at(self, name: str, spot: Spot | None = None) -> None:
        """Teach a place as the grip of a cube at `spot`, or from the present joints."""
        T = None if spot is None else spot.T_base_link_tcp(self._scene)
        self.persist(lambda: self.teach(name, T=T))

    def lay_out(self, task: Task) -> None:
        """Place the cubes of one cycle, teach the places, and displace the cube if required."""
        for number, (pick, _) in enumerate(task.moves):
            if number:
                self.feed_part()
            self.place_cube(task.spots[pick].T_base_link_part)
        for name, spot in task.spots.items():
            self.teach_at(name, spot)
        if task.displacement and task.start:
            self.place_cube(task.start.moved(task.displacement).T_base_link_part)

    def run_task(
        self,
        task: Task,
        method: str = 'ik',
        stages: Sequence[Stage] = (),
        progress: ProgressDisplay | None = None,
    ) -> dict[str, Any]:
        """
        Run one task, from placing the cube until it is at rest again.

        `stages`: those that wait for an input get it.

        Returns see `asked`; a failure is in it and not raised.
        """
        failure, planning_time = '', None
        try:
            self.lay_out(task)
            begin = time.perf_counter()
            self.plan()
            planning_time = time.perf_counter() - begin
            attendant = Attendant(stages, self.switch_input, self.feed_later, task.cycles)
            self._run_attended(attendant, progress)
            self.wait_simulated(_SETTLING)
        except Ur5PickPlaceError as error:
            failure = str(error)
        return self.asked(task, method, failure, planning_time)

    def asked(
        self, task: Task, method: str, failure: str, planning_time: float | None = None
    ) -> dict[str, Any]:
        """Return what `report.evaluation.evaluate` needs to know of a run, but the limits."""
        return {
            'method': method,
            'failure': failure,
            'planning_time_s': planning_time,
            'T_tool_grip': T_tool_grip(self._scene).tolist(),
            **task.facts(),
        }

    def _run_attended(self, attendant: Attendant, progress: ProgressDisplay | None) -> None:
        watch, reported = self._link.watch, self.now

        def on_event(event: Mapping[str, Any]) -> None:
            nonlocal reported
            reported = self.now
            attendant.take(event, self.now)
            if progress:
                progress.on_event(event, self._moving)

        def look() -> None:
            watch()
            if time.monotonic() > self.heard + _SILENCE:
                raise ExecutionError(f'the simulator is silent for {_SILENCE:.0f} s')
            if self.now > reported + _NO_PROGRESS:
                raise ExecutionError(
                    f'timed out waiting for the run to end: no event for {_NO_PROGRESS:.0f} s'
                )
            attendant.react(self.now)
            if progress:
                progress.refresh(self._moving)

        self._link.watch = look
        try:
            self.run(on_event)
        finally:
            self._link.watch = watch

    def _moving(self) -> tuple[float, Array, Array]:
        return *self.stamped_joints, self.fingers

    # -- its steps -------------------------------------------------------------------------------

    def wait_until_ready(self) -> None:
        """Wait until simulator and planner are ready."""
        states = self._link.received.states
        self._link.wait(lambda: self.heard, 'the simulator')
        self._link.wait(
            lambda: parse_motion_state(states[PLANNER])[0] is MotionState.READY,
            'the planner to be ready',
        )

    def persist(self, action: Callable[[], object]) -> None:
        """Retry an action for 5 s: it is refused until all nodes have discovered each other."""
        deadline = time.monotonic() + _DISCOVERY
        while True:
            try:
                action()
                return
            except Ur5PickPlaceError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def wait_simulated(self, seconds: float) -> None:
        """Let simulated time pass [s]; there is no limit on the wall clock."""
        end = self.now + seconds
        self._link.wait(lambda: self.now >= end, 'simulated time to pass', math.inf)

    def place_cube(self, T_base_link_part: Array) -> None:
        """Place the cube that was fed last, and wait until it is there."""
        publisher = self._link.publisher(PoseStamped, 'sim_driver/place_part', START_TIME)

        def is_there() -> bool:
            parts = self.T_base_link_parts
            miss = pose_distance(T_base_link_part, parts[-1]) if len(parts) else (math.inf, 0.0)
            return all(m < allowed for m, allowed in zip(miss, _IN_PLACE, strict=True))

        deadline = time.monotonic() + _PLACING
        while not is_there():
            publisher.publish(stamped(T_base_link_part, 'base_link'))
            try:
                self._link.wait(is_there, 'the cube to be placed', _REPEAT)
            except TimedOut:
                if time.monotonic() > deadline:
                    raise

    def feed_part(self) -> None:
        """Have the feeder bring the next cube, and wait for it."""
        count = len(self.T_base_link_parts)
        reply = self._link.call(Trigger, 'sim_driver/feed_part', Trigger.Request())
        if not reply.success:
            raise ExecutionError(f'sim_driver/feed_part: {reply.message}')
        self._link.wait(
            lambda: len(self.T_base_link_parts) > count, 'the part to come', _PLACING
        )

    def feed_later(self) -> None:
        """Have the feeder bring the next cube; does not wait."""
        self._link.client(Trigger, 'sim_driver/feed_part').call_async(Trigger.Request())

    def switch_input(self, pin: int, level: bool) -> None:
        """Switch an input of the robot; does not wait."""
        request = SetIO.Request(pin=pin, state=float(level))
        self._link.client(SetIO, 'sim_driver/switch_input').call_async(request)

    def _on_parts(self, message: PoseArray) -> None:
        self._parts, self.heard = message, time.monotonic()
        self.now = to_seconds(message.header.stamp)

    def _on_fingers(self, message: JointState) -> None:
        self.fingers = np.array(message.position)
