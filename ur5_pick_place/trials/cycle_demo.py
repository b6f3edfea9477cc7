# SPDX-License-Identifier: Apache-2.0
"""`demo --cycle`: run any cycle file on the simulated cell, with the real nodes over DDS."""

import dataclasses
import sys
from math import degrees, prod
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.config_files import share_directory, user_path
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.node_list import NodeSpec, node_list
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.cell import MAX_PARTS
from ur5_pick_place.task.cycle import Cycle, load_cycle
from ur5_pick_place.task.grippers.registry import gripper_type
from ur5_pick_place.task.pattern import PatternSettings
from ur5_pick_place.trials.configuration import Configuration
from ur5_pick_place.trials.cycle_layout import (
    check_no_frames,
    ends_of_parts,
    layout,
    pattern,
    pick_places,
)
from ur5_pick_place.trials.demo_options import DemoOptions
from ur5_pick_place.trials.demo_report import LATEST, RUN_FILE, publish, write_events
from ur5_pick_place.trials.processes import NodeProcesses, own_domain, working_folder
from ur5_pick_place.trials.run_file import RunFile

_PLACED = 2e-3  # [m] largest distance of a part from its place; the fingers centre along one axis


def run_cycle_file(options: DemoOptions) -> int:
    """Run the cycle file of the options, print what became of its parts; return the exit code."""
    config = share_directory() / 'config'
    try:
        path, cycle = read_cycle(options.cycle, options.gripper, config)
        check_no_frames(cycle)
        spots = layout(cycle)
        if options.grid and len(pick_places(cycle)) != 1:
            raise InvalidInput('--grid needs a cycle that picks from one place')
        overrides = pattern(options.grid)
        ends = ends_of_parts(cycle, spots, PatternSettings.from_dict(overrides))
        if len(ends) > MAX_PARTS:
            raise InvalidInput(
                f'--grid {" ".join(map(str, options.grid or ()))}: {path.name} needs {len(ends)} '
                f'cubes, the simulated cell holds at most {MAX_PARTS}: fill fewer cells'
            )
    except InvalidInput as error:
        print(f'demo: {error}', file=sys.stderr)
        return 2
    for name, spot in spots.items():
        print(f'{name}: {spot}.')
    with working_folder() as folder:
        try:
            return _perform(options, cycle, path, spots, overrides, ends, folder)
        except (Ur5PickPlaceError, OSError) as error:
            print(f'demo: {error}', file=sys.stderr)
            return 1


def read_cycle(name: str, gripper: str, config: Path) -> tuple[Path, Cycle]:
    """
    Return the path of a cycle file, and its cycle.

    A bare file name that is not in the current folder is looked up in config/.

    Raises
    ------
    InvalidInput
        The file is missing or invalid, or sets an output that this kind of gripper uses.

    """
    given = user_path(name)
    path = (given if given.exists() or given.name != name else config / name).absolute()
    kind, own = gripper_type(gripper), Configuration({'gripper': gripper})
    return path, load_cycle(path, kind(own.read(kind.settings_type), None).pins)


def _perform(
    options: DemoOptions,
    cycle: Cycle,
    path: Path,
    spots: dict[str, Any],
    overrides: dict[str, Any],
    ends: list[Array],
    work: Path,
) -> int:
    config, model = share_directory() / 'config', load_model('ur5')
    scene = load_scene(config / Configuration({'gripper': options.gripper})['scene_file'])
    own = {'poses_file': str(work / 'poses.yaml'), 'cycle_file': str(path)}
    task = {**own, **overrides, 'method': options.methods[0]}
    picks = pick_places(cycle)
    sim: dict[str, Any] = {'real_time_factor': options.rtf, 'parts': max(1, len(ends))}
    if picks:  # the feeder brings parts to the last of them
        x, y, yaw = spots[picks[-1]]
        sim |= {'part_x': x, 'part_y': y, 'part_yaw': degrees(yaw)}
    nodes_of_cell = _nodes(config, options.gripper, sim, task)
    with RunFile(work / RUN_FILE, {}) as file:
        with (
            own_domain() as domain,
            NodeProcesses(nodes_of_cell, domain, work) as nodes,
        ):
            # Imported here so that rclpy loads while the nodes start.
            from ur5_pick_place.trials.cycle_operator import CycleOperator

            cycles = prod(options.grid or (1,))
            with (
                CycleOperator(domain, model, scene, nodes.check, cycle, cycles) as operator,
                file.recording(operator.context) as messages,
            ):
                try:
                    operator.prepare()
                    operator.put_parts([spots[name] for name in picks])
                    operator.teach_places(spots)
                    operator.call('plan')
                    operator.do('run')
                    parts, problem = operator.parts(len(ends)), ''
                except Ur5PickPlaceError as error:
                    parts, problem = [], str(error)
        file.add(messages)  # complete only after the recording has ended
    write_events(work, operator.events)
    (work / 'nodes.log').write_text(nodes.log(), encoding='utf-8')
    print(f'{options.out / LATEST} -> {publish(work, options.out).name}')
    off = [float(np.linalg.norm(a[:3, 3] - b[:3, 3])) for a, b in zip(parts, ends, strict=False)]
    for number, distance in enumerate(off, 1):
        print(f'part {number}: {1e3 * distance:.2f} mm from its place')
    if not problem and any(distance > _PLACED for distance in off):
        problem = f'a part lies more than {1e3 * _PLACED:g} mm from its place'
    if problem:
        print(f'demo: {path.name} failed: {problem}', file=sys.stderr)
    return int(bool(problem))


def _nodes(
    config: Path, gripper: str, sim: dict[str, Any], task: dict[str, Any]
) -> list[NodeSpec]:
    return [
        dataclasses.replace(
            spec,
            parameters={**spec.parameters, **(task if spec.executable == 'pick_place' else {})},
        )
        for spec in node_list('sim', config, gripper=gripper, sim_parameters=sim)
        if spec.executable != 'ik_service'
    ]
