# SPDX-License-Identifier: Apache-2.0
"""
The demo: one command that runs the whole system on the simulated cell.

It starts every node as a process in its own DDS domain, teaches, plans and runs a cycle file, and
writes the results to `out/`.

"""

import io
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ur5_pick_place.config_files import share_directory
from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.demo.cycle_layout import pattern
from ur5_pick_place.demo.options import DemoOptions, read_options
from ur5_pick_place.demo.outputs import (
    FILES,
    LATEST,
    RUN_FILE,
    draw_pictures,
    publish,
    table,
    write_events,
    write_result,
)
from ur5_pick_place.demo.processes import (
    NodeProcesses,
    end_with_parent,
    own_domain,
    working_folder,
)
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.demo.run_file import RunFile
from ur5_pick_place.demo.signals import Ended, signals_raised
from ur5_pick_place.demo.spots import T_tool_grip
from ur5_pick_place.demo.wall import write_scene_with_wall
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.nodes.cell.node_list import EXECUTABLES, NodeSpec, node_list
from ur5_pick_place.planning.limits import MotionSettings, arm_facts, motion_limits
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.terminal import quiet_pipe

if TYPE_CHECKING:
    from ur5_pick_place.report.command import Report


@quiet_pipe()
def main() -> None:
    """Run the demo; the exit code is 0 if every cube was placed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that a pipe shows lines at once
    logging.basicConfig(level=logging.WARNING, format='warning: %(message)s')
    if 'MAKELEVEL' in os.environ:
        end_with_parent()  # so that killing `make demo` ends the demo too
    try:
        with signals_raised():
            sys.exit(_run(sys.argv[1:]))
    except Ended as end:
        message = f'\ndemo: ended by {end}; all processes ended, no unfinished results were kept'
        print(message, file=sys.stderr)
        sys.exit(128 + end.number)


def _run(arguments: Sequence[str]) -> int:
    config = share_directory() / 'config'
    try:
        options = read_options(arguments, config)
    except InvalidInput as error:
        print(f'demo: {error}', file=sys.stderr)
        return 2
    places = ', '.join(f'{name} {spot}' for name, spot in options.task.spots.items())
    print(f'Places: {places}.')
    with working_folder() as work:
        code = 0
        try:
            with RunFile(work / RUN_FILE, {'arm': _arm(config, options)}) as file:
                for method in options.methods:
                    _perform(method, options, config, work, file)
        except BrokenPipeError:
            raise
        except (Ur5PickPlaceError, OSError) as error:
            print(f'demo: {error}', file=sys.stderr)
            code = 1
        if file.runs:  # those of one method are kept even if the next one fails
            code |= _keep(work, options, config)
    return code


def _keep(work: Path, options: DemoOptions, config: Path) -> int:
    """Evaluate the recording, publish and print the results; return the exit code."""
    # A slow import, needed only after the time-critical part.
    from ur5_pick_place.report.command import read_report

    facts = {
        'real_time_factor': options.rtf,
        'seed': options.seed,
        'gripper': options.gripper,
        'cycle': options.cycle_file.name,
        'grid': options.grid,
        'arm': _arm(config, options),
    }
    try:
        report = read_report(work / RUN_FILE)
        write_result(work, report.runs, facts)
        write_events(work, report.runs)
        drawn = next((r.samples for r in report.runs if r.samples and r.samples.is_complete), None)
        if drawn:
            print('Drawing the pictures.')
            draw_pictures(work, drawn, options, _scene_path(options, config, work))
        _write_page(work, report)
        made = publish(work, options.out)
    except (Ur5PickPlaceError, OSError) as error:
        print(f'demo: {error}', file=sys.stderr)
        return 1
    results = [run.result for run in report.runs]
    print(f'\n{table(results)}\n')
    files = ', '.join(name for name in FILES if (made / name).exists())
    print(f'{options.out / LATEST} -> {made.name}: {files}')
    failed = [result for result in results if not result['success']]
    for result in failed:
        print(f'demo: {result["method"]} failed: {result["reason"]}', file=sys.stderr)
    return int(bool(failed))


def _write_page(work: Path, report: 'Report') -> None:
    """Write `report.html`; the results are kept without it too."""
    from ur5_pick_place.report.command import PAGE, write_page

    now = datetime.now(timezone.utc)
    try:
        write_page(work / PAGE, f'a demo of {now:%Y-%m-%d %H:%M} UTC', report)
    except (Ur5PickPlaceError, OSError) as error:
        logging.warning('%s is not written: %s', PAGE, error)


def _perform(
    method: str, options: DemoOptions, config: Path, work: Path, file: RunFile
) -> None:
    """
    Run the task by one method; add it to `file`, and the logs to the folder `work`.

    With several methods the pictures show the first one.

    """
    model, stages = load_model(options.ur_type), tuple(options.cycle)
    scene = load_scene(config / _scene_file(options))
    progress = ProgressDisplay(model, T_tool_grip(scene), sys.stdout)
    begin = time.monotonic()
    with (
        own_domain() as domain,
        NodeProcesses(_nodes(method, options, config, work), domain, work) as nodes,
    ):
        # Imported here so that rclpy loads while the nodes start.
        from ur5_pick_place.demo.cycle_run import CycleRun
        from ur5_pick_place.demo.simulated_cell import SimulatedCell

        with (
            SimulatedCell(nodes.check) as cell,
            file.recording(cell.context) as messages,
        ):
            cycle = CycleRun(cell, scene, stages, progress)
            try:
                cycle.prepare()
                print(
                    f'{len(nodes.pids)} nodes on ROS_DOMAIN_ID {domain} are ready '
                    f'({time.monotonic() - begin:.1f} s).'
                )
                asked = cycle.run(options.task, method)
            except Ur5PickPlaceError as error:
                asked = cycle.asked(options.task, method, str(error))
        progress.end_stage()
    with (work / 'nodes.log').open('a', encoding='utf-8') as log:
        log.write(nodes.log())
    file.add(messages, {**asked, 'limits': _motion_facts()})


def _motion_facts() -> dict[str, float]:
    """Return the limits of motion of the nodes, by parameter."""
    names = ('max_velocity', 'max_acceleration', 'max_jerk', 'max_speed')
    return {name: Configuration({})[name] for name in names}


def _scene_file(options: DemoOptions) -> str:
    return str(Configuration({'gripper': options.gripper})['scene_file'])


def _scene_path(options: DemoOptions, config: Path, work: Path) -> Path:
    """Return the scene file of all nodes; with a wall it is written to `work`."""
    usual, own = config / _scene_file(options), work / 'scene.yaml'
    if not options.wall:
        return usual
    start, target = (options.task.spots[name] for name in ('start', 'target'))
    write_scene_with_wall(usual, start, target, options.wall, own)
    return own


def _arm(config: Path, options: DemoOptions) -> dict[str, Any]:
    """Return the facts of the arm from the parameter files of the nodes."""
    model, scene = load_model(options.ur_type), load_scene(config / _scene_file(options))
    limits = motion_limits(model, Configuration({}).read(MotionSettings))
    return arm_facts(model, scene.tool.T_tool_tcp, limits)


def _nodes(
    method: str, options: DemoOptions, config: Path, work: Path
) -> tuple[NodeSpec, ...]:
    """Return the nodes of the cell, with a poses file of their own."""
    task = options.task
    scene = {'scene_file': str(_scene_path(options, config, work))}
    sim: dict[str, Any] = {'real_time_factor': options.rtf, 'parts': max(1, len(task.ends))}
    if task.moves:  # the feeder brings parts to the last of the places where they lie at first
        x, y, yaw = task.spots[task.moves[-1][0]]
        sim |= {'part_x': x, 'part_y': y, 'part_yaw': math.degrees(yaw)}
    own = {
        'poses_file': str(work / 'poses.yaml'),
        'cycle_file': str(options.cycle_file),
        'method': method,
        **pattern(options.grid),
    }
    return node_list(
        'sim',
        config,
        ur_type=options.ur_type,
        gripper=options.gripper,
        parameters={
            **dict.fromkeys(EXECUTABLES, scene),
            'sim_driver': scene | sim,
            'pick_place': scene | own,
        },
    )


if __name__ == '__main__':
    main()
