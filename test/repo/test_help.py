# SPDX-License-Identifier: Apache-2.0
"""Every executable's `--help` says what it is and gives an example, and starts nothing."""

import contextlib
import importlib
import re
import sys
from pathlib import Path

import pytest
import rclpy

from ur5_pick_place.config_files import read_parameters

REPO = Path(__file__).parents[2]
EXECUTABLES = dict(re.findall(r"f'(\w+) = {NAME}\.([\w.]+:\w+)'", (REPO / 'setup.py').read_text()))
NODES = {name for name, place in EXECUTABLES.items() if place.startswith('nodes.')}


@pytest.mark.parametrize('name', EXECUTABLES)
def test_help_starts_nothing_gives_an_example_and_the_parameters(name, monkeypatch, capsys):
    assert {'ik_service', 'trajectory_planner', 'pick_place', 'sim_driver'} <= NODES
    monkeypatch.setattr(rclpy, 'init', lambda *_, **__: pytest.fail('--help must not start ROS'))
    monkeypatch.setattr(sys, 'argv', [name, '--help', '--ros-args', '-p', 'a:=1'])
    module, function = EXECUTABLES[name].split(':')
    with contextlib.suppress(SystemExit):
        assert not getattr(importlib.import_module(f'ur5_pick_place.{module}'), function)()
    text = capsys.readouterr().out
    assert text.startswith('usage: ')
    assert re.search(rf'Example:\s.*\b{name}\b', text, re.DOTALL), text
    if name in NODES:
        parameters = read_parameters(REPO / f'config/{name}.yaml')
        assert len(parameters) >= 3 and all(f'{parameter}: ' in text for parameter in parameters)
