# SPDX-License-Identifier: Apache-2.0
"""The parameters of the task node, among them those of its kind of gripper."""

from dataclasses import dataclass

from rclpy.node import Node

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.robot_status import HealthSettings
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings
from ur5_pick_place.nodes.tf.frames import StampSettings
from ur5_pick_place.planning.limits import MotionSettings
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.cycle.pattern import PatternSettings
from ur5_pick_place.task.grippers.base import Gripper, GripperSettings
from ur5_pick_place.task.grippers.registry import DEFAULT, KINDS, check_parameters, gripper_type
from ur5_pick_place.task.motions import TaskSettings


@dataclass(frozen=True)
class GripperChoice(Settings):
    """The kind of gripper, and how clients command it."""

    gripper: str = setting(
        DEFAULT, f'{", ".join(KINDS)}, or module:Class for another one, see CONTRIBUTING.md'
    )
    gripper_threshold: float = setting(
        0.025,
        'GripperCommand positions up to it close; per jaw, not for gripper: action',
        unit='m',
        low=0.0,
        high=0.2,
    )
    gripper_opening: float = setting(
        0.035, 'GripperCommand position that opens, as above', unit='m', low=0.001, high=0.25
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gripper_threshold < self.gripper_opening:
            raise InvalidInput(
                f'gripper_threshold = {self.gripper_threshold} m: must be less than '
                f'gripper_opening = {self.gripper_opening} m'
            )


@dataclass(frozen=True)
class FileSettings(Settings):
    """Files of this node; one of taught poses per robot, as equal models look the same."""

    poses_file: str = setting('~/.ros/ur5_pick_place/poses.yaml', 'where taught poses are kept')
    cycle_file: str = setting(
        'cycle.yaml', 'the stages; a path, or a bare file name within config/'
    )


@dataclass(frozen=True)
class TaskNodeSettings:
    """All of them; `grip` is of the class that the kind of gripper names."""

    robot: RobotSettings
    motion: MotionSettings
    health: HealthSettings
    task: TaskSettings
    pattern: PatternSettings
    loops: LoopSettings
    choice: GripperChoice
    grip: GripperSettings
    files: FileSettings
    stamps: StampSettings


def chosen_gripper(node: Node) -> type[Gripper]:
    """
    Return the kind of gripper that a node's parameters name, before they are declared.

    Raises `InvalidInput`: there is no such kind, or a parameter of another kind is given.
    """
    given = node._parameter_overrides  # see `parameters._refuse_unknown`
    name = given['gripper'].value if 'gripper' in given else DEFAULT
    kind = gripper_type(name)
    check_parameters(name, given)
    return kind
