# SPDX-License-Identifier: Apache-2.0
"""`pip install .` where there is nothing but NumPy gives the kinematics, `ik` and `fk`."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest

REPO = Path(__file__).resolve().parents[2]
NAME = 'ur5_pick_place'
PATH = {'PATH': '/usr/bin:/bin'}  # of the compiler, and no other variable
PIP = (sys.executable, '-m', 'pip', '--disable-pip-version-check')

pytestmark = [
    pytest.mark.drill,  # compiles for 15 s
    pytest.mark.skipif(not importlib.util.find_spec('pip'), reason='needs pip'),
]


@pytest.fixture(scope='module')
def bare(tmp_path_factory):
    """Return the programs' folder of an environment with NumPy and this package's wheel."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'
    for name in (NAME, 'launch', 'config', 'resource'):
        shutil.copytree(REPO / name, source / name, ignore=shutil.ignore_patterns('*.so'))
    for name in ('setup.py', 'setup.cfg', 'pyproject.toml', 'package.xml'):
        shutil.copy(REPO / name, source)
    offline = ('--no-build-isolation', '--check-build-dependencies', '--no-deps', '--no-index')
    call(*PIP, 'wheel', *offline, '--wheel-dir', folder, source)
    (wheel,) = folder.glob('*.whl')
    venv.create(folder / 'venv')
    python = folder / 'venv/bin/python'
    packages = Path(sysconfig.get_path('purelib', 'venv', {'base': str(folder / 'venv')}))
    for path in Path(np.__file__).parents[1].glob('numpy*'):
        (packages / path.name).symlink_to(path)
    call(*PIP, '--python', python, 'install', '--no-index', wheel)  # whose only need is there
    return python.parent


def call(*words):
    done = subprocess.run(words, env=PATH, cwd='/', capture_output=True, text=True, timeout=250.0)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_kinematics_invert_themselves(bare):
    code = """
import numpy as np
from ur5_pick_place.kinematics import BRANCHES, classify, forward, inverse, load_model
for name in ('ur5', 'ur20'):
    model, q = load_model(name), np.array([0.3, -1.2, 1.5, -1.9, -1.4, 0.2])
    found, ok = inverse(model, forward(model, q))
    print(len(BRANCHES), np.abs(found[classify(model, q)] - q).max() < 1e-9)
"""
    assert call(bare / 'python', '-c', code).split() == ['8', 'True'] * 2


def test_ik_and_fk_print_their_tables(bare):
    pose = ('--xyz', '0.45', '0.1', '0.3', '--rpy', '180', '0', '0')
    table = call(bare / 'ik', *pose)
    assert table.count('-up-') == 4 and 'not checked: coal is not installed' in table
    joints = table.splitlines()[1].split()[1:7]
    position = call(bare / 'fk', *joints).splitlines()[0].split()[-3:]
    assert np.allclose([float(word) for word in position], [0.45, 0.1, 0.3], atol=1e-4)


@pytest.mark.parametrize('program', ['demo', 'preflight', 'ik_service', 'cockpit'])
def test_all_else_names_what_is_missing_and_where_it_comes_from(bare, program):
    done = subprocess.run([bare / program], env=PATH, capture_output=True, text=True, timeout=60.0)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert 'is not installed: it comes with ROS 2' in line and 'make setup' in line
