# SPDX-License-Identifier: Apache-2.0
"""Which simulated cell, and the parameter files of its nodes, read without ROS."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_parameters, read_yaml, share_directory
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.node_list import NodeSpec, node_list
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.settings import Settings
from ur5_pick_place.sim.grippers import DIGITAL
from ur5_pick_place.sim.layouts import Box, mounted, mounted_scene, table_height
from ur5_pick_place.task.grippers.registry import DEFAULT, check_parameters

CONFIG = share_directory() / 'config'


class Configuration:
    """
    Settings of the simulated cell from `config/`, with overrides.

    `overrides`: settings by name that differ from `config/`.

    Raises `InvalidInput`: a file cannot be read, or holds no parameters.
    """

    def __init__(self, overrides: Mapping[str, Any]) -> None:
        self._values: dict[str, Any] = {}
        gripper = overrides.get('gripper', DEFAULT)
        files = [f for n in node_list('sim', CONFIG, gripper=gripper) for f in n.parameter_files]
        for path in reversed(dict.fromkeys(reversed(files))):  # those that win come last
            if not (parameters := read_parameters(path)):
                raise InvalidInput(
                    f'parameter file {path}: must hold, under each node, ros__parameters'
                )
            self._values |= parameters
        self._values |= overrides
        check_parameters(gripper, overrides)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def read(self, kind: type[Settings], **others: Any) -> Any:
        """Return a settings object; what neither `others` nor a file sets has its default."""
        known = {f.name for f in fields(kind)}
        return kind(**{name: v for name, v in {**self._values, **others}.items() if name in known})


@dataclass(frozen=True)
class CellSetup:
    """Which simulated cell: its arm and gripper, and how the base is mounted."""

    ur_type: str = 'ur5'
    gripper: str = DIGITAL  # one of `GRIPPERS`
    mounting: Mounting = FLOOR

    @classmethod
    def read(cls, given: argparse.Namespace) -> 'CellSetup':
        """Return the set-up that the options of `demo.options.add_setup` describe."""
        return cls(given.ur_type, given.gripper, given.mounting)

    @property
    def model(self) -> Model:
        return load_model(self.ur_type)

    @cached_property
    def table_height(self) -> float:
        """Height of the table over the origin of `base_link` [m]."""
        return table_height(self.ur_type, self.mounting)

    @cached_property
    def T_base_link_table(self) -> Array:
        """Pose of the level frame on the table's top below or above the base, (4, 4)."""
        return self.mounting.T_base_link_level(self.table_height)

    @property
    def scene_file(self) -> Path:
        """The scene file of an arm that stands on the table, with this gripper."""
        return CONFIG / str(Configuration({'gripper': self.gripper})['scene_file'])

    @cached_property
    def scene(self) -> Scene:
        """The scene of `scene_file`; a mounted arm has the same tool and part."""
        return load_scene(self.scene_file)

    def scene_content(self, boxes: Sequence[Box] = ()) -> dict[str, Any]:
        """Return the content of the cell's scene file, with further boxes."""
        standing = read_yaml(self.scene_file, 'scene file')
        return mounted(standing, self.ur_type, self.mounting, boxes)

    def write_scene(self, folder: Path, boxes: Sequence[Box] = ()) -> Path:
        """Return the scene file of all nodes; what differs from that of config/ is in `folder`."""
        return mounted_scene(self.scene_file, self.ur_type, self.mounting, folder, boxes)

    def nodes(
        self, scene_file: Path, parameters: Mapping[str, Mapping[str, Any]], **others: Any
    ) -> tuple[NodeSpec, ...]:
        """Return its nodes; `parameters` by executable, `others` as for `node_list`."""
        is_usual = scene_file == self.scene_file
        return node_list(
            'sim',
            CONFIG,
            ur_type=self.ur_type,
            mounting=str(self.mounting),
            gripper=self.gripper,
            parameters=parameters,
            mounted_scene=None if is_usual else lambda _standing: scene_file,
            **others,
        )
