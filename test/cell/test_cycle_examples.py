# SPDX-License-Identifier: Apache-2.0
"""The cycle files of config/ and others on the whole cell in one process, with somebody at it."""

import contextlib
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.task.cycle import load_cycle
from ur5_pick_place.task.pattern import PatternSettings
from ur5_pick_place.task.poses import TaughtPose, numbers_from_matrix
from ur5_pick_place.trials import cycle_demo
from ur5_pick_place.trials.cycle_demo import run_cycle_file
from ur5_pick_place.trials.cycle_layout import (
    Attendant,
    ends_of_parts,
    layout,
    pattern,
    pick_places,
)
from ur5_pick_place.trials.demo_options import read_options
from ur5_pick_place.trials.in_process import InProcessCell

CONFIG = Path(__file__).parents[2] / 'config'


class CellOf:
    """A cell that runs a cycle file, its parts in place and its places taught."""

    def __init__(self, path, grid=None, **overrides):
        self.cycle = load_cycle(path)
        self.spots, picks = layout(self.cycle), pick_places(self.cycle)
        overrides |= pattern(grid)
        self.ends = ends_of_parts(
            self.cycle,
            self.spots,
            PatternSettings.from_dict({k: v for k, v in overrides.items() if 'target' in k}),
        )
        feeder = self.spots[picks[-1]]
        self.cell = cell = InProcessCell(
            {
                'cycle_file': str(path),
                'parts': len(self.ends),
                'part_x': feeder.x,
                'part_y': feeder.y,
                **overrides,
            }
        )
        self.switched = []
        for number, place in enumerate(picks):
            if number:
                cell.world.feed_part()
            cell.put_part(self.spots[place])
        cell.teach(*list(self.spots.values())[:2])
        home, origin = cell.poses['home'], cell.station.provenance
        T_base_grip = {n: T_BASE_BASE_LINK @ s.T_base_link_grip for n, s in self.spots.items()}
        cell.poses = {'home': home} | {
            name: TaughtPose(numbers_from_matrix(T), origin, '') for name, T in T_base_grip.items()
        }
        cycles = len(self.ends) // len(picks)
        self.attendant = Attendant(self.cycle, self.switch, cell.world.feed_part, cycles)
        cell.events.clear()

    def switch(self, pin, level):
        self.switched.append((pin, level))
        self.cell.driver.io.switch_input(pin, level)

    def attend(self):
        self.attendant.react(self.cell.events, self.cell.time)

    def run(self, limit=60.0):
        self.cell.on_step = self.attend
        self.cell.run()
        self.cell.until(lambda: not self.cell.is_busy, limit, 'the end of the run')
        self.cell.wait(0.4)
        assert self.cell.stop_reason == ''

    def misses(self):
        laid = self.cell.world.T_world_parts
        return [
            float(np.linalg.norm(a[:3, 3] - b[:3, 3]))
            for a, b in zip(laid, self.ends, strict=True)
        ]

    def stages(self):
        return [e['stage'] for e in self.cell.events if e['event'] == 'stage']


def test_two_parts_go_into_two_boxes_in_one_cycle():
    cell = CellOf(CONFIG / 'cycle_two_boxes.yaml')
    cell.run()
    assert max(cell.misses()) < 2e-3
    assert cell.stages() == [stage.name for stage in cell.cycle]
    assert cell.cell.driver.robot.payload[0] == 0.0
    verified = [e for e in cell.cell.events if e['event'] == 'grasp_verified']
    assert len(verified) == 2


def test_a_part_is_handed_over_when_the_button_is_pressed_and_the_lamp_is_on_until_then():
    cell = CellOf(CONFIG / 'cycle_hand_over.yaml')
    lamp = []
    attend = cell.attend

    def look():
        attend()
        machine = cell.cell.station.machine.state
        if machine.startswith('running: button'):
            lamp.append((machine, cell.cell.driver.io.pins.digital_out[0]))

    cell.attend = look
    cell.run()
    assert max(cell.misses()) < 2e-3
    named = 'running: button (wait for input 0 on, at most 60 s)'
    assert any(state == named for state, _ in lamp) and all(on for _, on in lamp[20:])
    assert not cell.cell.driver.io.pins.digital_out[0]
    assert (0, True) in cell.switched and not cell.cell.driver.io.pins.digital_in[0]
    waits = {e['stage']: e['reason'] for e in cell.cell.events if e['event'] == 'waiting'}
    assert waits['hands off'] == 'wait 0.5 s'


def test_a_pallet_is_filled_cell_by_cell_as_parts_come_on_the_belt():
    cell = CellOf(CONFIG / 'cycle_vacuum_pallet.yaml', grid=(2, 1, 1))
    cell.run(90.0)
    assert max(cell.misses()) < 2e-3
    assert [level for pin, level in cell.switched if pin == 1] == [True, False] * 2


def test_nobody_at_the_button_ends_the_run_by_name_and_the_gripper_keeps_the_part(tmp_path):
    path = tmp_path / 'cycle.yaml'
    text = (CONFIG / 'cycle_hand_over.yaml').read_text()
    path.write_text(text.replace('timeout: 60', 'timeout: 1.5'))
    cell = CellOf(path)
    cell.cell.run()
    cell.cell.until(lambda: not cell.cell.is_busy, 60.0, 'the stop')
    assert cell.cell.stop_reason == (
        "stage 'button': input 0 was not on within timeout = 1.5 s: check what switches it and "
        'its wiring, or increase the timeout'
    )
    begun, ended = (
        next(e['time'] for e in cell.cell.events if e['event'] == kind and e['stage'] == 'button')
        for kind in ('stage', 'stopped')
    )
    assert 1.5 <= ended - begun < 1.6
    assert cell.cell.holds_part


def test_a_place_read_from_a_frame_has_no_spot():
    assert set(layout(load_cycle(CONFIG / 'cycle_tag.yaml'))) == {'target'}


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['--cycle', 'cycle_tag.yaml'], "the TF frame 'part_0', which the demo does not"),
        (['--cycle', 'cycle_none.yaml'], 'cycle_none.yaml cannot be read'),
        (['--cycle', 'cycle_two_boxes.yaml', '--grid', '2 1 1'], '--grid needs a cycle that'),
        (['--cycle', 'cycle.yaml', '--start', '0.4 0.1 0'], 'leave out --start'),
        (['--grid', '2 1 1'], '--grid needs --cycle'),
        (['--cycle', 'cycle.yaml', '--grid', '2 1'], 'must be three whole numbers, 1 to 9'),
    ],
)
def test_a_demo_of_a_cycle_that_cannot_be_is_refused_before_it_starts(
    tmp_path, capsys, arguments, reason
):
    try:
        code = run_cycle_file(read_options([*arguments, '--out', str(tmp_path)], CONFIG))
    except SystemExit as end:
        code = end.code
    assert code == 2 and reason in capsys.readouterr().err


class Recorder:
    """A recording that may be written only once nothing is added to it any more."""

    def __init__(self, *_arguments):
        self.is_recording = False
        self.written = []

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        assert self.written

    @contextlib.contextmanager
    def recording(self, _domain):
        self.is_recording = True
        yield ['a message']
        self.is_recording = False

    def add(self, messages):
        assert not self.is_recording, 'messages still come'
        self.written += messages


def test_the_recording_of_a_cycle_is_written_once_it_has_ended(tmp_path, monkeypatch, capsys):
    pytest.importorskip('rclpy')
    nobody = mock.Mock(events=[])  # for the nodes, and for their operator
    nobody.parts.return_value, nobody.log.return_value = [], ''
    operator = 'ur5_pick_place.trials.cycle_operator.CycleOperator'
    monkeypatch.setattr(operator, lambda *_: contextlib.nullcontext(nobody))
    monkeypatch.setattr(cycle_demo, 'NodeProcesses', lambda *_: contextlib.nullcontext(nobody))
    monkeypatch.setattr(cycle_demo, 'RunFile', Recorder)
    options = read_options(['--cycle', 'cycle.yaml', '--out', str(tmp_path)], CONFIG)
    assert run_cycle_file(options) == 0
    assert f'{tmp_path / "latest"} -> ' in capsys.readouterr().out


def test_a_pallet_of_more_cubes_than_the_cell_holds_is_refused_before_anything_starts(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cycle_demo, 'NodeProcesses', mock.Mock(side_effect=AssertionError))
    words = ['--cycle', 'cycle_vacuum_pallet.yaml', '--gripper', 'vacuum', '--grid', '5 5 1']
    assert run_cycle_file(read_options([*words, '--out', str(tmp_path)], CONFIG)) == 2
    said = capsys.readouterr().err
    assert '--grid 5 5 1: cycle_vacuum_pallet.yaml needs 25 cubes' in said
    assert 'at most 24' in said
    assert not list(tmp_path.iterdir())
