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
    assert dashboard.version[0] == major and dashboard.model == model
    assert dashboard.state()['polyscopeversion'].startswith(f'URSoftware {major}.')


@pytest.mark.parametrize(
    ('polyscope', 'has'),
    [
        ('3', {'user_role'}),
        ('5', {'remote_control', 'clear_operational_mode'}),
        ('X', {'remote_control', 'clear_operational_mode', 'resume'}),
    ],
)
def test_what_a_polyscope_lacks_is_refused_by_name(polyscope, has):
    dashboard = Dashboard(Robot(), 'ur5e', polyscope)
    for name in ('user_role', 'remote_control', 'clear_operational_mode', 'resume'):
        refusal = dashboard.lacking(name)
        assert (refusal is None) == (name in has), name
        assert refusal is None or refusal.text.startswith(f'PolyScope {polyscope} has no ')
    assert dashboard.act('resume').success == (polyscope == 'X')


def test_resume_continues_a_paused_program_of_polyscope_x():
    robot = Robot()
    assert robot.pause() and not Dashboard(robot, 'ur5e', '5').act('resume').success
    assert Dashboard(robot, 'ur5e', 'X').act('resume').success and robot.moves
