# SPDX-License-Identifier: Apache-2.0
"""What the package declares is what it is: dependencies, executables, version."""

import ast
import configparser
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ur5_pick_place

REPO = Path(__file__).resolve().parents[1]
NAME = 'ur5_pick_place'

# rosdep keys whose Python module has another name.
MODULE_OF = {
    'pinocchio': 'pinocchio',
    'python3-matplotlib': 'matplotlib',
    'python3-numpy': 'numpy',
    'python3-pil': 'PIL',
    'python3-scipy': 'scipy',
    'python3-yaml': 'yaml',
}
WITHOUT_KEY = {'mujoco', 'ruckig'}  # installed with pip, as the README says
# Run, not imported; pinocchio is DESIGN's choice for the torque check.
NOT_IMPORTED = {
    'pinocchio', 'robot_state_publisher', 'rviz2', 'ur_description', 'ur_robot_driver', 'xacro',
}


def manifest() -> ElementTree.Element:
    return ElementTree.parse(REPO / 'package.xml').getroot()


def declared_modules() -> set[str]:
    keys = {e.text or '' for tag in ('depend', 'exec_depend') for e in manifest().iter(tag)}
    return {MODULE_OF.get(key, key) for key in keys}


def imported_modules() -> dict[str, str]:
    """Return every foreign top-level module with one file that imports it."""
    found = {}
    for file in [*REPO.glob(f'{NAME}/**/*.py'), *REPO.glob('launch/*.py')]:
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


def entry_points() -> dict[str, str]:
    """Return executable -> `module:function` as setup.py declares them."""
    text = (REPO / 'setup.py').read_text().replace('{NAME}', NAME)
    return dict(re.findall(r"f'(\w+) = ([\w.]+:\w+)'", text))


def test_every_import_is_declared_in_the_manifest():
    undeclared = {
        module: file
        for module, file in imported_modules().items()
        if module not in declared_modules() | WITHOUT_KEY
    }
    assert not undeclared, 'add to package.xml, or to the README if rosdep has no key'


def test_every_package_that_the_launch_file_runs_is_declared():
    text = (REPO / 'launch/pick_place.launch.py').read_text()
    run = re.findall(r"(?:package=|FindPackageShare\(|FindExecutable\(name=)'(\w+)'", text)
    assert 'xacro' in run and set(run) <= declared_modules()


def test_every_declared_dependency_is_used():
    unused = declared_modules() - set(imported_modules()) - NOT_IMPORTED
    assert not unused, 'declared in package.xml, imported nowhere'


def test_the_three_versions_agree():
    in_setup = re.search(r"version='([^']+)'", (REPO / 'setup.py').read_text())
    assert in_setup is not None
    assert manifest().findtext('version') == in_setup[1] == ur5_pick_place.__version__


@pytest.mark.parametrize('executable', entry_points())
def test_every_executable_has_its_function(executable):
    module, function = entry_points()[executable].split(':')
    file = REPO / f'{module.replace(".", "/")}.py'
    assert file.exists(), f'{executable} is declared in setup.py, but {file} is not there'
    body = ast.parse(file.read_text()).body
    assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_node_is_an_executable():
    files = REPO.glob(f'{NAME}/nodes/*.py')
    nodes = {file.stem for file in files if 'def main(' in file.read_text()}
    assert nodes <= set(entry_points())


def test_programs_go_where_ros2_run_looks():
    config = configparser.ConfigParser()
    config.read(REPO / 'setup.cfg')
    assert config['install']['install_scripts'] == f'$base/lib/{NAME}'
    assert config['develop']['script_dir'] == f'$base/lib/{NAME}'


def test_colcon_does_not_see_what_stands_in_for_ros():
    assert (REPO / 'underlay/COLCON_IGNORE').exists()


def test_every_source_file_names_its_licence():
    folders = (NAME, 'launch', 'test', 'underlay')
    files = [REPO / 'setup.py', *(f for name in folders for f in REPO.glob(f'{name}/**/*.py'))]
    first = '# SPDX-License-Identifier: Apache-2.0\n'
    assert not [str(f) for f in files if not f.read_text().startswith(first)]
