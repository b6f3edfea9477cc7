# SPDX-License-Identifier: Apache-2.0
"""What a node says at the start of what is not given or not looked at, and which tool it knows."""

import pytest

from ur5_pick_place.demo.configuration import CONFIG
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import load_model
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings, load_cell, warn_of_gaps


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
