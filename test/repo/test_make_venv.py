# SPDX-License-Identifier: Apache-2.0
"""The set-up refuses in words, says what is missing, and does nothing twice."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / 'underlay/make_venv.py'


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """Return the set-up script as a module that builds in a folder of its own."""
    spec = importlib.util.spec_from_file_location('make_venv', SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, 'VENV', tmp_path / '.venv')
    monkeypatch.setattr(module, 'STAMPS', tmp_path / '.venv/.setup')
    monkeypatch.setattr(module, 'BUILD', tmp_path / 'build')
    (tmp_path / 'build').mkdir()
    return module


def test_a_python_without_wheels_is_refused_with_the_command_that_works(setup, monkeypatch):
    monkeypatch.setattr(setup.platform, 'python_version_tuple', lambda: ('3', '10', '2'))
    monkeypatch.setattr(setup.shutil, 'which', lambda name: name == 'python3.12')
    with pytest.raises(setup.SetupError, match='is Python 3.10; 3.11, 3.12, 3.13 work: '
                       'make setup PYTHON=python3.12'):
        setup.check_machine()


def test_a_distribution_without_wheels_is_refused(setup):
    with pytest.raises(setup.SetupError, match="ROS = 'humble': wheels exist for kilted and j"):
        setup.main('humble')


def test_another_distribution_is_another_environment(setup):
    kilted, jazzy = ({key for _, key, _ in setup.plan(ros)} for ros in ('kilted', 'jazzy'))
    assert not kilted & jazzy


def test_all_that_is_missing_is_named_at_once(setup, monkeypatch):
    monkeypatch.setattr(setup.shutil, 'which', lambda name: None)
    monkeypatch.setattr(setup.importlib.util, 'find_spec', lambda name: None)
    monkeypatch.setattr(setup.sysconfig, 'get_config_var', lambda name: '/nowhere')
    monkeypatch.setattr(setup, 'loads', lambda library: False)
    monkeypatch.setattr(setup.os, 'geteuid', lambda: 1000)
    version = f'{sys.version_info.major}.{sys.version_info.minor}'
    packages = f'gcc g\\+\\+ python{version}-venv python{version}-dev libegl1 libegl-mesa0'
    with pytest.raises(setup.SetupError, match=f'sudo apt-get install {packages}'):
        setup.install_system_packages()


def test_a_failed_command_shows_the_end_of_its_log(setup):
    code = 'import sys; print("\\n".join(f"line {i}" for i in range(99))); sys.exit("too late")'
    with pytest.raises(setup.SetupError) as refused:
        setup.run('trial', sys.executable, '-c', code, cwd='/')
    assert 'trial failed (code 1)' in str(refused.value)
    assert str(refused.value).endswith('line 98\ntoo late')
    assert 'line 5\n' not in str(refused.value)


def test_an_environment_that_is_not_ours_is_left_alone(setup):
    (setup.VENV / 'precious').mkdir(parents=True)
    with pytest.raises(setup.SetupError, match='was not made by this set-up; move it away'):
        setup.install_python_packages('kilted', [])
    assert (setup.VENV / 'precious').exists()


def test_an_environment_of_ours_that_was_not_removed_whole_stays_ours(setup, monkeypatch):
    for path in (setup.STAMPS / 'interface_packages', setup.VENV / 'lib/big'):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('old')

    def interrupted(path, **_):
        raise KeyboardInterrupt

    with monkeypatch.context() as now, pytest.raises(KeyboardInterrupt):
        now.setattr(setup.shutil, 'rmtree', interrupted)
        setup.install_python_packages('kilted', [])
    assert not setup.is_done('interface packages', 'old')
    monkeypatch.setattr(setup, 'run', lambda *_, **__: None)
    setup.install_python_packages('kilted', [])
    assert not (setup.VENV / 'lib').exists()


def test_a_finished_step_is_not_done_again_until_its_inputs_change(setup):
    setup.STAMPS.mkdir(parents=True)
    done = []
    for key in ('one', 'one', 'two'):
        setup.run_step('[1/1]', 'a step', key, lambda: done.append('done'))
    assert done == ['done', 'done']


def test_a_step_that_broke_off_counts_as_not_done(setup):
    setup.STAMPS.mkdir(parents=True)
    setup.run_step('[1/1]', 'a step', 'one', lambda: None)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup.run_step('[1/1]', 'a step', 'two', interrupted)
    assert not setup.is_done('a step', 'one')
    assert not setup.is_done('a step', 'two')


def test_a_folder_that_cannot_be_written_is_named_in_one_line(tmp_path):
    (tmp_path / 'underlay').mkdir()
    script = shutil.copy(SCRIPT, tmp_path / 'underlay')
    (tmp_path / 'build').write_text('a file where the folder should be')
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=30.0, check=False
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f'{tmp_path}/build' in line and line.startswith('set-up stopped: ')


def test_make_keeps_python_and_ros_of_the_environment_that_is_there(tmp_path):
    """Another one would have the environment made anew, under whatever runs in it."""
    shutil.copy(REPO / 'Makefile', tmp_path)
    own = 'PYTHON', 'ROS', 'MAKEFLAGS', 'MAKEOVERRIDES'
    env = {name: value for name, value in os.environ.items() if name not in own}

    def chosen(*given: str) -> tuple[str, str]:
        # Where a make runs the tests, this one would say first which folder it enters.
        told = ['make', '--no-print-directory', '-n', 'setup', *given]
        done = subprocess.run(
            told, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        python, _script, ros = done.stdout.split()
        return python, ros

    assert chosen() == ('python3', 'kilted')
    there = tmp_path / 'python3.12'
    there.touch()
    for folder in ('bin', '.setup'):
        (tmp_path / '.venv' / folder).mkdir(parents=True)
    (tmp_path / '.venv/bin/python').symlink_to(there)
    (tmp_path / '.venv/.setup/ros').write_text('jazzy')
    assert chosen() == (str(there), 'jazzy')
    assert chosen('PYTHON=python3.13', 'ROS=kilted') == ('python3.13', 'kilted')
