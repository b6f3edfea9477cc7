# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cell and their parameters: the one list for launch file and demo."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ur5_pick_place.config_files import read_parameters, user_path
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.task.grippers.registry import DEFAULT

ROBOTS = ('sim', 'mock', 'controller', 'ursim', 'real')
SIMULATED = ('sim', 'controller')
"""With the simulated cell; behind the controller's own ports the driver is UR's."""

# Absolute names that a namespace would not move.
REMAPPINGS = tuple((f'/{name}', name) for name in ('tf', 'tf_static', 'clock', 'diagnostics'))

Parameter = bool | int | float | str

_ROBOT_NODES = ('ik_service', 'trajectory_planner', 'pick_place')
EXECUTABLES = ('sim_driver', *_ROBOT_NODES, 'cockpit', 'recorder')
_LOOPS = 'closed_loops'


@dataclass(frozen=True)
class NodeSpec:
    executable: str  # also the node's name
    namespace: str  # empty for none
    parameter_files: tuple[Path, ...]  # in order; a later one wins
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # win over the files
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
            # JSON is YAML without its surprises, but for the pairs by which it escapes an emoji.
            arguments += ['-p', f'{name}:={json.dumps(value, ensure_ascii=False)}']
        return arguments


def node_list(
    robot: str,
    config: Path,
    *,
    namespace: str = '',
    ur_type: str = 'ur5',
    mounting: str = 'floor',
    tf_prefix: str = '',
    controller: str = '',
    kinematics_params_file: str = '',
    params_file: str = '',
    gripper: str = '',
    cockpit: Mapping[str, Parameter] | None = None,
    record: bool = False,
    parameters: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    mounted_scene: Callable[[Path], Path] | None = None,
) -> tuple[NodeSpec, ...]:
    """
    Return the package's nodes for a robot.

    `robot`: one of `ROBOTS`; the simulated cell is a node of ours, the others need the UR driver.
    `config`: folder of the parameter files. `namespace`, `ur_type`, `mounting`, `tf_prefix`,
    `controller`, `kinematics_params_file`, `params_file`: as for the launch file; empty for the
    default.
    `gripper`: the kind of gripper; empty for that of the user's file, else the default. `cockpit`:
    parameters of the cockpit; None = no cockpit. `record`: whether the flight recorder is one of
    them. `parameters`: by executable, of those that start; they win over all others.
    `mounted_scene`: returns the scene file of the simulated cell from that for an arm which stands
    on the table; not used if the user's file names one.

    Raises `InvalidInput`: the robot is unknown, a calibration file is given for the simulated
    cell, or the user's file has another value for a parameter that an argument determines.
    """
    _check_robot(robot, kinematics_params_file)
    arm: dict[str, Parameter] = {'ur_type': ur_type, 'mounting': mounting, 'tf_prefix': tf_prefix}
    arm['controller'] = controller or distro().controller
    shared = {**arm, 'use_sim_time': robot == 'sim'}
    shared['kinematics_params_file'] = kinematics_params_file
    own_file = (user_path(params_file),) if params_file else ()
    own = _own_parameters(own_file[0], namespace, shared) if own_file else {}
    choice: dict[str, Parameter] = {'gripper': gripper} if gripper else {}
    kind = str(gripper or own.get('gripper', DEFAULT))
    files = partial(_files_of, config, robot, kind, own_file)
    if robot in SIMULATED and mounted_scene and 'scene_file' not in own:
        usual = [read_parameters(f) for f in _files_of(config, robot, kind, (), 'pick_place')]
        (*_, standing) = (found['scene_file'] for found in usual if 'scene_file' in found)
        arm['scene_file'] = shared['scene_file'] = str(mounted_scene(config / standing))
    wanted: dict[str, Mapping[str, Parameter]] = dict.fromkeys(_ROBOT_NODES, shared)
    wanted['pick_place'] = {**shared, **choice, **_places(namespace, config, robot, own)}
    wanted |= _optional_nodes(shared, robot, cockpit, record)
    if robot == 'sim':
        wanted = {'sim_driver': {**arm, **choice}, **wanted}
    return tuple(
        NodeSpec(name, namespace, files(name), {**usual, **parameters.get(name, {})})
        for name, usual in wanted.items()
    )


def poses_file(config: Path, robot: str, suffix: str) -> Path:
    """Return the file of taught poses of a robot's parameters, with a suffix to its stem."""
    path = user_path(read_parameters(config / f'robot_{robot}.yaml')['poses_file'])
    return path.with_name(f'{path.stem}{suffix}{path.suffix}')


def _optional_nodes(
    shared: Mapping[str, Parameter],
    robot: str,
    cockpit: Mapping[str, Parameter] | None,
    record: bool,
) -> dict[str, dict[str, Parameter]]:
    """Return the parameters of cockpit and recorder, if they are wanted."""
    # Without use_sim_time: /clock at 125 Hz would cost them more than their work.
    common = {**shared, 'use_sim_time': False}
    nodes: dict[str, dict[str, Parameter]] = {}
    if cockpit is not None:
        nodes['cockpit'] = {**common, 'robot': robot, **cockpit}
    if record:
        nodes['recorder'] = common
    return nodes


def _files_of(
    config: Path, robot: str, gripper: str, own: tuple[Path, ...], executable: str
) -> tuple[Path, ...]:
    """Return the parameter files of a node, in the order in which they are read."""
    names = [executable]
    if executable in _ROBOT_NODES:
        names.append(_LOOPS)
    if executable == 'pick_place':
        names.append(f'gripper_{gripper}')
    names += [f'robot_{robot}', f'robot_{robot}_{gripper}']
    files = [config / f'{name}.yaml' for name in names]
    return (*(f for f in files if f.exists() or not f.stem.endswith(f'_{gripper}')), *own)


def _own_parameters(
    path: Path, namespace: str, shared: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Return the parameters of the user's file for nodes of ours, or refuse it."""
    if not os.path.exists(path):
        return {}  # the nodes report it
    space = f'/{namespace.strip("/")}'.rstrip('/')
    own: dict[str, Any] = {}
    for executable in EXECUTABLES:
        own |= read_parameters(path, f'{space}/{executable}')
    for name in own.keys() & shared.keys():
        if own[name] != shared[name]:
            raise InvalidInput(
                f'{path}: {name} = {own[name]!r} conflicts with {shared[name]!r}, which the '
                'driver gets too: remove it from the file and set the launch argument instead'
            )
    return own


def _places(
    namespace: str, config: Path, robot: str, own: Mapping[str, Any]
) -> dict[str, Parameter]:
    """Return the poses file of a namespace, as each cell has its places, unless it is given."""
    if 'poses_file' in own or not (name := namespace.strip('/')):
        return {}
    suffix = f'-{name.replace("/", "-")}'  # no name of ROS has a '-'
    return {'poses_file': str(poses_file(config, robot, suffix))}


def _check_robot(robot: str, kinematics_params_file: str) -> None:
    if robot not in ROBOTS:
        raise InvalidInput(f'robot = {robot!r}: must be one of {", ".join(ROBOTS)}')
    if robot in SIMULATED and kinematics_params_file:
        raise InvalidInput(
            f'kinematics_params_file = {kinematics_params_file!r}: the simulated arm has the '
            f'nominal kinematics; leave it empty with robot:={robot}'
        )
