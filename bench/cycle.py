# SPDX-License-Identifier: Apache-2.0
"""The motions of a cycle without stops, beside the same moves each timed alone, rest to rest."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from measure import Row

from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.task.cycle import load_cycle
from ur5_pick_place.task.motions import CycleMotions, TaskSettings
from ur5_pick_place.task.poses import Provenance, TaughtPose, numbers_from_matrix

CONFIG = Path(__file__).resolve().parents[1] / 'config'
_LIMITS = MotionSettings(
    max_acceleration=10.0,
    max_jerk=100.0,
    max_speed=1.0,
    velocity_scaling=1.0,
    acceleration_scaling=1.0,
)


def measure() -> list[Row]:
    """Plan the cycle of config/cycle.yaml in the simulated cell both ways."""
    model, scene = load_model('ur5'), load_scene(CONFIG / 'scene_sim.yaml')
    planner, cycle = MotionPlanner(model, _LIMITS, scene), load_cycle(CONFIG / 'cycle.yaml')
    origin = Provenance('ur5', '', numbers_from_matrix(scene.tool.T_tool_tcp), 0.0)

    def place(T: np.ndarray, joints: tuple[float, ...] = ()) -> TaughtPose:
        return TaughtPose(numbers_from_matrix(T), origin, '', joints)

    down = np.diag([-1.0, 1.0, -1.0])
    poses = {
        'home': place(forward(model, HOME) @ scene.tool.T_tool_tcp, tuple(HOME.tolist())),
        'start': place(make_transform(down, [-0.45, 0.2, 0.0225])),
        'target': place(make_transform(down, [-0.35, -0.25, 0.0225])),
    }

    def duration(stages: tuple) -> float:
        motions = CycleMotions(planner, TaskSettings(), stages, poses, 'left-up-up', HOME)
        return sum(s.motion.trajectory.duration for s in motions.plan() if s.motion)

    alone = duration(tuple(replace(stage, blend=0.0) for stage in cycle))
    whole = duration(cycle)
    beside = 'its moves, each alone'
    return [Row('cycle of motions', whole, 's', beside, alone, whole / alone, 1.0)]
