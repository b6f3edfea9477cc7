# SPDX-License-Identifier: Apache-2.0
"""The node `recorder` beside a cell: a stop leaves a record, and a flood loses nothing useful."""

import collections
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pace
import pytest
from cells import CONFIG
from std_srvs.srv import Trigger

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.report import command as report
from ur5_pick_place.report.recording import read_recording

pytestmark = [pytest.mark.nodes, pytest.mark.drill]


class RecorderProcess:
    """A recorder in a process of its own, and its folder."""

    def __init__(self, domain: int, folder: Path, records: Path) -> None:
        (spec,) = [s for s in node_list('sim', CONFIG, record=True) if s.executable == 'recorder']
        own = {'records_folder': str(records), 'record_after_stop': pace.wall(1.0)}
        spec = dataclasses.replace(spec, parameters={**spec.parameters, **own})
        self.records = records
        self.processes = NodeProcesses([spec], domain, folder)

    def files(self, label: str) -> list[Path]:
        return sorted(self.records.glob(f'record-*-{label}.mcap'))

    def count(self, path: Path) -> collections.Counter:
        return collections.Counter(read_recording(path, lambda _topic: True).counts)


@pytest.fixture
def recorder(client, ros_domain: int, tmp_path: Path) -> Iterator[RecorderProcess]:
    found = RecorderProcess(ros_domain, tmp_path, tmp_path / 'records')
    with found.processes:
        client.until(lambda: 'the last 60 s' in found.processes.log(), 'the recorder', 40.0)
        yield found
        found.processes.check()
    assert 'Traceback' not in found.processes.log()


@pytest.mark.drill
def test_a_stop_leaves_a_record_of_before_and_after(client, at_home, recorder):
    client.run(1.0)
    handle = client.set_off()
    assert client.trigger('stop').success
    client.end(handle)
    client.until(lambda: recorder.files('stop'), 'the record', 30.0)
    (path,) = recorder.files('stop')
    found = report.read_report(path)
    (run,) = found.runs
    assert not found.problems and run.result['outcome'] == 'stopped' and run.result['reason']
    (stop,) = run.story['remarks']
    motion = run.motion
    t, speed = motion.t, motion.joint_speed
    assert speed.max() > 0.3 and speed[-1] < 1e-3
    assert 0.2 < stop['time_s'] < t[-1] - 0.2, 'before and after'
    assert np.abs(motion.q[-1] - client.q).max() < 1e-3
    counts = recorder.count(path)
    latched = ('/monitored_planning_scene', '/tf_static', '/io_and_status_controller/safety_mode')
    for topic in (*latched, '/tf', '/io_and_status_controller/io_states'):
        assert counts[topic], f'{topic} is not in {sorted(counts)}'
    assert counts['/trajectory_planner/sent_goal'] >= 2, 'the motion, and its braking'
    client.run(2.0)
    assert len(recorder.files('stop')) == 1, 'one stop, one record'


def test_save_answers_with_the_path_and_survives_a_folder_that_is_none(client, at_home, recorder):
    reply = client.call(Trigger, 'recorder/save')
    assert reply.success and Path(reply.message).is_file()
    for file in recorder.records.iterdir():
        file.unlink()
    recorder.records.rmdir()
    recorder.records.write_text('in the way')
    reply = client.call(Trigger, 'recorder/save')
    assert not reply.success and 'no record was written' in reply.message


def test_it_only_subscribes(client, at_home, recorder):
    own = {'/rosout', '/parameter_events'}
    topics = client.node.get_publisher_names_and_types_by_node('recorder', '/')
    assert {name for name, _ in topics} <= own
    assert not client.node.get_client_names_and_types_by_node('recorder', '/')
