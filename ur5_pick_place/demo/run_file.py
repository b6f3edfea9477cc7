# SPDX-License-Identifier: Apache-2.0
"""`run.mcap` of a demo: what was on the topics of its cells, and the facts to evaluate it."""

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ur5_pick_place.demo.outputs import RUN_FILE, plain_result
from ur5_pick_place.demo.record import Record, RunResult
from ur5_pick_place.errors import MissingPackage

if TYPE_CHECKING:
    from rclpy.context import Context

_POLL = 0.05  # [s] between two looks at the topics


class RunFile:
    """
    The recording of one demo, with one or several runs; leaving the context completes it.

    A demo goes on without a recording if none can be written, with a warning.

    Parameters
    ----------
    facts : dict
        About the arm, as JSON values.

    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self._path, self._facts = path, facts
        self._stream: BinaryIO | None = None
        self._file: Any = None

    def __enter__(self) -> 'RunFile':
        return self

    def __exit__(self, *_exception: object) -> None:
        with self._failing_softly():
            if self._file is not None:
                self._file.finish()
        if self._stream is not None:
            with self._failing_softly():
                self._stream.close()

    @contextlib.contextmanager
    def recording(self, context: 'Context') -> Iterator[list[Any]]:
        """
        Receive what is on the topics of a cell; gives the rows for `add`.

        In memory, as writing would cost time that the nodes of the cell need.

        Parameters
        ----------
        context : rclpy.context.Context
            That of the cell's client: two participants of DDS in one process may deadlock.

        """
        # Imported here so that rclpy loads while the nodes start.
        from rclpy.node import Node

        from ur5_pick_place.nodes.recorder.recorded_topics import TopicPoller, recorded_topics
        from ur5_pick_place.nodes.ros.distro import distro

        rows: list[Any] = []
        node = Node('demo_recorder', context=context)
        poller = TopicPoller(node, recorded_topics(distro().controller))
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

    def add(
        self, rows: list[Any], result: RunResult | None = None, record: Record | None = None
    ) -> None:
        """
        Write a run.

        Parameters
        ----------
        rows : list
            From `recording`.
        result : RunResult, optional
        record : Record, optional
            That the result was computed from.

        """
        with self._failing_softly():
            file = self._opened()
            rows.sort(key=lambda row: row[2].received)
            for name, topic, message in rows:
                times = message.received, message.published
                file.write(name, topic.kind, message.data, *times, topic.is_latched)
            if rows and result and record:
                span = (rows[0][2].received, rows[-1][2].received)
                file.add_facts({'run': _run_facts(result, record, span)})

    def _opened(self) -> Any:
        from ur5_pick_place.nodes.recorder.mcap_file import McapFile

        if self._file is None:
            self._stream = self._path.open('wb')
            self._file = McapFile(self._stream)
            self._file.add_facts(self._facts)
        return self._file

    @contextlib.contextmanager
    def _failing_softly(self) -> Iterator[None]:
        try:
            yield
        except (MissingPackage, OSError) as error:
            logging.warning('%s is not written or not complete: %s', RUN_FILE, error)


def _run_facts(result: RunResult, record: Record, span: tuple[int, int]) -> dict[str, Any]:
    """Return the result as printed, and which messages it is from."""
    return {
        'result': plain_result(result),
        'log_times': span,
        'joint_times': [record.joints[i][0] for i in (0, -1)] if record.joints else None,
    }
