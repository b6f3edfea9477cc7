# SPDX-License-Identifier: Apache-2.0
"""Run a task on a simulated cell as a person does: place the cube, teach, plan, run."""

import time
from collections.abc import Sequence
from typing import Any

from ur5_pick_place.demo.cycle_layout import Attendant
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.demo.simulated_cell import SimulatedCell
from ur5_pick_place.demo.spots import Spot, T_tool_grip
from ur5_pick_place.demo.task import Task
from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.cycle.stages import Stage

_SETTLING = 0.4  # [s] simulated, from the end of the run until the cube is at rest
_SILENCE = 3.0  # [s] on the wall without a message of the simulator
_NO_PROGRESS = 300.0  # [s] simulated, without an event of the run


class CycleRun:
    """
    Tasks on a simulated cell, one after the other.

    `scene`: of the nodes; says where the tool grips a cube. `stages`: those of the cycle that wait
    for an input get it during a run.
    """

    def __init__(
        self,
        cell: SimulatedCell,
        scene: Scene,
        stages: Sequence[Stage] = (),
        progress: ProgressDisplay | None = None,
    ) -> None:
        self.cell, self._scene, self._stages = cell, scene, stages
        self._progress = progress
        self._attendant: Attendant | None = None
        self._reported = 0.0  # simulated time of the last event of the run [s]

    def prepare(self) -> None:
        """
        Wait for the cell, teach the current pose as home, and initialise the gripper.

        Raises `Ur5PickPlaceError`: a service or topic timed out, or a request was refused.
        """
        self.cell.wait_until_ready()
        self.teach('home')
        self.cell.persist(self.cell.init_gripper)

    def teach(self, name: str, spot: Spot | None = None) -> None:
        """Teach a place as the grip of a cube at `spot`, or from the present joints."""
        T = None if spot is None else spot.T_base_link_tcp(self._scene)
        self.cell.persist(lambda: self.cell.teach(name, T=T))

    def run(self, task: Task, method: str = 'ik') -> dict[str, Any]:
        """
        Run one task, from placing the cube until it is at rest again.

        Returns see `asked`; a failure is in it and not raised.
        """
        failure, planning_time = '', None
        try:
            self.lay_out(task)
            begin = time.perf_counter()
            self.cell.plan()
            planning_time = time.perf_counter() - begin
            self._run(task.cycles)
            self.cell.wait_simulated(_SETTLING)
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

    def lay_out(self, task: Task) -> None:
        """Place the cubes of one cycle, teach the places, and displace the cube if required."""
        for number, (pick, _) in enumerate(task.moves):
            if number:
                self.cell.feed_part()
            self.cell.place_cube(task.spots[pick].T_base_link_part)
        for name, spot in task.spots.items():
            self.teach(name, spot)
        if task.displacement and task.start:
            self.cell.place_cube(task.start.moved(task.displacement).T_base_link_part)

    def _run(self, cycles: int) -> None:
        cell = self.cell
        self._attendant = Attendant(self._stages, cell.switch_input, cell.feed_later, cycles)
        self._reported = cell.now
        with cell.watched_by(self._watch):
            cell.run(self._on_event)

    def _on_event(self, event: dict[str, Any]) -> None:
        self._reported = self.cell.now
        assert self._attendant is not None
        self._attendant.take(event, self.cell.now)
        if self._progress:
            self._progress.on_event(event, self.cell)

    def _watch(self) -> None:
        cell = self.cell
        if time.monotonic() > cell.heard + _SILENCE:
            raise ExecutionError(f'the simulator is silent for {_SILENCE:.0f} s')
        if cell.now > self._reported + _NO_PROGRESS:
            raise ExecutionError(
                f'timed out waiting for the run to end: no event for {_NO_PROGRESS:.0f} s'
            )
        assert self._attendant is not None
        self._attendant.react(cell.now)
        if self._progress:
            self._progress.refresh(cell)
