# SPDX-License-Identifier: Apache-2.0
"""
Settings as ROS parameters.

What people may write, what `ros2 param describe` tells them, and that config/ shows every default.
"""

import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import rclpy
import yaml
from calibration_files import SHIPPED, write

from ur5_pick_place.commands import ik
from ur5_pick_place.config_files import read_parameters, user_path
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.nodes.cell.node_list import ROBOTS, node_list
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings, load_cell, warn_of_gaps
from ur5_pick_place.nodes.ik_service import node as ik_service
from ur5_pick_place.nodes.pick_place import settings as pick_place
from ur5_pick_place.nodes.ros import process
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.sim import driver as sim_driver
from ur5_pick_place.nodes.trajectory_planner import settings as planner
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.grippers.registry import KINDS as GRIPPERS
from ur5_pick_place.task.places.poses import TaughtPose

CONFIG = Path(__file__).parents[3] / 'config'
FILES = {
    f
    for robot in ROBOTS
    for gripper in GRIPPERS
    for spec in node_list(robot, CONFIG, gripper=gripper)
    for f in spec.parameter_files
}
KINDS = {
    kind
    for module in (ik_service, pick_place, sim_driver, planner)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Settings) and kind is not TaughtPose
} | {kind.settings_type for kind in GRIPPERS.values()}
DEFAULTS = {f.name: f.default for kind in KINDS for f in fields(kind)}


def values_of(file):
    return yaml.safe_load(file.read_text())['/**']['ros__parameters']


@dataclass(frozen=True)
class Sample(Settings):
    offset: tuple[float, ...] = setting((0.5, 0.5), 'an offset', low=-1.0, high=1.0, length=2)
    grid: tuple[int, ...] = setting((1, 1), 'cells', low=1, high=50, length=2)
    names: tuple[str, ...] = setting(('a', 'b'), 'names')
    signal: str = setting('none', 'a signal', choices=('none', 'input'))
    checked: bool = setting(True, 'a check')


@pytest.fixture
def declare(context):
    """Declare the sample with overrides, in a node that is returned with it."""
    nodes = []

    def make(**overrides):
        given = [rclpy.Parameter(name, value=value) for name, value in overrides.items()]
        nodes.append(rclpy.create_node('sample', context=context, parameter_overrides=given))
        return nodes[-1], *declare_settings(nodes[-1], Sample)

    yield make
    for node in nodes:
        node.destroy_node()


@pytest.mark.parametrize('node', ['/sample', '/left/sample', '/a/left/sample', '/left/other'])
def test_a_file_has_the_parameters_for_a_node_that_ros_gives_it(context, tmp_path, node):
    keys = ('/**', '/*', 'sample', '/left/sample', '/*/sample', '/**/sample', '/left/**', 'left/*',
            '/**/left/sample', '/a/*/sample')  # fmt: skip
    sections = {key: {'ros__parameters': {f'p{i}': i}} for i, key in enumerate(keys)}
    sections['left'] = {'sample': {'ros__parameters': {'nested': 7}}}
    file = tmp_path / 'own.yaml'
    file.write_text(yaml.safe_dump(sections, sort_keys=False))
    space, _, name = node.rpartition('/')
    arguments = ['--ros-args', '--params-file', str(file)]
    made = rclpy.create_node(name, namespace=space, context=context, cli_args=arguments)
    given = {name: p.value for name, p in made._parameter_overrides.items()}
    assert read_parameters(file, node) == given


@pytest.mark.parametrize(
    ('sections', 'told'),
    [
        (['/**', 'sample', 'teleop', '/right/**/other', 'example_controller'], []),
        (['sampel', 'right/sample_node', 'sample'], ['/sampel']),
        (['/right/Sample', '/*/sample'], ['/right/Sample', '/*/sample']),
        (['/sample', '/right/sample'], []),
        (['/right/sample'], ['/right/sample']),
    ],
)
def test_a_section_that_may_be_meant_for_a_node_and_is_not_is_told(
    declare, tmp_path, monkeypatch, capfd, sections, told
):
    """Sections of other nodes are theirs, those of another namespace beside our own too."""
    file = tmp_path / 'own.yaml'
    content = {key: {'ros__parameters': {'p': 1}} for key in sections}
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    monkeypatch.setattr(sys, 'argv', ['node', '--ros-args', '--params-file', str(file)])
    declare()
    said = [line for line in capfd.readouterr().err.splitlines() if 'is not for this node' in line]
    assert [line.split("'")[1] for line in said] == told


def test_whole_numbers_serve_in_a_list_of_floats(declare):
    _, sample = declare(offset=[0, 1])
    assert sample.offset == (0.0, 1.0) and isinstance(sample.offset[0], float)


@pytest.mark.parametrize('value', [[True, False], ['0', '1'], 1.0])
def test_other_kinds_do_not_serve_as_floats(declare, value):
    with pytest.raises(InvalidInput, match='offset'):
        declare(offset=value)


def test_a_list_of_whole_numbers_takes_no_fractions(declare):
    with pytest.raises(InvalidInput, match='grid'):
        declare(grid=[1.0, 2.0])


@pytest.mark.parametrize(
    ('given', 'said'),
    [
        ({'signal': False}, 'must be text; put it in quotes, as YAML reads on, off, yes and no'),
        ({'signal': 5}, 'signal = 5: must be text; put it in quotes'),
        ({'checked': 'true'}, "checked = 'true': must be true or false"),
    ],
)
def test_a_word_that_yaml_reads_as_something_else_is_refused_with_its_cure(declare, given, said):
    with pytest.raises(InvalidInput, match=said):
        declare(**given)


def test_an_unknown_parameter_is_refused_with_the_nearest_name(declare):
    with pytest.raises(InvalidInput, match="unknown parameter 'ofset'; did you mean offset?"):
        declare(ofset=[0.0, 1.0])
    with pytest.raises(InvalidInput, match="'my_port'; that of a gripper class goes under /"):
        declare(my_port='/dev/ttyUSB0', gripper='my_gripper:SerialGripper')


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('offset', '2 entries, each -1.0 to 1.0'),
        ('grid', '2 entries, each 1 to 50'),
        ('names', ''),
    ],
)
def test_a_list_of_numbers_is_described_with_its_length_and_range(declare, name, text):
    node, _ = declare()
    assert node.describe_parameter(name).additional_constraints == text


def test_every_parameter_of_a_node_is_in_a_file():
    named = {name for file in FILES for name in values_of(file)}
    # A file would overrule what `-p` says before it, and the driver must be given it too; a
    # payload would hold for one type.
    unnamed = {'kinematics_params_file', 'rated_payload'}
    assert DEFAULTS.keys() - named == unnamed and named <= DEFAULTS.keys()


@pytest.mark.parametrize('file', sorted(f for f in FILES if not f.stem.startswith('robot_')))
def test_what_differs_between_no_robots_is_the_default_of_the_code(file):
    for name, value in values_of(file).items():
        assert (tuple(value) if isinstance(value, list) else value) == DEFAULTS[name], name


def test_a_bare_name_is_a_file_of_the_package_wherever_one_stands(tmp_path, monkeypatch):
    stray = tmp_path / 'scene_sim.yaml'
    stray.write_text('table_height: -1.5\ntool: {tcp: {position: [0, 0, 0]}}\n')
    monkeypatch.chdir(tmp_path)
    assert load_cell(RobotSettings(scene_file='scene_sim.yaml')).scene.table_height == 0.0
    for name in ('./scene_sim.yaml', str(stray)):
        assert load_cell(RobotSettings(scene_file=name)).scene.table_height == -1.5
    stray.rename(tmp_path / 'mine.yaml')
    with pytest.raises(InvalidInput, match=f'config/mine.yaml; for {tmp_path}/mine.yaml give'):
        load_cell(RobotSettings(scene_file='mine.yaml'))


def test_the_home_directory_may_be_written_as_a_tilde_wherever_a_file_is_named(
    tmp_path, monkeypatch, capsys
):
    """No shell puts it in place of the tilde in `name:=~/file` or `--name=~/file`."""
    monkeypatch.setenv('HOME', str(tmp_path))
    write(tmp_path / 'my_ur5.yaml', SHIPPED)
    scene = (CONFIG / 'scene_sim.yaml').read_text()
    (tmp_path / 'scene.yaml').write_text(scene.replace('table_height: 0.0', 'table_height: -0.5'))
    (tmp_path / 'own.yaml').write_text('/**/pick_place: {ros__parameters: {gripper: vacuum}}')
    cell = load_cell(
        RobotSettings(kinematics_params_file='~/my_ur5.yaml', scene_file='~/scene.yaml')
    )
    assert (cell.model.calibration, cell.scene.table_height) == ('calib_1234', -0.5)
    pose = ['--xyz', '0.45', '-0.2', '0.3', '--rpy', '180', '0', '90', '--json']
    assert ik.main([*pose, '--robot=~/my_ur5.yaml', '--scene=~/scene.yaml']) == 0
    assert '"calib_1234"' in capsys.readouterr().out
    (spec,) = (s for s in node_list('sim', CONFIG, params_file='~/own.yaml')
               if s.executable == 'pick_place')  # fmt: skip
    assert spec.parameter_files[-1] == tmp_path / 'own.yaml'
    assert CONFIG / 'gripper_vacuum.yaml' in spec.parameter_files
    monkeypatch.setattr(sys, 'argv', ['node', '--ros-args', '--params-file', '~/own.yaml'])
    monkeypatch.setattr(process, 'init_ros', lambda **_: None)
    process.start_ros()
    assert sys.argv[-1] == str(tmp_path / 'own.yaml')
    with pytest.raises(InvalidInput, match=r'~nobody-of-this-name/x: its ~ is unknown: write'):
        load_cell(RobotSettings(scene_file='~nobody-of-this-name/x'))
    assert user_path('${HOME}/x') == user_path('$HOME/x') == tmp_path / 'x'
    for unknown in ('$NOT_SET_HERE/x', '$(env HOME)/x'):
        with pytest.raises(InvalidInput, match='its first folder is no variable that is set'):
            user_path(unknown)


def test_a_calibration_of_another_type_than_ur_type_is_refused_by_every_node(tmp_path):
    path = str(write(tmp_path / 'my_ur5.yaml', SHIPPED))
    own = RobotSettings(ur_type='ur5', kinematics_params_file=path)
    assert load_cell(own).model.calibration == 'calib_1234'
    with pytest.raises(InvalidInput, match=f'{path}. belongs to a ur5, but ur_type = ur10e: add'):
        load_cell(RobotSettings(ur_type='ur10e', kinematics_params_file=path))


def test_a_calibration_of_the_lengths_that_two_types_share_is_of_either(tmp_path):
    links = {
        **SHIPPED,
        'shoulder': (0, 0, 0.1625, 0, 0, 0),
        'wrist_1': (-0.3922, 0, 0.1333, 0, 0, 0),
        'wrist_2': (0, -0.0997, 0, 1.570796327, 0, 0),
        'wrist_3': (0, 0.0996, 0, *SHIPPED['wrist_3'][3:]),
    }
    path = str(write(tmp_path / 'my_ur7e.yaml', links))
    for name in ('ur5e', 'ur7e'):
        model = load_cell(RobotSettings(ur_type=name, kinematics_params_file=path)).model
        assert (model.name, model.calibration) == (name, 'calib_1234')


def test_an_arm_carries_what_its_label_says():
    assert load_cell(RobotSettings(ur_type='ur10e', payload_mass=12.0)).model.payload == 12.5
    with pytest.raises(InvalidInput, match='a ur10e carries 10 kg'):
        load_cell(RobotSettings(ur_type='ur10e', payload_mass=12.0, rated_payload=10.0))


class Log:
    """Stands for a node and for its log."""

    def __init__(self):
        self.lines = []

    def get_logger(self):
        return self

    def warning(self, line):
        self.lines.append(line)


def test_a_bare_cell_has_no_tcp_and_says_what_is_missing():
    cell, log = load_cell(RobotSettings()), Log()
    assert cell.T_tool_tcp is None
    warn_of_gaps(log, cell.model, cell.unset_parameters, check_modes=True)
    (line,) = log.lines
    assert line.startswith('the arm will not be moved: not given: scene_file (table height')


def test_a_robot_whose_limits_are_assumed_is_not_moved_until_somebody_confirms_them():
    given = {'scene_file': 'scene_sim.yaml', 'payload_mass': 0.5, 'tool_voltage': 24}
    why = load_cell(RobotSettings(ur_type='ur8long', **given)).unset_parameters
    assert 'limits_confirmed (joint speeds and torques (those of the ur15) of the ur8long' in why
    for own in ({'limits_confirmed': True}, {'is_simulated': True}):
        assert not load_cell(RobotSettings(ur_type='ur8long', **given, **own)).unset_parameters
    assert not load_cell(RobotSettings(ur_type='ur15', **given)).unset_parameters


def test_checks_that_are_off_get_a_banner_that_names_them():
    log = Log()
    warn_of_gaps(log, load_model('ur5'), '', check_modes=False, confirm_pins=False)
    stars, line, _ = log.lines
    assert set(stars) == {'*'} and len(stars) == len(line)
    assert 'check_modes, confirm_pins: OFF. FOR MOCK HARDWARE ONLY' in line


def test_a_whole_cell_is_silent():
    cell = load_cell(
        RobotSettings(scene_file='scene_sim.yaml', payload_mass=0.5, tool_voltage=24)
    )
    log = Log()
    warn_of_gaps(log, cell.model, cell.unset_parameters, check_modes=True, confirm_pins=True)
    assert cell.T_tool_tcp is not None and not log.lines


def test_a_users_file_cannot_overrule_what_the_driver_is_given_too(tmp_path):
    own = tmp_path / 'cell.yaml'
    own.write_text('/**: {ros__parameters: {controller: joint_trajectory_controller}}')
    with pytest.raises(InvalidInput, match='controller .* conflicts with'):
        node_list('real', CONFIG, params_file=str(own))
    own.write_text('/**: {ros__parameters: {ur_type: ur5, payload_mass: 1.0}}')
    specs = node_list('sim', CONFIG, params_file=str(own))
    assert {spec.parameter_files[-1] for spec in specs} == {own}, 'the simulated cell reads it too'
