# SPDX-License-Identifier: Apache-2.0
"""The parts of the task put together: the only place that builds them."""

from dataclasses import dataclass

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.base import Gripper
from ur5_pick_place.task.machine import Machine, Port
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.places.poses import Provenance, numbers_from_matrix
from ur5_pick_place.task.plan import CyclePlanner
from ur5_pick_place.task.run import CycleRun, Emit


@dataclass(frozen=True)
class StationSettings:
    """What a user can change about the task."""

    motion: MotionSettings
    task: TaskSettings
    pattern: PatternSettings
    loops: LoopSettings
    gripper: Gripper
    cycle: tuple[Stage, ...]
    # mass [kg] and centre of gravity in tool0 [m] of the tool without a part
    payload: tuple[float, tuple[float, float, float]]


class Station:
    """
    One arm with its task; the owner ticks `machine`.

    - `dynamics`: the arm with its tool
    - `emit`: takes an event's name and its data; not called before `machine` is used

    - `planner`: the task's own: what the execution manager's gate sees is not changed through it
    - `provenance`: what poses are taught with from now on

    Raises `InvalidInput`: tool and part together are too heavy for the arm.
    """

    def __init__(
        self,
        settings: StationSettings,
        model: Model,
        scene: Scene,
        dynamics: Dynamics,
        port: Port,
        emit: Emit,
    ) -> None:
        self.port, self.emit = port, emit
        s, most = settings, model.payload
        if s.payload[0] + s.task.part_mass > most:
            raise InvalidInput(
                f'payload_mass = {s.payload[0]:g} kg and part_mass = {s.task.part_mass:g} kg: a '
                f'{model.name} carries {most:g} kg, tool and part together; check both and ur_type'
            )
        self.planner = MotionPlanner(model, s.motion, scene, dynamics)
        self.provenance = Provenance(
            model.name,
            model.calibration,
            numbers_from_matrix(scene.tool.T_tool_tcp),
            s.payload[0],
        )
        self.cycle_planner = CyclePlanner(
            self.planner, s.task, s.cycle, self.provenance, s.pattern, s.loops
        )
        self.gripper = s.gripper
        self.run = CycleRun(self.cycle_planner, self.gripper, s.payload, emit)
        self.machine = Machine(self.run, port)
