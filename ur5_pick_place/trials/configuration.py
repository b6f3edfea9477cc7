# SPDX-License-Identifier: Apache-2.0
"""The parameter files of the nodes, read without ROS."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ur5_pick_place.config_files import read_parameters, share_directory
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import Settings

CONFIG = share_directory() / 'config'
_FILES = (
    'sim_driver.yaml',
    'trajectory_planner.yaml',
    'pick_place.yaml',
    'closed_loops.yaml',
    'robot_sim.yaml',
)


class Configuration:
    """
    Settings of the simulated cell from `config/`, with changes.

    Parameters
    ----------
    changes : mapping of str to value
        Settings by name that differ from `config/`.

    Raises
    ------
    InvalidInput
        A file cannot be read, or holds no parameters.

    """

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self._values: dict[str, Any] = {}
        for name in _FILES:
            parameters = read_parameters(CONFIG / name)
            if not parameters:
                raise InvalidInput(
                    f'parameter file {CONFIG / name}: must hold, under each node, ros__parameters'
                )
            self._values |= parameters
        self._values |= changes

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def read(self, kind: type[Settings]) -> Any:
        """Return a settings object; what no file sets has its default."""
        known = {f.name for f in fields(kind)}
        return kind(**{name: v for name, v in self._values.items() if name in known})
