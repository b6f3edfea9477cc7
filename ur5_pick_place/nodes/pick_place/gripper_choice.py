# SPDX-License-Identifier: Apache-2.0
"""Which gripper a node has: the parameter `gripper`, and the parameters of that kind."""

from dataclasses import dataclass

from rclpy.node import Node

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.grippers.base import Gripper
from ur5_pick_place.task.grippers.registry import (
    DEFAULT,
    KINDS,
    check_parameters,
    gripper_type,
)


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


def chosen_gripper(node: Node) -> type[Gripper]:
    """
    Return the kind of gripper that a node's parameters name, before they are declared.

    Raises
    ------
    InvalidInput
        There is no such kind, or a parameter of another kind is given.

    """
    given = node._parameter_overrides  # see `parameters._refuse_unknown`
    name = given['gripper'].value if 'gripper' in given else DEFAULT
    kind = gripper_type(name)
    check_parameters(name, given)
    return kind
