# SPDX-License-Identifier: Apache-2.0
"""The motions of a cycle beside the same moves each alone, and the time of an Adept cycle."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from measure import Row

from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.kinematics.transforms import inverse_transform, make_transform
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.motions import TaskSettings
from ur5_pick_place.task.places.poses import Provenance, TaughtPose, numbers_from_matrix
from ur5_pick_place.task.plan import CyclePlanner

_ADEPT_REACH, _ADEPT_BLEND = 0.6, 0.0249  # [m]

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
        return CyclePlanner(planner, TaskSettings(), stages, origin).plan(poses, HOME).motion_time

    alone = duration(tuple(replace(stage, blend=0.0) for stage in cycle))
    whole = duration(cycle)
    beside = 'its moves, each alone'
    return [
        Row('cycle of motions', whole, 's', beside, alone, whole / alone, 1.0),
        Row('Adept cycle', _adept(planner), 's', goal=1.7),
    ]


def _adept(planner: MotionPlanner) -> float:
    """Return the time [s] for 25 mm up, 300 mm across, 25 mm down, and back, with 1 kg."""
    arm = MotionPlanner(
        planner.model,
        _LIMITS,
        planner.scene,
        Dynamics(planner.model, [Load(1.0, planner.scene.tool.p_tool_tcp)]),
    )
    T_tcp_tool = inverse_transform(planner.scene.tool.T_tool_tcp)

    def corner(x: float, z: float) -> np.ndarray:
        down = np.diag([-1.0, 1.0, -1.0])
        return make_transform(down, [-_ADEPT_REACH, x, z]) @ T_tcp_tool

    one, above_one, above_two, two = (
        corner(x, z) for x, z in ((-0.15, 0.1), (-0.15, 0.125), (0.15, 0.125), (0.15, 0.1))
    )
    q, total = arm.joint_goals(one, HOME, 'left-up-up')[0], 0.0
    for first, second, last in ((above_one, above_two, two), (above_two, above_one, one)):
        across = arm.joint_goals(second, q, 'left-up-up')[0]
        motion = arm.chain(
            q,
            [
                PathSegment(first, blend=_ADEPT_BLEND),
                PathSegment(second, blend=_ADEPT_BLEND, q_goal=across),
                PathSegment(last),
            ],
        )
        q, total = motion.trajectory.q[-1], total + motion.trajectory.duration
    return total
