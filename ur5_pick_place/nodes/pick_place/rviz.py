# SPDX-License-Identifier: Apache-2.0
"""What RViz and other viewers show: the scene, the present plan, and the places to drag."""

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from geometry_msgs.msg import PoseStamped, Quaternion
from rclpy.node import Node
from visualization_msgs.msg import (
    InteractiveMarker,
    InteractiveMarkerControl,
    InteractiveMarkerFeedback,
    InteractiveMarkerUpdate,
    Marker,
    MarkerArray,
)
from visualization_msgs.srv import GetInteractiveMarkers

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages import markers
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.messages.markers import place_arrow
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.task.places.poses import TaughtPose
from ur5_pick_place.task.plan import CyclePlan
from ur5_pick_place.task.station import Station

TOPIC = '~/teach_markers'

_QUEUE = 100  # as in interactive_markers
_SCALE = 0.15  # of rings and arrows [m]
_CLICK = 1e-5  # change of any element of its pose (4, 4) below which a marker was only clicked
_WAITING_Y = (-0.2, 0.2)  # [m] between which places that are not taught wait, in front of the arm


class PlanDrawing:
    """Publishes `~/markers`: the scene of the station's planner, and the plan that may be run."""

    def __init__(self, cell: Cell, station: Station) -> None:
        self._frames, self._planner, self._machine = cell.frames, station.planner, station.machine
        self._publisher = cell.node.create_publisher(MarkerArray, '~/markers', LATCHED)
        self._drawn: tuple[CyclePlan | None, list[Marker]] = None, []
        self._lock = threading.Lock()  # else an older scene may follow a newer one

    def show_plan(self, plan: CyclePlan, poses: Mapping[str, TaughtPose]) -> None:
        drawing = self._frames.prefixed(markers.cycle(self._planner, plan, poses))
        self._drawn = plan, drawing.markers
        self.show()

    def remove_outdated(self) -> None:
        """Remove the drawing of a plan that is no longer the present one."""
        plan, _ = self._drawn
        if plan is not None and plan is not self._machine.plan:
            self._drawn = None, []
            self.show()

    def remove_ghosts(self) -> None:
        """Remove the arm's postures of a plan that has been run, and may be run again."""
        plan, drawn = self._drawn
        self._drawn = plan, [marker for marker in drawn if marker.ns != markers.GHOSTS]
        self.show()

    def show(self) -> None:
        """Draw the scene as it is now, and the plan if it is still the present one."""
        with self._lock:
            drawing = self._frames.prefixed(markers.surroundings(self._planner.scene))
            plan, drawn = self._drawn
            if plan is not None and plan is self._machine.plan:
                drawing.markers += drawn
            self._publisher.publish(drawing)


class TeachMarkers:
    """
    Offers the places to RViz to drag; a place is taught when the mouse is released.

    This is the server of the protocol of the package interactive_markers, which RViz's display
    InteractiveMarkers uses: the service returns all markers and the number of the last update,
    each update has the next number, and RViz publishes mouse events on the feedback topic.

    `places`: returns the taught ones, as (4, 4) in `base_link` by name. `teach`: takes the name
    and the pose of a place; calls `show` when it has decided. `names`: the places that can be
    dragged.
    """

    def __init__(
        self,
        node: Node,
        tf_prefix: str,
        places: Callable[[], Mapping[str, Array]],
        teach: Callable[[str, PoseStamped], None],
        names: Sequence[str],
    ) -> None:
        rows = np.linspace(*_WAITING_Y, max(2, len(names)))
        self._waiting = {
            name: np.array([[1.0, 0, 0, 0.4], [0, -1, 0, y], [0, 0, -1, 0.2], [0, 0, 0, 1]])
            for name, y in zip(names, rows, strict=False)
        }
        self._frame, self._places, self._teach = f'{tf_prefix}base_link', places, teach
        self._number = 0
        self._updates = node.create_publisher(InteractiveMarkerUpdate, f'{TOPIC}/update', _QUEUE)
        node.create_subscription(
            InteractiveMarkerFeedback, f'{TOPIC}/feedback', self._on_message, _QUEUE
        )
        node.create_service(GetInteractiveMarkers, f'{TOPIC}/get_interactive_markers', self._give)

    def show(self) -> None:
        """Publish the markers at the present places."""
        self._number += 1
        update = InteractiveMarkerUpdate(type=InteractiveMarkerUpdate.UPDATE)
        update.seq_num, update.markers = self._number, self._markers()
        self._updates.publish(update)

    def _give(
        self, _request: GetInteractiveMarkers.Request, reply: GetInteractiveMarkers.Response
    ) -> GetInteractiveMarkers.Response:
        reply.sequence_number, reply.markers = self._number, self._markers()
        return reply

    def _on_message(self, feedback: InteractiveMarkerFeedback) -> None:
        name = feedback.marker_name
        released = feedback.event_type == InteractiveMarkerFeedback.MOUSE_UP
        if released and name in self._waiting and self._is_moved(feedback):
            self._teach(name, PoseStamped(header=feedback.header, pose=feedback.pose))

    def _is_moved(self, feedback: InteractiveMarkerFeedback) -> bool:
        T_shown = self._shown()[feedback.marker_name]
        try:
            off = np.abs(pose_to_matrix(feedback.pose) - T_shown).max()
        except InvalidInput:
            return True  # `teach` refuses it and reports why
        return bool(off > _CLICK)

    def _shown(self) -> dict[str, Array]:
        known = self._places()
        return {name: known.get(name, T) for name, T in self._waiting.items()}

    def _markers(self) -> list[InteractiveMarker]:
        taught = self._places()
        return [
            self._marker(i, name, T, name if name in taught else f'{name} (not taught)')
            for i, (name, T) in enumerate(self._shown().items())
        ]

    def _marker(
        self, number: int, name: str, T: Array, description: str
    ) -> InteractiveMarker:
        marker = InteractiveMarker(name=name, description=description, scale=_SCALE)
        # Without a stamp RViz keeps it in this frame, and sends feedback in it.
        marker.header.frame_id = self._frame
        marker.pose = matrix_to_pose(T)
        arrow = InteractiveMarkerControl(always_visible=True)
        arrow.markers = [place_arrow(number, np.eye(4))]
        marker.controls = [arrow, *_handles()]
        return marker


def _handles() -> list[InteractiveMarkerControl]:
    """Return an arrow and a ring for each axis of the TCP; RViz draws them itself."""
    half = float(np.sqrt(0.5))
    turns = {'x': (half, 0.0, 0.0), 'y': (0.0, 0.0, half), 'z': (0.0, half, 0.0)}
    modes = {
        'move': InteractiveMarkerControl.MOVE_AXIS,
        'rotate': InteractiveMarkerControl.ROTATE_AXIS,
    }
    return [
        InteractiveMarkerControl(
            name=f'{verb}_{axis}',
            interaction_mode=mode,
            orientation=Quaternion(x=x, y=y, z=z, w=half),
        )
        for axis, (x, y, z) in turns.items()
        for verb, mode in modes.items()
    ]
