# SPDX-License-Identifier: Apache-2.0
"""Every executable's `--help` says what it is and gives an example, and starts nothing."""

import importlib
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ur5_pick_place.config_files import read_parameters

REPO = Path(__file__).parents[2]
EXECUTABLES = dict(re.findall(r"f'(\w+) = {NAME}\.([\w.]+:\w+)'", (REPO / 'setup.py').read_text()))
NODES = {name for name, place in EXECUTABLES.items() if place.startswith('nodes.')}


def run_help(name, monkeypatch, capsys):
    pytest.importorskip('rclpy')
    import rclpy

    def forbidden(*_arguments, **_options):
        raise AssertionError('--help must not start ROS')

    monkeypatch.setattr(rclpy, 'init', forbidden)
    monkeypatch.setattr(sys, 'argv', [name, '--help'])
    module, function = EXECUTABLES[name].split(':')
    try:
        code = getattr(importlib.import_module(f'ur5_pick_place.{module}'), function)()
    except SystemExit as end:
        code = end.code
    assert not code
    return capsys.readouterr().out


@pytest.mark.parametrize('name', EXECUTABLES)
def test_help_gives_an_example_and_parameters_that_exist(name, monkeypatch, capsys):
    assert {'ik_service', 'trajectory_planner', 'pick_place', 'sim_driver'} <= NODES
    text = run_help(name, monkeypatch, capsys)
    assert text.startswith('usage: ')
    assert re.search(rf'Example:\s.*\b{name}\b', text, re.DOTALL), text
    listed = text.partition('main parameters')[2].partition('Example:')[0]
    named = re.findall(r'^  (\w+) ', listed, re.MULTILINE)
    known = {
        parameter
        for file in (*(REPO / 'config').glob('robot_*.yaml'), REPO / f'config/{name}.yaml')
        if file.exists()
        for parameter in read_parameters(file)
    } | {'ur_type', 'kinematics_params_file', 'tf_prefix', 'controller', 'publish_tf'}
    assert len(named) >= 4 or name not in NODES
    assert set(named) <= known


def test_a_nodes_help_is_quick_and_starts_no_node():
    pytest.importorskip('rclpy')
    begin = time.monotonic()
    words = [Path(sys.executable).with_name('pick_place'), '--help', '--ros-args', '-p', 'a:=1']
    done = subprocess.run(words, capture_output=True, text=True, timeout=30.0, check=False)
    assert (done.returncode, done.stderr) == (0, '')
    assert '~/teach_home' in done.stdout
    assert time.monotonic() - begin < 5.0
