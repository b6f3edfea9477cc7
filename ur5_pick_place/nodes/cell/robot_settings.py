# SPDX-License-Identifier: Apache-2.0
"""The arm and its surroundings, from parameters that all nodes share."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rclpy.node import Node

from ur5_pick_place.config_files import share_directory, user_path
from ur5_pick_place.errors import InvalidInput, UnknownGroup
from ur5_pick_place.kinematics import JOINT_NAMES, UR_TYPES, Model, load_model
from ur5_pick_place.kinematics.mounting import Mounting
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.scene import Scene, Tool
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.settings import Settings, check_ros_name, setting

_GROUP = 'ur_manipulator'  # of the driver's MoveIt configuration


@dataclass(frozen=True)
class RobotSettings(Settings):
    """The robot, its tool and its surroundings."""

    ur_type: str = setting('ur5', 'robot type', choices=UR_TYPES)
    kinematics_params_file: str = setting(
        '', "calibration file of the driver; empty = the type's nominal kinematics"
    )
    tf_prefix: str = setting('', 'prefix of joints and frames, as given to the driver')
    controller: str = setting(
        'scaled_joint_trajectory_controller', 'joint trajectory controller that moves the arm'
    )
    scene_file: str = setting(
        '', 'table height, TCP, tool, boxes; a path, or a bare file name within config/'
    )
    mounting: str = setting(
        'floor',
        'how the base is mounted: floor, wall (z of base_link level, x down), ceiling, or its '
        'roll and pitch about level axes [deg], such as "0 30"',
    )
    payload_mass: float | None = setting(
        None, 'mass of the tool, without a part', unit='kg', low=0.0, high=35.0, kind=float
    )
    rated_payload: float | None = setting(
        None,
        'largest mass that the arm carries, tool and part, where its label differs from the '
        "type's: a ur10e has 10 or 12.5",
        unit='kg',
        low=0.0,
        high=35.0,
        kind=float,
    )
    limits_confirmed: bool = setting(
        False,
        "joint speeds and torques, where UR publishes none of the type, agree with the robot's "
        'manual, or max_velocity was lowered to it',
    )
    payload_centre: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        'centre of gravity of the tool in tool0',
        unit='m',
        low=-1.0,
        high=1.0,
        length=3,
    )
    tool_voltage: int | None = setting(
        None,
        'supply voltage of the tool: 0, 12 or 24; 24 V can destroy a 12 V gripper',
        unit='V',
        low=0,
        high=24,
        kind=int,
    )

    is_simulated: bool = setting(
        False,
        "the parameters are those of the simulated cell: no motion while a robot's driver runs",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tool_voltage not in (None, 0, 12, 24):
            raise InvalidInput(f'tool_voltage = {self.tool_voltage} V: must be 0, 12 or 24 V')
        check_ros_name('controller', self.controller)
        Mounting.read(self.mounting)


@dataclass(frozen=True)
class GroupSettings(Settings):
    """Names that MoveIt clients use for this arm."""

    groups: tuple[str, ...] = setting(
        ('ur_manipulator', 'arm'),
        f'planning groups that mean this arm; empty and {_GROUP} always do',
    )

    def check_group(self, group: str) -> None:
        """Refuse a group that does not mean this arm."""
        known = dict.fromkeys((_GROUP, *self.groups))
        if group and group not in known:
            raise UnknownGroup(f'group {group!r} is unknown: use {", ".join(known)} or none')


@dataclass(frozen=True)
class RobotSetup:
    """The arm, its joint names and its scene."""

    model: Model
    joint_names: tuple[str, ...]  # with the prefix, in controller order
    scene: Scene  # without a scene file: only a floor far below and no tool
    T_tool_tcp: Array | None  # (4, 4) none without a scene file
    unset_parameters: str  # parameters that must be set before the arm may move; empty if none


def load_arm(ur_type: str, kinematics_params_file: str) -> Model:
    """
    Return the model of an arm, calibrated if a file is given.

    Raises `InvalidInput`: the file is missing, malformed, or of another type.
    """
    if not kinematics_params_file:
        return load_model(ur_type)
    model, nominal = load_model(Path(kinematics_params_file)), load_model(ur_type)
    if load_model(model.name).lengths == nominal.lengths:  # a ur7e has those of a ur5e
        model = replace(nominal, mounts=model.mounts, calibration=model.calibration)
    if model.name != ur_type:
        raise InvalidInput(
            f'kinematics_params_file = {kinematics_params_file!r} belongs to a {model.name}, but '
            f'ur_type = {ur_type}: add ur_type:={model.name}, or give the file of this robot'
        )
    return model


def load_cell(settings: RobotSettings) -> RobotSetup:
    """
    Return the arm and its scene, loaded as the parameters specify.

    Raises `InvalidInput`: a file is missing, malformed or another robot's, or the tool is too
    heavy for the arm.
    """
    model = load_arm(settings.ur_type, settings.kinematics_params_file)
    if settings.rated_payload is not None:
        model = replace(model, payload=settings.rated_payload)
    if settings.payload_mass is not None and settings.payload_mass > model.payload:
        raise InvalidInput(
            f'payload_mass = {settings.payload_mass} kg: a {model.name} carries '
            f'{model.payload:g} kg; check ur_type, payload_mass and rated_payload'
        )
    unset = []
    if not settings.scene_file:
        unset.append('scene_file (table height and TCP)')
    if settings.payload_mass is None:
        unset.append('payload_mass')
    if settings.tool_voltage is None:
        unset.append('tool_voltage')
    if model.assumed and not (settings.is_simulated or settings.limits_confirmed):
        unset.append(
            f'limits_confirmed ({model.assumed} of the {model.name} are assumed: compare them '
            "with your robot's manual, lower max_velocity if they are lower there, then set it)"
        )
    scene = (
        load_scene(config_file(settings.scene_file))
        if settings.scene_file
        else Scene(table_height=-2.0, tool=Tool(np.eye(4)))
    )
    scene = replace(scene, mounting=Mounting.read(settings.mounting))
    return RobotSetup(
        model=model,
        joint_names=tuple(settings.tf_prefix + name for name in JOINT_NAMES),
        scene=scene,
        T_tool_tcp=scene.tool.T_tool_tcp if settings.scene_file else None,
        unset_parameters=f'not given: {", ".join(unset)}; set the parameters' if unset else '',
    )


def warn_of_gaps(node: Node, model: Model, unset_parameters: str, **checks: bool) -> None:
    """Log a warning for what is assumed, parameters that must be set, and checks that are off."""
    if model.assumed:
        node.get_logger().warning(
            f'{model.name}: {model.assumed} are assumed, as UR publishes none'
        )
    if unset_parameters:
        node.get_logger().warning(f'the arm will not be moved: {unset_parameters}')
    if off := [name for name, is_on in checks.items() if not is_on]:
        line = f'*** {", ".join(off)}: OFF. FOR MOCK HARDWARE ONLY, NEVER WITH A REAL ARM ***'
        for text in ('*' * len(line), line, '*' * len(line)):
            node.get_logger().warning(text)


def config_file(name: str) -> Path:
    """
    Return a path as given, or a bare file name within the package's config folder.

    Raises `InvalidInput`: a bare name is not in config/, but a file of that name is in the working
    directory.
    """
    path = user_path(name)
    if path.name != name:
        return path
    ours = share_directory() / 'config' / name
    if path.exists() and not ours.exists():
        raise InvalidInput(
            f'{name}: a bare name is a file of the package, and there is no {ours}; for '
            f'{path.absolute()} give its whole path'
        )
    return ours

