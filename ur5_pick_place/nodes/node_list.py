# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cell and their parameters: the one list for launch file and demo."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.distro import distro, mock_tells_modes

ROBOTS = ('sim', 'mock', 'ursim', 'real')

# Absolute names that a namespace would not move.
REMAPPINGS = tuple((f'/{name}', name) for name in ('tf', 'tf_static', 'clock', 'diagnostics'))

Parameter = bool | int | float | str

_LOOPS = 'closed_loops.yaml'


@dataclass(frozen=True)
class NodeSpec:
    """
    One node to start.

    Attributes
    ----------
    executable : str
        Also the node's name.
    namespace : str
        Empty for none.
    parameter_files : tuple of Path
        In order; a later one wins.
    parameters : dict
        Win over the files.
    remappings : tuple of (from, to)

    """

    executable: str
    namespace: str
    parameter_files: tuple[Path, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    remappings: tuple[tuple[str, str], ...] = REMAPPINGS

    def arguments(self) -> list[str]:
        """Return the command-line arguments for the executable."""
        arguments = ['--ros-args']
        if self.namespace:
            arguments += ['-r', f'__ns:=/{self.namespace.strip("/")}']
        for source, target in self.remappings:
            arguments += ['-r', f'{source}:={target}']
        for file in self.parameter_files:
            arguments += ['--params-file', str(file)]
        for name, value in self.parameters.items():
            # JSON is YAML without its surprises.
            arguments += ['-p', f'{name}:={json.dumps(value)}']
        return arguments


def node_list(
    robot: str,
    config: Path,
    *,
    namespace: str = '',
    ur_type: str = 'ur5',
    tf_prefix: str = '',
    controller: str = '',
    kinematics_params_file: str = '',
    params_file: str = '',
    sim_parameters: Mapping[str, Parameter] | None = None,
) -> tuple[NodeSpec, ...]:
    """
    Return the package's nodes for a robot.

    Parameters
    ----------
    robot : str
        One of `ROBOTS`; the simulated cell is a node of ours, the others need the UR driver.
    config : Path
        Folder with `<executable>.yaml`, `closed_loops.yaml` and `robot_<robot>.yaml`.
    namespace, ur_type, tf_prefix, kinematics_params_file : str
        As for the launch file.
    controller : str
        Empty for the distribution's default.
    params_file : str
        The user's own file, for all nodes; read last.
    sim_parameters : dict, optional
        Parameters of the simulated cell.

    Raises
    ------
    InvalidInput
        The robot is unknown, the simulated cell does not support it, or the user's file has a
        parameter that an argument determines.

    """
    if robot not in ROBOTS:
        raise InvalidInput(f'robot = {robot!r}: must be one of {", ".join(ROBOTS)}')
    controller = controller or distro().controller
    shared: dict[str, Parameter] = {
        'use_sim_time': robot == 'sim',
        'ur_type': ur_type,
        'tf_prefix': tf_prefix,
        'controller': controller,
        'kinematics_params_file': kinematics_params_file,
    }
    own_file = (Path(params_file),) if params_file else ()
    own = _own_parameters(own_file[0], shared) if own_file else {}
    tells_modes = robot == 'mock' and 'check_modes' not in own and mock_tells_modes()
    modes = {'check_modes': True} if tells_modes else {}
    nodes = [
        NodeSpec(
            name,
            namespace,
            (config / f'{name}.yaml', config / _LOOPS, config / f'robot_{robot}.yaml', *own_file),
            {**shared, **(modes if name != 'ik_service' else {})},
        )
        for name in ('ik_service', 'trajectory_planner', 'pick_place')
    ]
    if robot == 'sim':
        _check_simulated(ur_type, kinematics_params_file)
        cell = {'tf_prefix': tf_prefix, 'controller': controller, **(sim_parameters or {})}
        files = (config / 'sim_driver.yaml', *own_file)
        nodes.insert(0, NodeSpec('sim_driver', namespace, files, cell))
    return tuple(nodes)


def _own_parameters(path: Path, shared: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the parameters of the user's file, or refuse it."""
    own = read_parameters(path) if path.exists() else {}  # the nodes report a missing file
    for name in own.keys() & shared.keys():
        if own[name] != shared[name]:
            raise InvalidInput(
                f'{path}: {name} = {own[name]!r} conflicts with {shared[name]!r}, which the '
                'driver gets too: remove it from the file and set the launch argument instead'
            )
    return own


def _check_simulated(ur_type: str, kinematics_params_file: str) -> None:
    if ur_type != 'ur5':
        raise InvalidInput(f'ur_type = {ur_type!r}: the simulated cell has a ur5')
    if kinematics_params_file:
        raise InvalidInput(
            f'kinematics_params_file = {kinematics_params_file!r}: the simulated arm has the '
            'nominal kinematics; leave it empty with robot:=sim'
        )
