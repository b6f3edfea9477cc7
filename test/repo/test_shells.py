# SPDX-License-Identifier: Apache-2.0
"""Shells that are not made for this environment: each executable works, or names the cure."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tf2_ros

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.ros.distro import distro
from ur5_pick_place.nodes.ros.environment import prepare_environment

REPO = Path(__file__).resolve().parents[2]
CLIENT = 'from ur5_pick_place.client import PickPlaceClient; PickPlaceClient(timeout=1.0)'
COMMANDS = {
    'node': ['ik_service'],
    'cell': ['cell'],
    'demo': ['demo'],
    'preflight': ['preflight'],
    'move_to': ['move_to', '0.4', '0', '0.3', '0'],
    'client': ['python', '-c', CLIENT],
}
# How each shows that it has begun, and ends: on a domain that cannot be, or without its file.
BEGINS = {name: (words, "ROS_DOMAIN_ID = '999'") for name, words in COMMANDS.items()}
BEGINS['demo'] = ['demo', '--cycle', '/no.yaml'], 'cycle file /no.yaml cannot be read'

if not Path(tf2_ros.__file__).is_relative_to(REPO / 'underlay'):
    pytest.skip('a ROS 2 installation has a shell of its own', allow_module_level=True)


# Each takes a second or two to load; the first two cover most of it.
each_command = pytest.mark.parametrize(
    'command',
    [
        name if name in ('node', 'client') else pytest.param(name, marks=pytest.mark.drill)
        for name in COMMANDS
    ],
)


def run(words: list[str], *before: str, **variables: str) -> tuple[str, str]:
    """Run a command with other environment variables; return its last line, and all of them."""
    environment = {**os.environ, 'ROS_DOMAIN_ID': '999', **variables}
    environment = {name: value for name, value in environment.items() if value}
    environment.pop('_ROS_WHEELS_BOOTSTRAP_COMPLETE', None)  # that of this test
    program, *arguments = words
    done = subprocess.run(
        [*before, str(Path(sys.executable).with_name(program)), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200.0,
        check=False,
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1], '\n'.join(lines)


@each_command
def test_a_ros_of_another_python_that_the_shell_has_sourced_is_not_used(tmp_path, command):
    prefix = tmp_path / 'opt/ros/jazzy'
    modules = prefix / 'lib/python3.9/site-packages'
    for name in ('rclpy', 'numpy', 'yaml', 'moveit_msgs'):
        (modules / name).mkdir(parents=True)
        (modules / name / '__init__.py').write_text('from . import _for_another_python')
    words, wanted = BEGINS[command]
    end, _ = run(
        words,
        ROS_DISTRO='jazzy',
        AMENT_PREFIX_PATH=str(prefix),
        PYTHONPATH=str(modules),
        LD_LIBRARY_PATH=f'{prefix}/lib',
    )
    assert wanted in end


@each_command
def test_a_middleware_that_is_not_installed_is_named_with_its_cure(command):
    words, wanted = BEGINS[command]
    end, text = run(words, RMW_IMPLEMENTATION='rmw_cyclonedds_cpp')
    assert text.count('to be rid of this line: unset RMW_IMPLEMENTATION') == 1
    assert wanted in end


def test_a_node_starts_where_warnings_are_errors():
    words, wanted = BEGINS['node']
    assert wanted in run(words, PYTHONWARNINGS='error')[0]


def test_without_home_it_is_found_or_named(ros_domain, monkeypatch):
    domain = os.environ['ROS_DOMAIN_ID']
    assert run(COMMANDS['client'], HOME='', ROS_DOMAIN_ID=domain)[0].startswith(
        'ur5_pick_place.errors.TimedOut: pick_place, trajectory_planner, ik_service not found'
    )
    for name in ('HOME', 'ROS_LOG_DIR', 'ROS_HOME'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, 'expanduser', lambda path: path)
    with pytest.raises(InvalidInput, match='HOME is not set, and user .* has no home directory'):
        prepare_environment()


@pytest.mark.parametrize(
    ('text', 'reach'),
    [('<interfaceWhiteList>', 'SYSTEM_DEFAULT'), ('<!-- Größe -->', 'LOCALHOST')],
)
def test_a_profile_of_dds_in_another_encoding_is_read(monkeypatch, tmp_path, text, reach):
    (tmp_path / 'own.xml').write_text(f'<?xml encoding="ISO-8859-1"?>é{text}', encoding='latin-1')
    monkeypatch.setenv(distro().profiles, str(tmp_path / 'own.xml'))
    monkeypatch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    prepare_environment()
    assert os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] == reach


@each_command
def test_without_loopback_the_cure_is_named(command):
    without = ['unshare', '--net']
    if not shutil.which('unshare') or subprocess.run([*without, 'true'], check=False).returncode:
        pytest.skip('needs unshare, and the right to use it')
    end, _ = run(COMMANDS[command], *without, ROS_DOMAIN_ID='203')
    assert '127.0.0.1 cannot be reached' in end and 'sudo ip link set lo up' in end
