# SPDX-License-Identifier: Apache-2.0
"""The parameter files of the nodes, read without ROS."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_parameters, share_directory
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.settings import Settings
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


def scene_file(gripper: str) -> Path:
    """Return the scene file of the simulated cell with a kind of gripper."""
    return CONFIG / str(Configuration({'gripper': gripper})['scene_file'])
