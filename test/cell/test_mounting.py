# SPDX-License-Identifier: Apache-2.0
"""A base on a wall, under a ceiling or tilted: gravity, table, what is up; cycles of any arm."""

import mujoco
import numpy as np
import pytest
import yaml
from lab.in_process import InProcessCell

from ur5_pick_place.demo.configuration import CONFIG, CellSetup
from ur5_pick_place.demo.cycle_layout import wall_across
from ur5_pick_place.demo.options import read_options
from ur5_pick_place.demo.spots import SpotChecker, default_spots, spot_of
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import UR_TYPES, load_model
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import pose_distance
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.layouts import home
from ur5_pick_place.sim.physics.cell import ARM, HAND, load_cell
from ur5_pick_place.sim.physics.scene_boxes import load_boxes, load_table_height
from ur5_pick_place.sim.physics.world import CellSettings, World

# What is up in `base_link`, derived by hand: the last row of Ry(pitch) Rx(roll).
UP = {
    'floor': (0.0, 0.0, 1.0),
    'wall': (-1.0, 0.0, 0.0),
    'ceiling': (0.0, 0.0, -1.0),
    '90 0': (0.0, 1.0, 0.0),
    '30 0': (0.0, 0.5, np.sqrt(0.75)),
    '180 20': (-np.sin(np.radians(20.0)), 0.0, -np.cos(np.radians(20.0))),
}


@pytest.mark.parametrize(('how', 'up'), UP.items())
def test_the_frame_that_is_level_is_turned_by_roll_and_pitch_alone(how, up) -> None:
    mounting = Mounting.read(how)
    np.testing.assert_allclose(mounting.up, up, atol=1e-12)
    R = mounting.R_up_base_link
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(R @ up, (0.0, 0.0, 1.0), atol=1e-12)
    ahead = R.T[:, 0]  # in base_link: where the arm stands out from a wall, else its x
    assert ahead @ ((0.0, 0.0, 1.0) if how in ('wall', '90 0') else (1.0, 0.0, 0.0)) > 0.9
    down = mounting.tool_down(0.1, 0.2, 0.3, 0.5)
    np.testing.assert_allclose(down[:3, 2], np.negative(up), atol=1e-12)
    np.testing.assert_allclose(down[:3, 3], (0.1, 0.2, 0.3))
    assert down[:3, 0] @ ahead == pytest.approx(np.cos(0.5))
    assert Mounting.read(str(mounting)) == mounting


@pytest.mark.parametrize(
    'how', ['', 'roof', '1', '1 2 3', 'nan 0', '0 nan', 'inf 0', '400 0', '1; 2']
)
def test_another_text_is_refused_with_what_it_must_be(how) -> None:
    for reads in (Mounting.read, lambda text: RobotSettings(mounting=text)):
        with pytest.raises(InvalidInput, match='must be floor, wall, ceiling, or roll and pitch'):
            reads(how)


@pytest.mark.parametrize('how', UP)
@pytest.mark.parametrize('ur_type', ['ur5', 'ur10e'])
def test_joints_hold_the_weight_of_arm_tool_and_payload(ur_type, how, rng) -> None:
    """Beside MuJoCo's arm that stands upright while its gravity points where we say by hand."""
    model = load_cell(ur_type=ur_type)
    model.opt.gravity = -9.81 * np.array(UP[how])
    data = mujoco.MjData(model)
    hand, centre = model.body(f'{HAND}gripper'), np.array([0.01, -0.02, 0.1])
    model.body_mass[hand.id], model.body_ipos[hand.id] = 5.0, centre
    fingers = [Load(0.08, (0.0, y, 0.125)) for y in (0.044, -0.044)]
    arm = Dynamics(load_model(ur_type), [Load(5.0, centre), *fingers], Mounting.read(how))
    for q in rng.uniform(-3.0, 3.0, (20, 6)):
        data.qpos[ARM], data.qvel[:] = q, 0.0
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(arm.gravity(q), data.qfrc_bias[ARM], atol=1e-8)


@pytest.mark.parametrize('how', ['wall', 'ceiling', '30 0'])
def test_the_cell_carries_its_arm_with_the_torques_that_we_reckon_with(how, rng) -> None:
    """At rest, with the gripper of the cell as our tool; and in freedrive the arm stays."""
    mounting = Mounting.read(how)
    tool = Load(0.76, (0.0, 0.0, (0.6 * 0.045 + 0.16 * 0.125) / 0.76))
    arm = Dynamics(load_model('ur5'), [tool], mounting)
    for q in (home(mounting), home(mounting) + rng.uniform(-0.4, 0.4, 6)):
        world = World(CellSettings(mounting=how), q, table_height=-1.5)
        for _ in range(125):
            world.step(q)
        np.testing.assert_allclose(world.effort, arm.gravity(q), atol=0.02)
        assert world.external_torque < 0.1
        for _ in range(125):
            world.step(None)
        assert np.abs(world.q - q).max() < 2e-3
    assert np.abs(Dynamics(load_model('ur5'), [tool]).gravity(q) - arm.gravity(q)).max() > 1.0


def scene_for(how, ur_type, folder):
    setup = CellSetup(ur_type, mounting=Mounting.read(how))
    return setup.write_scene(folder), setup


def test_table_and_boxes_are_where_the_planner_has_them(tmp_path) -> None:
    """A point on the table of the cell is at the planner's height, and nothing stands lower."""
    path, setup = scene_for('wall', 'ur5', tmp_path)
    world = World(CellSettings(mounting='wall'), None, load_boxes(path), load_table_height(path))
    T = world.T_base_link_world
    np.testing.assert_allclose(T, setup.T_base_link_table, atol=1e-12)
    height = load_scene(path).table_height
    assert T[:3, 3] @ UP['wall'] == pytest.approx(height) and height < -0.5
    # the cube lies under the arm, which stands out from the wall along its own z
    spot, above = spot_of(T @ world.T_world_part, setup)
    assert (spot.x, spot.y) == pytest.approx(default_spots(setup)[0][:2])
    assert above == pytest.approx(0.0225)
    x, y, z = (T @ world.T_world_part)[:3, 3]
    assert (x, z) == pytest.approx((-height - 0.0225, 0.45)) and y == pytest.approx(-0.2)


@pytest.mark.parametrize('how', ['wall', 'ceiling'])
@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_places_of_the_demo_suit_every_mounted_arm(ur_type, how) -> None:
    setup = CellSetup(ur_type, mounting=Mounting.read(how))
    SpotChecker(setup).check_pair(*default_spots(setup))
    read_options(['--mounting', how, '--ur-type', ur_type])  # the arm is free at home


@pytest.mark.parametrize(
    ('how', 'ur_type', 'method'),
    [
        ('floor', 'ur3e', 'ik'),
        ('floor', 'ur20', 'ik'),
        pytest.param('floor', 'ur16e', 'ik', marks=pytest.mark.drill),
        pytest.param('floor', 'ur18', 'ik', marks=pytest.mark.drill),
        pytest.param('floor', 'ur8long', 'ik', marks=pytest.mark.drill),
        pytest.param('floor', 'ur15', 'resolved_rate', marks=pytest.mark.drill),
        pytest.param('floor', 'ur5e', 'resolved_rate', marks=pytest.mark.drill),
        ('wall', 'ur5', 'ik'),
        ('ceiling', 'ur5e', 'ik'),
        pytest.param('90 0', 'ur20', 'ik', marks=pytest.mark.drill),
        pytest.param('30 0', 'ur5', 'ik', marks=pytest.mark.drill),
        pytest.param('150 20', 'ur5', 'ik', marks=pytest.mark.drill),
        pytest.param('ceiling', 'ur3', 'ik', marks=pytest.mark.drill),
        pytest.param('wall', 'ur5e', 'resolved_rate', marks=pytest.mark.drill),
        pytest.param('ceiling', 'ur5e', 'gradient', marks=pytest.mark.drill),
    ],
)
def test_a_cycle_places_the_cube_within_half_a_millimetre(how, ur_type, method, tmp_path) -> None:
    path, setup = scene_for(how, ur_type, tmp_path)
    start, target = default_spots(setup)
    cell = InProcessCell(
        {'ur_type': ur_type, 'mounting': how, 'scene_file': str(path), 'method': method}
    )
    cell.put_part(start)
    cell.teach(start, target)
    cell.reset_measurements()
    lowest = []
    up, scene = Mounting.read(how).up, cell.station.planner.scene
    cell.on_step = lambda: lowest.append(
        (cell.world.T_base_link_world @ cell.world.T_world_tcp)[:3, 3] @ up - scene.table_height
    )
    cell.run()
    cell.until(lambda: not cell.is_busy, 60.0, 'the end of the cycle')
    cell.wait(0.3)
    assert not cell.stop_reason
    laid = cell.world.T_base_link_world @ cell.T_world_part
    assert max(cell.placement(target)[0], pose_distance(laid, target.T_base_link_part)[0]) < 0.5e-3
    assert cell.speed < 1.005, 'no joint beyond the speed of its type'
    assert min(lowest) > 0.02, 'the TCP comes to the cube from above'


def test_a_wall_stands_upright_on_the_table_of_a_mounted_arm() -> None:
    setup = CellSetup(mounting=Mounting.read('wall'))
    scene = setup.scene_content([wall_across(*default_spots(setup), 0.2)])
    *_, box = load_boxes_of(scene)
    spot, height = spot_of(box, setup)
    assert height == pytest.approx(0.1) and (spot.x, spot.y) == pytest.approx((0.425, 0.025))
    np.testing.assert_allclose(box[:3, 2], UP['wall'], atol=1e-9)


def load_boxes_of(scene):
    from ur5_pick_place.planning.scene.scene_file import scene_from_dict

    return [box.T_base_link_box for box in scene_from_dict(yaml.safe_load(yaml.dump(scene))).boxes]


def test_a_cell_in_which_the_arm_cannot_wait_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidInput, match='at home forearm is .* wall .* choose a lower --wall'):
        read_options(['--mounting', 'ceiling', '--wall', '0.3'])


def test_a_driver_begins_where_the_arm_hangs_free() -> None:
    world = World(CellSettings(mounting='ceiling'), table_height=-0.67)
    driver = Driver(world)
    for _ in range(50):
        driver.cycle()
    np.testing.assert_allclose(driver.q, home(Mounting.read('ceiling')), atol=1e-3)


def test_one_value_reaches_every_node_and_no_other_may_contradict_it(tmp_path) -> None:
    own = tmp_path / 'cell.yaml'
    own.write_text('/**: {ros__parameters: {scene_file: /my/scene.yaml}}')
    specs = node_list('sim', CONFIG, mounting='wall', params_file=str(own), cockpit={})
    assert {spec.parameters['mounting'] for spec in specs} == {'wall'}
    own.write_text('/**: {ros__parameters: {scene_file: /my/scene.yaml, mounting: floor}}')
    with pytest.raises(InvalidInput, match="mounting = 'floor' conflicts with 'wall'"):
        node_list('sim', CONFIG, mounting='wall', params_file=str(own))
    assert Mounting.read('floor') == FLOOR
