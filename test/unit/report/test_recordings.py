# SPDX-License-Identifier: Apache-2.0
"""Recordings open with everybody's readers, and `report` reads them."""

import json
import os
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from recordings import (
    ARM,
    CONTROLLER,
    EVENTS,
    demo_facts,
    log_time,
    messages,
    nodding,
    reported,
    write_bag,
    write_foreign,
    write_recording,
)
from std_msgs.msg import String

from ur5_pick_place.demo import command as demo
from ur5_pick_place.nodes.recorder.mcap_file import schema_text
from ur5_pick_place.nodes.recorder.recorded_topics import recorded_topics
from ur5_pick_place.report import command as report
from ur5_pick_place.report.motion import RecordedJoints
from ur5_pick_place.report.recording import newest_recording, read_recording, recording_files
from ur5_pick_place.report.topics import (
    MOTION_STATE,
    RobotTopics,
    is_wanted,
    joints_of,
    robot_topics,
)

JOINTS = nodding(150)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Give a record of a stop."""
    path = tmp_path / 'record.mcap'
    write_recording(path, JOINTS, EVENTS, [{'arm': ARM, 'recorded_for': 'stop'}])
    return path


@pytest.mark.parametrize('topic', recorded_topics(CONTROLLER), ids=lambda topic: topic.name)
def test_every_type_has_a_definition_that_others_can_parse(topic):
    """As bytes written by ROS and read by two decoders that know the text alone."""
    typesys = pytest.importorskip('rosbags.typesys')
    from mcap.records import Schema
    from mcap_ros2.decoder import DecoderFactory
    from rclpy.serialization import serialize_message

    name = f'{topic.kind.__module__.split(".")[0]}/msg/{topic.kind.__name__}'
    text = schema_text(topic.kind)
    fields = set(topic.kind.get_fields_and_field_types())
    store = typesys.get_typestore(typesys.Stores.EMPTY)
    store.register(typesys.get_types_from_msg(text, name))
    known = set(store.types[name].__dataclass_fields__) - {'__msgtype__'}
    assert {field for field in known if not field.isupper()} == fields  # others are constants
    schema = Schema(id=1, name=name, encoding='ros2msg', data=text.encode())
    decode = DecoderFactory().decoder_for('cdr', schema)
    decoded = decode(serialize_message(topic.kind()))
    assert all(hasattr(decoded, field) for field in fields)


def test_a_definition_is_that_of_the_message_files():
    from sensor_msgs.msg import JointState

    own, _, others = schema_text(JointState).partition('=' * 80)
    fields = [line.split() for line in own.splitlines() if line and not line.startswith('#')]
    assert fields == [
        ['std_msgs/Header', 'header'], ['string[]', 'name'], ['float64[]', 'position'],
        ['float64[]', 'velocity'], ['float64[]', 'effort'],
    ]  # fmt: skip
    assert re.findall(r'^MSG: (.*)$', others, re.MULTILINE) == [
        'std_msgs/Header', 'builtin_interfaces/Time'
    ]


def test_rosbags_and_mcap_read_the_same_joints(recorded):
    highlevel = pytest.importorskip('rosbags.highlevel')
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    with recorded.open('rb') as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == 'ros2'
        rows = [
            (message.log_time, list(decoded.position))
            for _, _, message, decoded in reader.iter_decoded_messages(topics=['/joint_states'])
        ]
    with highlevel.AnyReader([recorded]) as bag:
        connections = [c for c in bag.connections if c.topic == '/joint_states']
        others = [
            (at, list(bag.deserialize(data, c.msgtype).position))
            for c, at, data in bag.messages(connections)
        ]
    assert rows == others and len(rows) == JOINTS.t.size
    order = np.argsort(['shoulder_pan', 'shoulder_lift', 'elbow', 'wrist_1', 'wrist_2', 'wrist_3'])
    assert np.array([q for _, q in rows]) == pytest.approx(JOINTS.q[:, order])


def test_joints_references_and_events_are_read_as_they_were(recorded):
    topics = robot_topics(read_recording(recorded, is_wanted))
    _, t, q, qd, reference = zip(*topics.controller_states, strict=True)
    expected = (JOINTS.t, JOINTS.q, JOINTS.qd, JOINTS.q_reference)
    for found, array in zip((t, q, qd, reference), expected, strict=True):
        assert np.array(found) == pytest.approx(array, abs=1e-8)
    assert [event for _, event in topics.events] == EVENTS


def test_a_record_of_a_stop_is_told_with_its_reason(recorded, capsys):
    assert report.main([str(recorded)]) == 0
    said = capsys.readouterr()
    assert not said.err
    assert 'recording: stopped: part <b>lost' in said.out
    assert "1.00 s: stopped at stage 'lift': part <b>lost" in said.out
    assert f'{2 * JOINTS.t.size + 3} messages on 3 topics' in said.out
    page = recorded.with_suffix('.html').read_text()
    assert 'part &lt;b&gt;lost' in page and page.count('<img') == 5


@pytest.mark.parametrize('storage', ['MCAP', 'SQLITE3'])
def test_a_bag_of_a_robot_with_namespace_and_prefix_is_reported(
    storage, tmp_path, capsys, monkeypatch
):
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, storage, space='/cell2', prefix='left_')
    ((run,), complaint) = reported(folder, capsys)
    assert not complaint
    assert (run['outcome'], run['reason']) == ('stopped', 'part <b>lost')
    assert run['stages'][0]['begin_s'] == pytest.approx(0.3, abs=1e-6)
    monkeypatch.chdir(folder)
    assert report.main(['.']) == 0
    assert capsys.readouterr().out.startswith('bag: ')
    page = (folder / 'report.html').read_text()
    assert page.count('<img') == 3, 'an unknown arm has joints, speeds and errors'


@pytest.mark.parametrize('storage', ['MCAP', 'SQLITE3'])
def test_a_bag_of_compressed_messages_is_read_like_any_other(storage, tmp_path, capsys):
    """As `ros2 bag record --compression-mode message --compression-format zstd` writes it."""
    pack = pytest.importorskip('zstandard').ZstdCompressor().compress
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, storage, pack)
    ((run,), complaint) = reported(folder, capsys)
    assert not complaint and run['outcome'] == 'stopped' and len(run['stages']) == 1
    recording = read_recording(folder, is_wanted)
    topics = robot_topics(recording)
    assert len(topics.joint_states) == len(topics.controller_states) == JOINTS.t.size


def test_a_sqlite_bag_without_definitions_is_read_with_those_installed(tmp_path, capsys):
    folder = write_bag(tmp_path / 'bag', JOINTS, EVENTS, 'SQLITE3')
    (file,) = folder.glob('*.db3')
    with sqlite3.connect(file) as database:
        database.execute('DROP TABLE message_definitions')  # as in Humble
    ((run,), complaint) = reported(folder, capsys)
    assert run['outcome'] == 'stopped' and not complaint


def test_runs_of_a_demo_are_told_apart_by_their_facts(tmp_path, capsys):
    facts = [{'arm': ARM}, {'run': demo_facts('ik', JOINTS)}]
    write_recording(tmp_path / 'run.mcap', JOINTS, EVENTS[:2], facts)
    ((run,), _) = reported(tmp_path / 'run.mcap', capsys)
    assert (run['method'], run['success'], run['planning_time_s']) == ('ik', True, 0.5)
    assert run['start'] == {'x': 0.45, 'y': -0.2, 'yaw': 0.0}


def test_what_the_recorder_could_not_keep_is_told_in_one_line(tmp_path, capsys):
    lost = {'/joint_states': 1200, '/a\nb': 3}
    facts = [{'arm': ARM, 'recorded_for': 'stop', 'lost': lost}]
    write_recording(tmp_path / 'record.mcap', JOINTS, EVENTS, facts)
    (_, complaint) = reported(tmp_path / 'record.mcap', capsys)
    (line,) = complaint.splitlines()
    assert line == (
        "report: messages that did not fit the recorder's memory are missing, the oldest first: "
        '1200 of /joint_states, 3 of /a\\nb'
    )


def test_a_clock_that_restarts_makes_two_runs(tmp_path):
    from rclpy.serialization import serialize_message

    from ur5_pick_place.nodes.recorder.mcap_file import McapFile

    with (tmp_path / 'twice.mcap').open('wb') as stream:
        file = McapFile(stream)
        for later in (0, 10_000_000_000):
            for topic, message, at in messages(JOINTS, EVENTS):
                data = serialize_message(message)
                file.write(topic, type(message), data, at + later, at + later)
        file.finish()
    found = report.read_report(tmp_path / 'twice.mcap')
    assert [run.result['method'] for run in found.runs] == ['recording', 'recording 2']
    assert all(run.motion.t.size == JOINTS.t.size for run in found.runs)


def test_a_demo_on_a_full_disk_keeps_no_run_and_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(demo, 'record_run', lambda *_: ([], {'method': 'ik'}))
    monkeypatch.setattr(demo, 'RUN_FILE', '/dev/full')
    assert demo.run([]) == 1
    said = capsys.readouterr().err
    assert re.fullmatch(r'demo: /.*No space left on device: free some .* TMPDIR .*\n', said), said


def test_a_stop_by_an_event_is_told_like_any_other(tmp_path, capsys):
    stop = ('/trajectory_execution_event', String(data='Stop'), log_time(JOINTS, 100.8))
    write_recording(tmp_path / 'record.mcap', JOINTS, EVENTS[:2], others=[stop])
    ((run,), _) = reported(tmp_path / 'record.mcap', capsys)
    assert (run['outcome'], run['reason']) == ('stopped', 'stop on trajectory_execution_event')
    assert run['remarks'][-1]['time_s'] == pytest.approx(0.8, abs=0.01)


def test_what_the_planner_waits_for_before_it_is_ready_is_no_stop(tmp_path, capsys):
    def states(*texts: str) -> list[tuple[str, String, int]]:
        at = [log_time(JOINTS, 100.1 + 0.1 * i) for i in range(len(texts))]
        return [(MOTION_STATE, String(data=s), t) for s, t in zip(texts, at, strict=True)]

    path, waits = tmp_path / 'record.mcap', 'stopped: robot mode not received yet'
    for texts, reason in (
        ([waits, 'ready', 'moving', 'ready'], ''),
        ([waits, 'ready', 'stopped: 7 mm off', 'ready'], '7 mm off'),
        ([waits], 'robot mode not received yet'),
    ):
        write_recording(path, JOINTS, EVENTS[:2], others=states(*texts))
        ((run,), _) = reported(path, capsys)
        assert run['reason'] == reason


def test_topics_of_other_types_are_not_taken_for_the_arms(tmp_path, capsys):
    from control_msgs.msg import InterfaceValue
    from std_msgs.msg import Int8

    others = [
        (f'/lab{topic}', message, log_time(JOINTS, 100.0 + 0.01 * i))
        for i in range(2000)
        for topic, message in (
            ('/joint_states', InterfaceValue()),
            ('/pick_place/event', Int8()),
        )
    ]
    write_recording(tmp_path / 'record.mcap', JOINTS, EVENTS, others=others)
    ((run,), _) = reported(tmp_path / 'record.mcap', capsys)
    assert (run['outcome'], run['reason']) == ('stopped', 'part <b>lost')


def event(t: float, name: str) -> dict:
    """Return an event of a run, with the fields of each kind."""
    fields = {'number': 1, 'of': 2, 'stage': 'lift', 'reason': 'lost'}
    return {'time': t, 'event': name, 'job': 'run', **fields}


@pytest.mark.parametrize(
    ('events', 'cycle'),
    [
        ([event(100.1, 'started'), event(100.6, 'cycle_done'), event(100.6, 'done')], 0.5),
        ([event(100.5, 'done'), event(100.8, 'started'), event(101.0, 'stopped')], None),
        ([event(100.1, 'started'), *(event(t, 'cycle_done') for t in (100.5, 100.9)),
          event(100.9, 'done')], None),
    ],
)
def test_a_cycle_time_is_that_of_one_whole_cycle(events, cycle, tmp_path, capsys):
    write_recording(tmp_path / 'run.mcap', nodding(150), events)
    ((run,), _) = reported(tmp_path / 'run.mcap', capsys)
    assert run['cycle_time_s'] == (cycle and pytest.approx(cycle))


def test_a_record_that_was_saved_in_a_pause_ends_pause_and_stage(tmp_path, capsys):
    paused = {'time': 100.5, 'event': 'paused', 'stage': 'above start'}
    write_recording(tmp_path / 'record.mcap', nodding(150), [*EVENTS[:2], paused])
    ((run,), _) = reported(tmp_path / 'record.mcap', capsys)
    assert run['remarks'][-1]['text'] == '0.69 s'  # of 1.19 s in all
    assert run['stages'][-1]['duration_s'] == pytest.approx(0.892, abs=1e-3)


def test_a_stop_in_a_gap_of_the_joints_keeps_its_time(tmp_path, capsys):
    whole, gap = nodding(1500), np.r_[0:500, 1000:1500]
    joints = RecordedJoints(*(values[gap] for values in vars(whole).values()))
    states = [(t, String(data=s)) for t, s in ((100.1, 'ready'), (106.0, 'stopped: silent'))]
    others = [(MOTION_STATE, state, log_time(joints, t)) for t, state in states]
    write_recording(tmp_path / 'record.mcap', joints, [], others=others)
    ((run,), _) = reported(tmp_path / 'record.mcap', capsys)
    assert run['remarks'][-1]['time_s'] == pytest.approx(6.0, abs=1e-3)


def test_a_recording_that_is_too_long_is_not_called_damaged(tmp_path, monkeypatch, capsys):
    path = tmp_path / 'long.mcap'
    write_recording(path, nodding(1200), EVENTS, [{'arm': ARM}])
    monkeypatch.setattr('ur5_pick_place.report.recording._MOST', 500)
    _, complaint = reported(path, capsys)
    assert 'long.mcap has more than 500 messages of the robot: only these were read' in complaint
    assert 'damaged' not in complaint


# -- folders -------------------------------------------------------------------------------------


def test_of_a_folder_of_records_the_newest_is_reported_and_the_others_are_named(tmp_path, capsys):
    hours = (8, 9, 10, 11, 12, 13, 14, 7)  # the last one is a copy
    names = [f'record-2026-03-01T{hour:02}-00-00.000Z-stop.mcap' for hour in hours]
    for name in names:
        write_recording(tmp_path / name, JOINTS, EVENTS)
    assert report.main([str(tmp_path), '--json']) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 1
    (line,) = said.err.splitlines()
    assert f'8 recordings: this is the newest, {names[6]}; others: {names[5]}, ' in line
    assert line.endswith(' and 2 more') and names[7] not in line
    assert report.main([str(tmp_path)]) == 0
    assert f'{names[6]}: 1.2 s, {2 * JOINTS.t.size + 3} messages' in capsys.readouterr().out
    assert [page.stem for page in tmp_path.glob('*.html')] == [names[6].removesuffix('.mcap')]


@pytest.mark.parametrize('is_closed', [True, False])
def test_the_parts_of_a_bag_are_one_recording_also_where_its_recorder_was_killed(
    is_closed, tmp_path
):
    if is_closed:
        (tmp_path / 'metadata.yaml').write_text('')
    for part in (2, 10):
        write_recording(tmp_path / f'lab_{part}.mcap', JOINTS, EVENTS)
    assert newest_recording(tmp_path) == (tmp_path, '')
    files = [tmp_path / 'lab_2.mcap', tmp_path / 'lab_10.mcap']
    assert recording_files(tmp_path) == files


@pytest.mark.parametrize('is_named', [True, False])
@pytest.mark.parametrize('lost', [0, 1, 2])
def test_a_part_of_a_bag_that_is_missing_is_named(is_named, lost, tmp_path, capsys):
    """By metadata.yaml, also the first or the last; by the numbers of the others, a middle one."""
    names = [f'lab_{part}.mcap' for part in range(3)]
    for name in names[:lost] + names[lost + 1 :]:
        write_recording(tmp_path / name, JOINTS, EVENTS)
    if is_named:
        write_recording(tmp_path / 'other.mcap', JOINTS, EVENTS)
        lines = ''.join(f'    - lab/{name}\n' for name in names)
        (tmp_path / 'metadata.yaml').write_text(
            f'rosbag2_bagfile_information:\n  relative_file_paths:\n{lines}  duration: x\n'
        )
    else:
        os.mkfifo(tmp_path / 'metadata.yaml')  # which must keep nobody waiting
    (_, complaint) = reported(tmp_path, capsys)
    if is_named or lost == 1:
        source = 'metadata.yaml names' if is_named else 'the numbers of its files imply'
        assert f'{source} {names[lost]}, missing here' in complaint
    assert ('metadata.yaml does not name other.mcap: left out' in complaint) == is_named
    assert bool(complaint) == (is_named or lost == 1)


def test_a_bag_without_any_of_its_files_is_no_results_folder(tmp_path, capsys):
    (tmp_path / 'metadata.yaml').write_text('x:\n  relative_file_paths: [lab_0.db3]\n')
    assert report.main([str(tmp_path), '--json']) == 2
    assert 'metadata.yaml names lab_0.db3, missing here' in capsys.readouterr().err


def test_dates_in_names_are_no_parts(tmp_path, capsys):
    write_recording(tmp_path / 'lab_20261126.mcap', JOINTS, EVENTS)
    assert not reported(tmp_path, capsys)[1]


@pytest.mark.parametrize('encoding', ['ros1', 'json', 'protobuf'])
def test_messages_in_another_encoding_are_called_that(encoding, tmp_path, capsys):
    write_foreign(tmp_path / 'a.mcap', '/joint_states', encoding, b'{}')
    assert report.main([str(tmp_path / 'a.mcap')]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"/joint_states has messages in the encoding '{encoding}'" in line
    assert 'malformed' not in line and 'definition' not in line and 'ros2 bag record' in line


def test_a_bag_of_ros_1_is_told_how_to_become_one_of_ros_2(tmp_path, capsys):
    (tmp_path / 'a.bag').write_bytes(b'#ROSBAG V2.0\n')
    for path in (tmp_path, tmp_path / 'a.bag'):
        assert report.main([str(path)]) == 2
        assert 'a.bag: must be a folder, or end in .mcap or .db3: convert it with `rosbags-c' in (
            capsys.readouterr().err
        )


@pytest.mark.parametrize(
    'names',
    [{'space': '/right'}, {'prefix': 'right_'}, {'space': '/right', 'prefix': 'right_'}],
    ids=['namespace', 'prefix', 'both'],
)
def test_of_two_arms_that_with_the_most_joint_states_is_shown_and_the_other_is_named(
    names, tmp_path, capsys
):
    """The other is elsewhere, and its task was stopped; each message is of one arm."""
    shown, other = nodding(160), nodding(120)
    other.q[:] += 1.0
    others = messages(other, EVENTS if 'space' in names else [], **names)
    path = tmp_path / 'a.mcap'
    write_recording(path, shown, [], [{'arm': ARM}], others)
    recording = read_recording(path, is_wanted)
    topics = robot_topics(recording)
    assert np.array([row[2] for row in topics.joint_states]) == pytest.approx(shown.q)
    assert np.array([row[4] for row in topics.controller_states]) == pytest.approx(
        shown.q_reference
    )
    assert not topics.events
    (line,) = recording.problems
    assert line.startswith('2 arms: only that with the most messages is shown, of namespace /;')
    assert all(name in line.partition('not shown: ')[2] for name in names.values())
    assert line in reported(path, capsys)[1]


@pytest.mark.parametrize('storage', ['mcap', 'db3'])
@pytest.mark.parametrize('option', ['--json', '--replay'])
def test_of_a_compressed_bag_one_line_says_how_to_decompress_it(option, storage, tmp_path, capsys):
    name = f'lab_0.{storage}.zstd'
    (tmp_path / 'metadata.yaml').write_text('')
    (tmp_path / name).write_bytes(b'\x28\xb5\x2f\xfd')
    for path in (tmp_path, tmp_path / name):
        assert report.main([str(path), option]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f'is compressed: decompress it first, with `unzstd {name}`' in line
        assert 'ros2 bag convert' in line
    write_recording(tmp_path / f'lab_0.{storage}', JOINTS, EVENTS)
    assert recording_files(tmp_path) == [tmp_path / f'lab_0.{storage}']


@pytest.mark.parametrize(
    ('name', 'reason'), [(b'caf\xe9.mcap', 'x'), (b'two\nlines.mcap', 'x'), (b'a.mcap', '\ud800')]
)
def test_a_name_or_a_reason_that_is_not_printable_is_reported_with_its_page(
    name, reason, tmp_path, capsys
):
    path = tmp_path / os.fsdecode(name)
    write_recording(path, JOINTS, [*EVENTS[:2], {**EVENTS[2], 'reason': reason}], [{'arm': ARM}])
    assert report.main([str(path)]) == 0
    said = capsys.readouterr()
    assert all(line.isprintable() for line in said.out.splitlines())
    assert said.out.splitlines()[-1].startswith('HTML page') and said.out.endswith('.html\n')
    assert not said.err
    assert {file.suffix for file in tmp_path.iterdir()} == {'.mcap', '.html'}


# -- what is missing ----------------------------------------------------------------------------


def test_a_place_that_is_not_writable_costs_the_page_alone(recorded, capsys, monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(13, 'Permission denied')

    monkeypatch.setattr(report, 'page', lambda *_: 'page')
    monkeypatch.setattr(report, 'write_atomically', refuse)
    assert report.main([str(recorded)]) == 0
    said = capsys.readouterr()
    assert 'recording: stopped' in said.out
    assert 'no HTML page was written' in said.err and 'Permission denied' in said.err


@pytest.mark.parametrize('package', ['jinja2', 'mcap', 'mcap_ros2'])
def test_without_an_optional_package_one_line_says_what_to_install(
    package, recorded, capsys, monkeypatch
):
    import sys

    loaded = [n for n in sys.modules if n == package or n.startswith(f'{package}.')]
    for name in [package, *loaded]:
        monkeypatch.setitem(sys.modules, name, None)
    code = report.main([str(recorded)])
    (line,) = capsys.readouterr().err.splitlines()
    assert code == (0 if package == 'jinja2' else 2) and 'pip install' in line


@pytest.mark.parametrize('spacing', [0.002, 0.004, 0.008])
def test_joints_are_compared_with_the_reference_of_their_own_time(spacing):
    """An arm that follows exactly has no error at any rate of the controller's states."""
    nothing = np.full(6, np.nan)
    times = 100.0 + np.arange(0.0, 0.5, spacing)
    measured = [(int(1e9 * t), t, np.full(6, t), np.ones(6), nothing) for t in times]
    rows = [(int(1e9 * t), t, np.full(6, t), np.ones(6), np.full(6, t)) for t in times]
    joints = joints_of(RobotTopics(measured, rows, [], []))
    np.testing.assert_allclose(joints.q, joints.q_reference, atol=1e-9)
