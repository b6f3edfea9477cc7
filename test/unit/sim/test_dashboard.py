# SPDX-License-Identifier: Apache-2.0
"""The dashboard as PolyScope 3, 5 and X have it; what one lacks is refused by name."""

import pytest

from ur5_pick_place.sim.dashboard import Dashboard
from ur5_pick_place.sim.robot import Robot


@pytest.mark.parametrize(
    ('ur_type', 'polyscope', 'major', 'model'),
    [('ur10', '3', 3, 'UR10'), ('ur10e', '5', 5, 'UR10'), ('ur5e', 'X', 10, 'UR5')],
)
def test_version_and_model(ur_type, polyscope, major, model):
    dashboard = Dashboard(Robot(), ur_type, polyscope)
    assert dashboard.version[0] == major
    assert dashboard.polyscope_version().text.startswith(f'URSoftware {major}.')
    assert dashboard.get_robot_model().text == model


@pytest.mark.parametrize(
    ('polyscope', 'has'),
    [
        ('3', {'get_user_role'}),
        ('5', {'is_in_remote_control', 'clear_operational_mode'}),
        ('X', {'is_in_remote_control', 'clear_operational_mode', 'resume'}),
    ],
)
def test_what_a_polyscope_lacks_is_refused_by_name(polyscope, has):
    dashboard = Dashboard(Robot(), 'ur5e', polyscope)
    for name in ('get_user_role', 'is_in_remote_control', 'clear_operational_mode', 'resume'):
        answer = getattr(dashboard, name)()
        assert answer.success == (name in has), name
        assert answer.success or answer.text.startswith(f'PolyScope {polyscope} has no ')


def test_resume_continues_a_paused_program_of_polyscope_x():
    robot = Robot()
    assert robot.pause() and not Dashboard(robot, 'ur5e', '5').resume().success
    assert Dashboard(robot, 'ur5e', 'X').resume().success and robot.moves
