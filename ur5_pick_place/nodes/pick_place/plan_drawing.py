# SPDX-License-Identifier: Apache-2.0
"""What the task node draws for RViz and other viewers: the scene, and the present plan."""

import threading
from collections.abc import Mapping

from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages import markers
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.task.places.poses import TaughtPose
from ur5_pick_place.task.plan import CyclePlan
from ur5_pick_place.task.station import Station


class PlanDrawing:
    """Publishes `~/markers`: the scene of the station's planner, and the plan that may be run."""

    def __init__(self, cell: Cell, station: Station) -> None:
        self._frames, self._planner, self._machine = cell.frames, station.planner, station.machine
        self._publisher = cell.node.create_publisher(MarkerArray, '~/markers', LATCHED)
        self._drawn: tuple[CyclePlan | None, list[Marker]] = None, []
        self._lock = threading.Lock()  # else an older scene may follow a newer one

    def show_plan(self, plan: CyclePlan, poses: Mapping[str, TaughtPose]) -> None:
        """Draw a plan from `poses`, and the scene."""
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
