# SPDX-License-Identifier: Apache-2.0
"""The parameters of the planner node."""

from dataclasses import dataclass

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.nodes.cell.robot_settings import GroupSettings, RobotSettings
from ur5_pick_place.nodes.tf.frames import StampSettings
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.settings import Settings, setting

_PRESENT = 0.5  # [s]


@dataclass(frozen=True)
class CartesianSettings(Settings):
    """How compute_cartesian_path handles a path that ends early."""

    allow_partial_cartesian: bool = setting(
        False,
        'return the feasible part of a path that cannot be followed to its end, with its fraction '
        'and SUCCESS, as MoveIt does; false: all or nothing',
    )


@dataclass(frozen=True)
class PlannerSettings:
    robot: RobotSettings
    motion: MotionSettings
    health: HealthSettings
    tracking: TrackingSettings
    groups: GroupSettings
    cartesian: CartesianSettings
    loops: LoopSettings
    stamps: StampSettings

    @property
    def present_time(self) -> float:
        """Silence after which the joints count as unknown [s]."""
        return max(_PRESENT, self.health.joint_state_timeout)
