# SPDX-License-Identifier: Apache-2.0
"""What the package declares is what it is: dependencies, executables, version."""

import ast
import configparser
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ur5_pick_place

REPO = Path(__file__).resolve().parents[2]
NAME = 'ur5_pick_place'

# rosdep keys whose Python module has another name.
MODULE_OF = {
    'mcap-ros2-support': 'mcap_ros2',
    'pinocchio': 'pinocchio',
    'python3-jinja2': 'jinja2',
    'python3-matplotlib': 'matplotlib',
    'python3-mujoco-pip': 'mujoco',
    'python3-numpy': 'numpy',
    'python3-pil': 'PIL',
    'python3-scipy': 'scipy',
    'python3-yaml': 'yaml',
    'python3-hypothesis': 'hypothesis',
    'python3-pytest': 'pytest',
    'python3-pytest-timeout': 'pytest_timeout',
}
# Installed with pip, as the README says; rosbags is for tests. What comes with another: mcap and
# zstandard with mcap-ros2-support, the last three with viser.
WITHOUT_KEY = {
    *('rosbags', 'ruckig', 'viser'),
    *('mcap', 'zstandard', 'msgspec', 'trimesh', 'websockets'),
}
OURS = (f'{NAME}/**/*.py', 'launch/*.py')
NEEDED = ('depend', 'exec_depend')
# Run, not imported; pinocchio is DESIGN's choice for the torque check.
NOT_IMPORTED = {
    'pinocchio', 'robot_state_publisher', 'rviz2', 'ur_description', 'ur_robot_driver', 'xacro',
}
# Installed by `make bench`; tests without it are skipped.
OF_BENCH = {'rtde_control', 'rtde_io', 'rtde_receive'}
IN_TESTS_OF_OTHERS = {'pytest'}  # where `sim/controller/pytest_plugin.py` is loaded


def manifest() -> ElementTree.Element:
    return ElementTree.parse(REPO / 'package.xml').getroot()


def declared_modules(*tags: str) -> set[str]:
    keys = {e.text or '' for tag in tags for e in manifest().iter(tag)}
    return {MODULE_OF.get(key, key) for key in keys}


def imported_modules(*patterns: str) -> dict[str, str]:
    """Return every foreign top-level module with one file that imports it."""
    found = {}
    for file in (file for pattern in patterns for file in REPO.glob(pattern)):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or '']
            for name in names:
                found[name.split('.')[0]] = str(file.relative_to(REPO))
    own = {NAME, *sys.stdlib_module_names}
    return {module: file for module, file in found.items() if module not in own}


def test_every_import_is_declared_in_the_manifest():
    undeclared = {
        module: file
        for module, file in imported_modules(*OURS).items()
        if module not in declared_modules(*NEEDED) | WITHOUT_KEY | IN_TESTS_OF_OTHERS
    }
    assert not undeclared, 'add to package.xml, or to the README if rosdep has no key'


def test_every_package_that_the_launch_file_runs_is_declared():
    text = (REPO / 'launch/pick_place.launch.py').read_text()
    run = re.findall(r"(?:package=|FindPackageShare\(|FindExecutable\(name=)'(\w+)'", text)
    assert 'xacro' in run and set(run) <= declared_modules(*NEEDED)


def test_every_declared_dependency_is_used():
    unused = declared_modules(*NEEDED) - set(imported_modules(*OURS)) - NOT_IMPORTED
    assert not unused, 'declared in package.xml, imported nowhere'


def test_what_the_tests_need_is_declared_and_used():
    helpers = {file.stem for file in REPO.glob('test/**/*.py')} | {'lab'}
    known = helpers | declared_modules(*NEEDED) | WITHOUT_KEY | OF_BENCH
    used = imported_modules('test/**/*.py').keys() - known
    config = configparser.ConfigParser()
    config.read(REPO / 'setup.cfg')
    plugins = {'pytest_timeout'} if 'timeout' in config['tool:pytest'] else set()
    declared = declared_modules('test_depend')
    assert declared == used | plugins, (
        'test_depend of package.xml; the driver of a device that tests only fake is none: what '
        'they try gets it by importlib.import_module'
    )


def test_the_three_versions_agree():
    in_setup = re.search(r"version='([^']+)'", (REPO / 'setup.py').read_text())
    assert in_setup is not None
    assert manifest().findtext('version') == in_setup[1] == ur5_pick_place.__version__


def test_programs_go_where_ros2_run_looks():
    config = configparser.ConfigParser()
    config.read(REPO / 'setup.cfg')
    assert config['install']['install_scripts'] == f'$base/lib/{NAME}'
    assert config['develop']['script_dir'] == f'$base/lib/{NAME}'


def test_colcon_does_not_see_what_stands_in_for_ros():
    assert (REPO / 'underlay/COLCON_IGNORE').exists()


def test_every_source_file_names_its_licence():
    folders = (NAME, 'launch', 'test', 'underlay', 'examples')
    files = [REPO / 'setup.py', *(f for name in folders for f in REPO.glob(f'{name}/**/*.py'))]
    first = '# SPDX-License-Identifier: Apache-2.0\n'
    assert not [str(f) for f in files if not f.read_text().startswith(first)]


@pytest.mark.parametrize(
    ('target', 'variable'),
    [('cell', 'METHOD'), ('demo', 'PARTS'), ('soak', 'WALL'), ('demo', 'ur_type')],
)
def test_make_refuses_a_variable_that_its_target_would_ignore(target, variable):
    def dry_run(*words):
        return subprocess.run(['make', '-n', *words], cwd=REPO, capture_output=True, text=True)

    refused = dry_run(target, f'{variable}=1')
    assert refused.returncode == 2
    assert f'make {target} does not take {variable}, only ' in refused.stderr
    assert dry_run(target, 'UR_TYPE=ur5e', 'ROS=kilted').returncode == 0
    assert dry_run('setup', f'{variable}=1').returncode == 0
