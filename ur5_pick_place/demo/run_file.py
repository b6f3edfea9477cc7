# SPDX-License-Identifier: Apache-2.0
"""`run.mcap` of a demo: what was on the topics of its cells, and what each was asked to do."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from rclpy.context import Context

    from ur5_pick_place.nodes.recorder.mcap_file import McapFile

_POLL = 0.05  # [s] between two looks at the topics


class RunFile:
    """
    The recording of one demo, with one or several runs; leaving the context completes it.

    Parameters
    ----------
    facts : dict
        About the arm, as JSON values.

    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self._facts = facts
        self._stream: BinaryIO = path.open('wb')
        self._file: McapFile | None = None
        self.runs = 0
        """Number of runs in it."""

    def __enter__(self) -> 'RunFile':
        return self

    def __exit__(self, *_exception: object) -> None:
        with self._stream:
            if self._file:
                self._file.finish()

    @contextlib.contextmanager
    def recording(self, context: 'Context') -> Iterator[list[Any]]:
        """
        Receive what is on the topics of a cell; gives the rows for `add`.

        In memory, as writing would cost time that the nodes of the cell need.

        Parameters
        ----------
        context : rclpy.context.Context
            That of the cell's client: two participants of DDS in one process may deadlock.

        Raises
        ------
        MissingPackage
            `mcap` is not installed.

        """
        # Imported here so that rclpy loads while the nodes start.
        from geometry_msgs.msg import PoseArray
        from rclpy.node import Node

        from ur5_pick_place.nodes.recorder.mcap_file import McapFile
        from ur5_pick_place.nodes.recorder.recorded_topics import (
            Delivery,
            RecordedTopic,
            TopicPoller,
            recorded_topics,
        )
        from ur5_pick_place.nodes.ros.distro import distro

        if self._file is None:
            self._file = McapFile(self._stream)
            self._file.add_facts(self._facts)
        parts = RecordedTopic('sim_driver/part_poses', PoseArray, Delivery.STREAM)
        rows: list[Any] = []
        node = Node('demo_recorder', context=context)
        poller = TopicPoller(node, (*recorded_topics(distro().controller), parts))
        ended = threading.Event()

        def poll() -> None:
            while not ended.wait(_POLL):
                poller.poll(lambda *row: rows.append(row))

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield rows
        finally:
            ended.set()
            thread.join()
            node.destroy_node()

    def add(self, rows: list[Any], asked: Mapping[str, Any]) -> None:
        """
        Write a run.

        Parameters
        ----------
        rows : list
            From `recording`.
        asked : mapping
            What `report.evaluation.evaluate` needs to know, as JSON values.

        """
        assert self._file is not None
        rows.sort(key=lambda row: row[2].received)
        for name, topic, message in rows:
            times = message.received, message.published
            self._file.write(name, topic.kind, message.data, *times, topic.is_latched)
        span = [rows[i][2].received for i in (0, -1)] if rows else [0, 0]
        self._file.add_facts({'run': {**asked, 'log_times': span}})
        self.runs += 1
