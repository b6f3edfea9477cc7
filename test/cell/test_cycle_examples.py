# SPDX-License-Identifier: Apache-2.0
"""The cycle files of config/ and others on the whole cell in one process, with somebody at it."""

from pathlib import Path

import numpy as np
import pytest
from lab.in_process import InProcessCell

from ur5_pick_place.demo import recorded_run
from ur5_pick_place.demo.cycle_layout import Attendant, layout, pattern, task_of
from ur5_pick_place.demo.options import read_options
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK
from ur5_pick_place.task.cycle.file import load_cycle
from ur5_pick_place.task.places.poses import TaughtPose, numbers_from_matrix

CONFIG = Path(__file__).parents[2] / 'config'


class CellOf:
    """A cell that runs a cycle file, its parts in place and its places taught."""

    def __init__(self, path, grid=None, **overrides):
        self.cycle = load_cycle(path)
        self.spots = layout(self.cycle)
        task = task_of(self.cycle, self.spots, grid)
        self.ends, picks = task.ends, [pick for pick, _ in task.moves]
        feeder = self.spots[picks[-1]]
        self.cell = cell = InProcessCell(
            {
                'cycle_file': str(path),
                'parts': len(self.ends),
                'part_x': feeder.x,
                'part_y': feeder.y,
                **overrides,
                **pattern(grid),
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
        self.attendant = Attendant(self.cycle, self.switch, cell.world.feed_part, task.cycles)
        cell.events.clear()
        self.seen = 0

    def switch(self, pin, level):
        self.switched.append((pin, level))
        self.cell.driver.io.switch_input(pin, level)

    def attend(self):
        for event in self.cell.events[self.seen :]:
            self.attendant.take(event, self.cell.time)
        self.seen = len(self.cell.events)
        self.attendant.react(self.cell.time)

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


def test_a_place_read_from_a_frame_has_no_spot():
    assert set(layout(load_cycle(CONFIG / 'cycle_tag.yaml'))) == {'target'}


@pytest.mark.parametrize(
    ('arguments', 'reason'),
    [
        (['--cycle', 'cycle_tag.yaml'], "the TF frame 'part_0', which the demo does not"),
        (['--cycle', 'cycle_none.yaml'], 'cycle_none.yaml cannot be read'),
        (['--cycle', 'cycle_two_boxes.yaml', '--grid', '2 1 1'], '--grid needs a cycle that'),
        (['--cycle', 'cycle_two_boxes.yaml', '--start', '0.4 0.1 0'], '--start needs a place'),
        (['--cycle', 'cycle_hand_over.yaml', '--wall', '0.3'], '--wall needs a place'),
        (['--cycle', 'cycle_two_boxes.yaml', '--displace', '1 0 0'], 'this one moves 2'),
        (['--cycle', 'cycle_hand_over.yaml', '--start', '0.41 0.25 0'], 'mm apart'),
        (['--grid', '9 1 1', '--ur-type', 'ur3'], 'end of cube .* out of reach|off the table'),
        (['--grid', '2 1 1', '--target', '0.45 -0.26 90'], 'mm apart'),
        (['--grid', '5 5 1'], '--grid 5 5 1: the cycle needs 25 cubes.*at most 24'),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused_before_anything_starts(arguments, reason):
    with pytest.raises(InvalidInput, match=reason):
        read_options(arguments)


@pytest.mark.parametrize('ur_type', UR_TYPES)
@pytest.mark.parametrize(('name', 'cubes'), [('two_boxes', 2), ('hand_over', 1)])
def test_every_cycle_is_laid_out_for_every_type(ur_type, name, cubes):
    words = ['--cycle', f'cycle_{name}.yaml', '--ur-type', ur_type, '--method', 'all']
    options = read_options(words)
    assert len(options.task.ends) == cubes and len(options.methods) == 3
    first = options.task.spots['part_1' if cubes == 2 else 'start']
    assert first == default_spots(options.setup)[0]


def test_the_nodes_of_a_demo_get_cycle_grid_gripper_type_and_wall(tmp_path):
    words = ['--grid', '2 1 1', '--gripper', 'vacuum', '--ur-type', 'ur5e', '--wall', '0.2']
    options = read_options([*words, '--start', '0.5 -0.1 10'])
    nodes = recorded_run.nodes_of_demo('ik', options, tmp_path, {})
    specs = {spec.executable: spec.parameters for spec in nodes}
    assert list(specs) == ['sim_driver', 'ik_service', 'trajectory_planner', 'pick_place']
    task, sim = specs['pick_place'], specs['sim_driver']
    assert task['cycle_file'] == str(CONFIG / 'cycle.yaml') and task['target_grid'] == [2, 1, 1]
    assert {p['ur_type'] for p in specs.values()} == {'ur5e'}
    assert {p['scene_file'] for p in specs.values()} == {str(tmp_path / 'scene.yaml')}
    assert task['gripper'] == sim['gripper'] == 'vacuum'
    assert (sim['parts'], sim['part_x'], sim['part_y']) == (2, 0.5, -0.1)
