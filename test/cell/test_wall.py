# SPDX-License-Identifier: Apache-2.0
"""A wall between start and target, in the simulated cell and in the planner's scene."""

import numpy as np
import pytest
import yaml
from lab.in_process import InProcessCell
from motion_planners import tool_down
from scipy.spatial.transform import Rotation
from solids import UR5

from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.cycle_layout import wall_across
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import BRANCHES, inverse
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.physics.cell import load_cell
from ur5_pick_place.sim.physics.scene_boxes import load_boxes
from ur5_pick_place.sim.physics.world import World

SPOTS = default_spots()
HEIGHT = 0.35


@pytest.fixture
def wall(tmp_path):
    """The scene file with the wall."""
    return str(CellSetup().write_scene(tmp_path, [wall_across(*SPOTS, HEIGHT)]))


def test_the_wall_stands_halfway_across_the_straight_path(wall):
    (box,) = load_scene(wall).boxes
    p = [np.array([spot.x, spot.y]) for spot in SPOTS]
    np.testing.assert_allclose(box.T_base_link_box[:2, 3], (p[0] + p[1]) / 2)
    assert abs(box.T_base_link_box[:2, 0] @ (p[1] - p[0])) < 1e-9
    assert box.T_base_link_box[2, 3] == HEIGHT / 2
    assert box.size[2] == HEIGHT


@pytest.mark.parametrize(
    'method',
    [
        'ik',
        pytest.param('resolved_rate', marks=pytest.mark.drill),
        pytest.param('gradient', marks=pytest.mark.drill),
    ],
)
def test_the_cube_is_carried_round_the_wall_and_placed(wall, method):
    cell = InProcessCell({'scene_file': wall, 'method': method})
    cell.teach(*SPOTS)
    cell.run()
    remarks = ' '.join(stage.remark for stage in cell.station.machine.plan.cycles[0])
    assert 'way round wall' in remarks
    touched = []
    cell.on_step = lambda: touched.append(cell.world.external_torque)
    cell.until(lambda: not cell.is_busy, 60.0, 'the end of the cycle')
    assert cell.events[-1] == {'time': cell.events[-1]['time'], 'event': 'done', 'job': 'run'}
    distance, turn = cell.placement(default_spots()[1])
    assert distance < 1e-3
    assert turn < 0.01
    assert max(touched) < 10.0


def test_the_cell_reads_the_boxes_as_the_planner_does(tmp_path):
    file = tmp_path / 'scene.yaml'
    box = {'name': 'bin', 'position': [0.4, 0.1, 0.2], 'rpy': [10, -20, 70], 'size': [0.1, 0.2, 1]}
    scene = CellSetup().scene_content([box])
    file.write_text(yaml.safe_dump(scene))
    (ours,), (theirs,) = load_boxes(file), load_scene(file).boxes
    np.testing.assert_allclose(ours.T_base_link_box, theirs.T_base_link_box, atol=1e-12)
    np.testing.assert_array_equal(ours.size, theirs.size)
    model = load_cell(boxes=[ours])
    geom = max(i for i in range(model.ngeom) if model.geom_bodyid[i] == 0)
    np.testing.assert_allclose(model.geom_pos[geom], box['position'])
    np.testing.assert_allclose(model.geom_size[geom], [0.05, 0.1, 0.5])
    R = Rotation.from_quat(model.geom_quat[geom], scalar_first=True).as_matrix()
    np.testing.assert_allclose(R, theirs.T_base_link_box[:3, :3], atol=1e-9)
    file.write_text(yaml.safe_dump({**scene, 'boxes': [{'name': 'bin', 'size': [1, 1, 1]}]}))
    with pytest.raises(InvalidInput, match='position'):
        load_boxes(file)


def test_a_box_of_the_scene_file_is_solid(wall):
    beside = inverse(UR5, tool_down(0.42, -0.15, 0.15))[0][BRANCHES.index('left-up-up')]

    def torque_behind(boxes):
        world, most = World(q=beside, boxes=boxes), 0.0
        for turn in np.linspace(0.0, 0.5, 120):
            world.step(beside + [turn, 0, 0, 0, 0, 0])
            most = max(most, world.external_torque)
        return most

    assert torque_behind(()) < 10.0 < 100.0 < torque_behind(load_boxes(wall))
