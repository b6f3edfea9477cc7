# SPDX-License-Identifier: Apache-2.0
"""A client that runs any cycle: places its parts, teaches its places, attends the cell."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from geometry_msgs.msg import PoseArray
from rclpy.client import Client
from std_srvs.srv import Trigger
from ur_msgs.srv import SetIO

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.cycle import Cycle
from ur5_pick_place.trials.cycle_layout import Attendant
from ur5_pick_place.trials.operator import Operator
from ur5_pick_place.trials.record import Record
from ur5_pick_place.trials.spots import Spot

_SETTLING = 0.4  # [s] simulated, until a released part is at rest


class CycleOperator(Operator):
    """
    Operates the cell for a cycle file; leaving the context closes it.

    Parameters
    ----------
    domain, model, scene, watch
        As for `Operator`.
    cycle : Cycle
    cycles : int
        Of the run.

    """

    def __init__(
        self,
        domain: int,
        model: Model,
        scene: Scene,
        watch: Callable[[], None],
        cycle: Cycle,
        cycles: int,
    ) -> None:
        super().__init__(domain, model, scene, watch, self._attend)
        node = self._node
        self._feed_part: Client[Any, Any] = node.create_client(Trigger, 'sim_driver/feed_part')
        self._switch_input: Client[Any, Any] = node.create_client(SetIO, 'sim_driver/switch_input')
        self._parts: list[Array] = []
        node.create_subscription(PoseArray, 'sim_driver/part_poses', self._on_parts, 10)
        self._attendant = Attendant(cycle, self._switch, self._feed, cycles)

    def put_parts(self, spots: Sequence[Spot]) -> None:
        """Place one part at each spot; the last spot is that of the feeder."""
        for client in (self._feed_part, self._switch_input):
            self.wait(client.service_is_ready, 'the services of the simulated cell', 30.0)
        for number, spot in enumerate(spots):
            if number:
                self._feed_and_wait(number + 1)
            self.put_cube(spot)

    def teach_places(self, spots: Mapping[str, Spot]) -> None:
        """Teach the TCP at each spot."""
        for name, spot in spots.items():
            self._teach_pose(name, spot.T_base_link_tcp(self._scene))

    def parts(self, count: int) -> list[Array]:
        """Return where the parts lie, (4, 4) each in `base_link`, in order of feeding."""
        self.wait_simulated(_SETTLING)
        self.wait(lambda: len(self._parts) >= count, f'{count} parts', 10.0)
        return self._parts

    def _feed_and_wait(self, count: int) -> None:
        future = self._feed_part.call_async(Trigger.Request())
        self.wait(future.done, 'sim_driver/feed_part to answer', 10.0)
        reply = future.result()
        if reply is None or not reply.success:
            raise ExecutionError(f'feed_part: {reply and reply.message}')
        self.wait(lambda: len(self._parts) >= count, 'the part to come', 10.0)

    def _feed(self) -> None:
        self._feed_part.call_async(Trigger.Request())

    def _switch(self, pin: int, level: bool) -> None:
        self._switch_input.call_async(SetIO.Request(pin=pin, state=float(level)))

    def _attend(self, _record: Record) -> None:
        self._attendant.react(self.events, self.now)

    def _on_parts(self, message: PoseArray) -> None:
        self._parts = [pose_to_matrix(pose) for pose in message.poses]
