# SPDX-License-Identifier: Apache-2.0
"""Start a simulated cell, run a task on it by one method, and record that."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from ur5_pick_place.demo.configuration import Configuration
from ur5_pick_place.demo.cycle_layout import pattern
from ur5_pick_place.demo.options import DemoOptions
from ur5_pick_place.demo.processes import NodeProcesses, own_domain
from ur5_pick_place.demo.progress import ProgressDisplay
from ur5_pick_place.errors import Ur5PickPlaceError
from ur5_pick_place.nodes.cell.node_list import NodeSpec
from ur5_pick_place.planning.limits import MotionSettings, arm_facts, motion_limits

if TYPE_CHECKING:
    from rclpy.context import Context

_POLL = 0.05  # [s] between two looks at the topics
_LIMITS = ('max_velocity', 'max_acceleration', 'max_jerk', 'max_speed')

Changes = Mapping[str, Mapping[str, Any]]
"""Parameters that differ from `config/`, by executable."""


RecordedMessages = tuple[list[Any], dict[str, Any]]
"""The rows of `recording`, and what `report.evaluation.evaluate` needs to know, as JSON values."""


@contextlib.contextmanager
def recording(context: 'Context') -> Iterator[list[Any]]:
    """
    Receive what is on the topics of a cell; gives a row for each message.

    In memory, as writing would cost time that the nodes of the cell need.

    `context`: that of the cell's client: two participants of DDS in one process may deadlock.

    Raises `MissingPackage`: `mcap` is not installed.
    """
    # Imported here so that rclpy loads while the nodes start.
    from geometry_msgs.msg import PoseArray

    from ur5_pick_place.nodes.recorder.mcap_file import mcap_writer
    from ur5_pick_place.nodes.recorder.recorded_topics import (
        Delivery,
        RecordedTopic,
        recorded_topics,
        subscribe_all,
    )
    from ur5_pick_place.nodes.ros.distro import distro
    from ur5_pick_place.nodes.ros.executor import SerialNode

    mcap_writer()
    parts = RecordedTopic('sim_driver/part_poses', PoseArray, Delivery.STREAM)
    rows: list[Any] = []

    def take(name: str, topic: RecordedTopic, messages: Iterable[Any]) -> None:
        rows.extend((name, topic, message) for message in messages)

    node = SerialNode('demo_recorder', context=context)
    topics = (*recorded_topics(distro().controller), parts)
    subscribe_all(node, topics, take, _POLL)
    try:
        with node.reader.running(lambda error: node.get_logger().error(str(error))):
            yield rows
    finally:
        node.destroy_node()


def write_runs(path: Path, arm: Mapping[str, Any], runs: Iterable[RecordedMessages]) -> None:
    """Write the recording of a demo; `arm`: facts as of `arm_of`."""
    from ur5_pick_place.nodes.recorder.mcap_file import McapFile

    with path.open('wb') as stream:
        file = McapFile(stream)
        file.add_facts({'arm': arm})
        for rows, asked in runs:
            rows.sort(key=lambda row: row[2].received)
            for name, topic, message in rows:
                times = message.received, message.published
                file.write(name, topic.kind, message.data, *times, topic.is_latched)
            span = [rows[i][2].received for i in (0, -1)] if rows else [0, 0]
            file.add_facts({'run': {**asked, 'log_times': span}})
        file.finish()


def record_run(
    method: str,
    options: DemoOptions,
    work: Path,
    stream: TextIO | None = None,
    changes: Changes = MappingProxyType({}),
) -> RecordedMessages:
    """
    Run the task by one method, and return what was recorded; add the logs to the folder `work`.

    `stream`: for the progress.
    """
    scene = options.setup.scene
    progress = ProgressDisplay(options.setup, stream) if stream else None
    begin = time.monotonic()
    with (
        own_domain() as domain,
        NodeProcesses(nodes_of_demo(method, options, work, changes), domain, work) as nodes,
    ):
        # Imported here so that rclpy loads while the nodes start.
        from ur5_pick_place.demo.simulated_cell import SimulatedCell

        with (
            SimulatedCell(scene, nodes.check) as cell,
            recording(cell.context) as messages,
        ):
            try:
                cell.prepare()
                if stream:
                    print(
                        f'{len(nodes.pids)} nodes on ROS_DOMAIN_ID {domain} are ready '
                        f'({time.monotonic() - begin:.1f} s).',
                        file=stream,
                    )
                asked = cell.run_task(options.task, method, options.cycle, progress)
            except Ur5PickPlaceError as error:
                asked = cell.asked(options.task, method, str(error))
        if progress:
            progress.end_stage()
    with (work / 'nodes.log').open('a', encoding='utf-8') as log:
        log.write(nodes.log())
    config = Configuration({})
    limits = {name: config[name] for name in _LIMITS}
    return messages, {**asked, 'limits': limits}


def arm_of(options: DemoOptions) -> dict[str, Any]:
    """Return the facts of the arm from the parameter files of the nodes."""
    model, scene = options.setup.model, options.setup.scene
    limits = motion_limits(model, Configuration({}).read(MotionSettings))
    return arm_facts(model, scene.tool.T_tool_tcp, limits)


def nodes_of_demo(
    method: str, options: DemoOptions, work: Path, changes: Changes
) -> tuple[NodeSpec, ...]:
    """Return the nodes of the cell, with a poses file of their own."""
    task = options.task
    sim: dict[str, Any] = {'real_time_factor': options.rtf, 'parts': max(1, len(task.ends))}
    if task.moves:  # the feeder brings parts to the last of the places where they lie at first
        sim |= task.spots[task.moves[-1][0]].parameters
    own = {
        'poses_file': str(work / 'poses.yaml'),
        'cycle_file': str(options.cycle_file),
        'method': method,
        **pattern(options.grid),
    }
    usual = {'sim_driver': sim, 'pick_place': own}
    parameters = {n: {**usual.get(n, {}), **changes.get(n, {})} for n in {**usual, **changes}}
    return options.setup.nodes(options.setup.write_scene(work, options.boxes), parameters)
