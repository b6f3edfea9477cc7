# SPDX-License-Identifier: Apache-2.0
"""
The demo: one command that runs the whole system on the simulated cell.

It starts every node as a process in its own DDS domain, teaches, plans and runs one
pick-and-place cycle, and writes the results to `out/`.

"""

import contextlib
import dataclasses
import io
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ur5_pick_place.config_files import share_directory
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.nodes.node_list import NodeSpec, node_list
from ur5_pick_place.planning.limits import Limits, MotionSettings, motion_limits
from ur5_pick_place.planning.scene_file import load_scene
from ur5_pick_place.terminal import quiet_pipe
from ur5_pick_place.trials.configuration import Configuration
from ur5_pick_place.trials.demo_options import DemoOptions, read_options
from ur5_pick_place.trials.demo_progress import ProgressDisplay
from ur5_pick_place.trials.demo_report import (
    FILES,
    LATEST,
    arm_facts,
    draw_pictures,
    publish,
    table,
    write_events,
    write_joints,
    write_result,
)
from ur5_pick_place.trials.processes import NodeProcesses, end_with_parent, own_domain
from ur5_pick_place.trials.record import RunResult
from ur5_pick_place.trials.time_shares import time_shares
from ur5_pick_place.trials.wall import cell_wall, wall_settings, write_scene_with_wall


class Ended(BaseException):
    """Raised when the demo receives a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@quiet_pipe()
def main() -> None:
    """Run the demo; the exit code is 0 if the cube was placed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that a pipe shows lines at once
    logging.basicConfig(level=logging.WARNING, format='warning: %(message)s')
    if 'MAKELEVEL' in os.environ:
        end_with_parent()  # killing `make demo` is to end the demo
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
    print(f'Start {options.task.start}, target {options.task.target}.')
    with tempfile.TemporaryDirectory(prefix='ur5_pick_place-') as folder:
        work = Path(folder)
        results: list[RunResult] = []
        try:
            for method in options.methods:
                results.append(_perform(method, options, config, work))
        except (Ur5PickPlaceError, OSError) as error:
            print(f'demo: {error}', file=sys.stderr)
            return 1
        finally:  # results of one method are kept even if the next one fails
            is_kept = not results or _keep(work, results, options, config)
    if not is_kept:
        return 1
    failed = [result for result in results if not result.success]
    for result in failed:
        print(f'demo: {result.method} failed: {result.reason}', file=sys.stderr)
    return int(bool(failed))


def _keep(work: Path, results: list[RunResult], options: DemoOptions, config: Path) -> bool:
    """Publish and print the results; return whether that succeeded."""
    facts = {'real_time_factor': options.rtf, 'seed': options.seed, 'arm': _arm(config)}
    try:
        write_result(work, results, facts)
        made = publish(work, options.out)
    except (Ur5PickPlaceError, OSError) as error:
        print(f'demo: {error}', file=sys.stderr)
        return False
    print(f'\n{table(results)}\n')
    files = ', '.join(name for name in FILES if (made / name).exists())
    print(f'{options.out / LATEST} -> {made.name}: {files}')
    return True


def _perform(method: str, options: DemoOptions, config: Path, work: Path) -> RunResult:
    """
    Run the task by one method and write the results to the folder `work`.

    With several methods, events and logs are appended; the pictures show the first method.

    """
    task, model = options.task, load_model('ur5')
    T_tool_tcp = load_scene(config / 'scene_sim.yaml').tool.T_tool_tcp
    progress = ProgressDisplay(model, T_tool_tcp, sys.stdout)
    begin = time.monotonic()
    with (
        own_domain() as domain,
        NodeProcesses(_nodes(method, options, config, work), domain, work) as nodes,
    ):
        # Imported here so that rclpy loads while the nodes start.
        from ur5_pick_place.trials.operator import Operator

        with Operator(domain, model, T_tool_tcp, nodes.check, progress.show) as operator:
            try:
                operator.prepare()
                print(
                    f'{len(nodes.pids)} nodes on ROS_DOMAIN_ID {domain} are ready '
                    f'({time.monotonic() - begin:.1f} s).'
                )
                result = operator.run_cycle(task, method)
            except Ur5PickPlaceError as error:
                result = RunResult(method, success=False, reason=str(error), task=task)
        progress.end_stage()
    shares = time_shares(operator.record, model, T_tool_tcp, _limits(model))
    result = dataclasses.replace(result, **shares)
    with (work / 'nodes.log').open('a', encoding='utf-8') as log:
        log.write(nodes.log())
    write_events(work, operator.events)
    write_joints(work, method, operator.record)
    if operator.record.is_complete and not (work / 'joints.png').exists():
        print('Drawing the pictures.')
        wall = cell_wall(wall_settings(task, options.wall))
        draw_pictures(work, operator.record, task, wall)
    return result


def _arm(config: Path) -> dict[str, Any]:
    """Return the facts of the arm from the parameter files of the nodes."""
    model, scene = load_model('ur5'), load_scene(config / 'scene_sim.yaml')
    return arm_facts(model, scene.tool.T_tool_tcp, _limits(model))


def _limits(model: Model) -> Limits:
    return motion_limits(model, Configuration({}).read(MotionSettings))


def _nodes(method: str, options: DemoOptions, config: Path, work: Path) -> list[NodeSpec]:
    """Return the nodes of the cell, with a poses file of their own."""
    own: dict[str, Any] = {'poses_file': str(work / 'poses.yaml'), 'method': method}
    wall, shared = wall_settings(options.task, options.wall), {}
    if wall:
        scene = work / 'scene.yaml'
        write_scene_with_wall(config / 'scene_sim.yaml', wall, scene)
        shared = {'scene_file': str(scene)}
    sim = {'real_time_factor': options.rtf, **wall}
    more: dict[str, dict[str, Any]] = {'sim_driver': {}, 'pick_place': shared | own}
    return [
        dataclasses.replace(
            spec, parameters={**spec.parameters, **more.get(spec.executable, shared)}
        )
        for spec in node_list('sim', config, sim_parameters=sim)
    ]


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Ended` on the first signal to end, and ignore further ones."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    raised: list[Ended] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # the clean-up must not be interrupted
        raised.append(Ended(number))
        raise raised[0]

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets SIGHUP
            signal.signal(number, end)
    try:
        yield
    except BaseException:
        if raised:  # rclpy's C++ may turn what is raised within it into another exception
            raise raised[0] from None
        raise


if __name__ == '__main__':
    main()
