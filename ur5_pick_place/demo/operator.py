# SPDX-License-Identifier: Apache-2.0
"""A client that operates the cell as a person does: place the cube, teach, plan, run, measure."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray
from rclpy.client import Client
from std_srvs.srv import Trigger
from ur_msgs.srv import SetIO

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.demo.cell_client import START_TIME, CellClient
from ur5_pick_place.demo.cycle_layout import Attendant
from ur5_pick_place.demo.record import Record
from ur5_pick_place.demo.spots import Spot, T_tool_grip
from ur5_pick_place.demo.task import Task
from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.report.evaluation import distance
from ur5_pick_place.task import events
from ur5_pick_place.task.stages import Stage

_SETTLING = 0.4  # [s] simulated, from the end of the run until the cube is measured
_FEED_TIME = 10.0  # [s] for the feeder
_INIT_TIME = 20.0  # [s] simulated, for the gripper to be initialised
_IN_PLACE = (1e-3, math.radians(0.5))  # [m], [rad] tolerance of a cube just placed


class Operator(CellClient):
    """
    Runs tasks one after the other; leaving the context closes it.

    Parameters
    ----------
    domain : int
        ROS_DOMAIN_ID of the nodes.
    scene : Scene
        Of the nodes; says where the tool grips a cube.
    watch, show : callable
        See `CellClient`.
    stages : sequence of Stage
        Those of the cycle that wait for an input get it during a run.

    """

    def __init__(
        self,
        domain: int,
        scene: Scene,
        watch: Callable[[], None],
        show: Callable[[Record], None] = lambda _record: None,
        stages: Sequence[Stage] = (),
    ) -> None:
        super().__init__(domain, watch, show)
        self._scene, self._stages = scene, stages
        self._attendant: Attendant | None = None
        node = self._node
        self._feed_part: Client[Any, Any] = node.create_client(Trigger, 'sim_driver/feed_part')
        self._switch_input: Client[Any, Any] = node.create_client(SetIO, 'sim_driver/switch_input')

    def prepare(self) -> None:
        """
        Wait for the cell, teach the current pose as home, and initialise the gripper.

        Raises
        ------
        Ur5PickPlaceError
            A service or topic timed out, or a request was refused.

        """
        self.wait_until_ready()
        self.teach_place('home')
        self.persist(lambda: self.do('init_gripper', _INIT_TIME))

    def wait_until_ready(self) -> None:
        """Wait for services, topics and the planner; raises ExecutionError after a while."""
        for name, client in self.services.items():
            self.wait(client.service_is_ready, f'service pick_place/{name}', START_TIME)
        self.wait(lambda: self.record.is_complete, 'joints, cube and finger states', START_TIME)
        self.wait(
            lambda: parse_motion_state(self.planner_state)[0] is MotionState.READY,
            'the planner to be ready',
            START_TIME,
        )

    def teach_place(self, name: str, spot: Spot | None = None) -> None:
        """Teach a place as the grip of a cube at `spot`, or home from the present joints."""
        if spot is not None:
            return self._teach_pose(name, spot.T_base_link_tcp(self._scene))
        return self.persist(self._teach_home)

    def run_cycle(self, task: Task, method: str = 'ik') -> dict[str, Any]:
        """
        Run one task, from placing the cube until it is at rest again.

        Returns
        -------
        dict
            See `asked`; a failure is in it and not raised.

        """
        failure, planning_time = '', None
        try:
            self.teach(task)
            begin = time.perf_counter()
            self.call('plan')
            planning_time = time.perf_counter() - begin
            self._attendant = Attendant(
                self._stages, self._switch, self._feed, task.cycles, len(self.events)
            )
            self.do('run')
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

    def _teach_home(self) -> None:
        is_taught = self.expect(events.TAUGHT, place='home')
        self.until(lambda: self.call('teach_home'), is_taught, 'home')

    def teach(self, task: Task) -> None:
        """Place the cubes of one cycle, teach the places, and displace the cube if required."""
        for number, (pick, _) in enumerate(task.moves, 1):
            if number > 1:
                self._feed_and_wait(number)
            self.put_cube(task.spots[pick])
        for name, spot in task.spots.items():
            self._teach_pose(name, spot.T_base_link_tcp(self._scene))
        if task.displacement and task.start:
            self.put_cube(task.start.moved(task.displacement))

    def _feed_and_wait(self, count: int) -> None:
        self.wait(self._feed_part.service_is_ready, 'service sim_driver/feed_part', START_TIME)
        future = self._feed_part.call_async(Trigger.Request())
        self.wait(future.done, 'sim_driver/feed_part to answer', _FEED_TIME)
        reply: Any = future.result()
        if not reply.success:
            raise ExecutionError(f'feed_part: {reply.message}')
        self.wait(lambda: len(self.record.parts[-1][1]) >= count, 'the part to come', _FEED_TIME)

    def _feed(self) -> None:
        self._feed_part.call_async(Trigger.Request())

    def _switch(self, pin: int, level: bool) -> None:
        self._switch_input.call_async(SetIO.Request(pin=pin, state=float(level)))

    def _look(self) -> None:
        super()._look()
        if self._attendant:
            self._attendant.react(self.events, self.now)

    def _teach_pose(self, name: str, T: NDArray[Any]) -> None:
        self.until(
            lambda: self.send_pose(f'pick_place/{name}_pose', T),
            self.expect(events.TAUGHT, place=name),
            f'{name} to be taught',
        )

    def put_cube(self, spot: Spot) -> None:
        """Place the cube that was fed last and wait until it is there."""
        def is_there() -> bool:
            miss = distance(spot.T_base_link_part, self.record.parts[-1][1][-1])
            return all(m < allowed for m, allowed in zip(miss, _IN_PLACE, strict=True))

        self.until(
            lambda: self.send_pose('sim_driver/place_part', spot.T_base_link_part),
            is_there,
            f'the cube to be at {spot}',
        )
