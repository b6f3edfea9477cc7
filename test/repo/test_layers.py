# SPDX-License-Identifier: Apache-2.0
"""Which part of the tree imports which: downwards, in no circle, and no ROS below the nodes."""

import ast
import functools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPO = Path(__file__).resolve().parents[2]
NAME = 'ur5_pick_place'

BASE = {'errors', 'outcome', 'settings', 'config_files', 'locking', 'pins', 'terminal'}
ROBOT = BASE | {'kinematics', 'planning', 'control', 'task', 'nodes'}

# part: the other parts that it may import.
MAY_IMPORT = {
    'errors': set(),
    'outcome': set(),
    'settings': {'errors'},
    'config_files': {'errors'},
    'locking': {'errors'},
    'pins': set(),
    'terminal': {'errors'},
    'kinematics': BASE,
    'planning': BASE | {'kinematics'},
    'control': BASE | {'kinematics', 'planning'},
    'task': BASE | {'kinematics', 'planning', 'control'},
    'nodes': ROBOT,
    'launch': ROBOT,
    'client': ROBOT,
    'cockpit': ROBOT | {'client'},
    'commands': ROBOT - {'nodes'},
    'commands.move_to': ROBOT | {'client', 'commands'},
    'commands.preflight': ROBOT | {'client', 'commands'},
    'report': ROBOT | {'client', 'commands'},
    'demo': ROBOT | {'client', 'commands', 'report', 'sim', 'nodes.sim'},
    # A robot of its own: it shares with ours what an arm is, and no thought about motion.
    'sim': {'kinematics', 'errors', 'settings', 'config_files', 'pins'},
    'nodes.sim': BASE | {'kinematics', 'nodes', 'sim'},
}
WITHOUT_ROS = {*BASE, 'kinematics', 'planning', 'control', 'task', 'sim', 'commands'}


def read_tree() -> dict[str, str]:
    """Return the source of every module of the package, and of our launch files, by its name."""
    files = [*(REPO / NAME).rglob('*.py'), *(REPO / 'launch').glob('*.py')]
    compiled = {f'{NAME}.kinematics._ik': ''}  # needs nothing
    return compiled | {
        '.'.join(file.relative_to(REPO).with_suffix('').parts).removesuffix('.__init__'):
        file.read_text(encoding='utf-8')
        for file in files
    }


TREE = read_tree()
PACKAGES = {
    '.'.join(file.parent.relative_to(REPO).parts) for file in (REPO / NAME).rglob('__init__.py')
}


@functools.cache
def imports(name: str, source: str) -> frozenset[str]:
    """Return what a module imports, late and for type checkers alone too."""
    found: set[str] = set()
    package = name.split('.') if name in PACKAGES else name.split('.')[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = '.'.join([*start, *([node.module] if node.module else [])])
            modules = {f'{origin}.{alias.name}' for alias in node.names}
            found |= {module if module in TREE else origin for module in modules}
    return frozenset(found)


def graph(tree: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {name: imports(name, source) for name, source in tree.items()}


def part_of(module: str) -> str:
    """Return the folder or top-level module that a module of ours belongs to; else ''."""
    words = module.split('.')
    if words[0] != NAME:
        return words[0] if module in TREE else ''
    if (inner := '.'.join(words[1:3])) in MAY_IMPORT:
        return inner
    return words[1] if len(words) > 1 else ''


def upward_imports(tree: Mapping[str, str]) -> list[str]:
    """Return each import of a part by one that may not import it."""
    return [
        f'{name} imports {other}'
        for name, others in graph(tree).items()
        for other in sorted(others)
        if (part := part_of(name)) and (used := part_of(other))
        and other.startswith(NAME) and used != part and used not in MAY_IMPORT[part]
    ]


def circles(tree: Mapping[str, str]) -> list[set[str]]:
    """Return the sets of modules that import one another in a circle."""
    left = {name: others & tree.keys() for name, others in graph(tree).items()}
    while ends := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in ends}
    found: list[set[str]] = []
    for name in left:
        circle = {n for n in reached_from(name, left) if name in reached_from(n, left)}
        if circle and circle not in found:
            found.append(circle)
    return found


def reached_from(name: str, others: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = {name}
    while ahead:
        ahead = {other for n in ahead for other in others.get(n, ())} - reached
        reached |= ahead
    return reached


@functools.cache
def ros_modules() -> frozenset[str]:
    """Return the modules of the manifest's ROS packages."""
    manifest = ElementTree.parse(REPO / 'package.xml').getroot()
    named = {e.text or '' for e in manifest.iter('depend')}
    return frozenset({*named, 'ament_index_python', 'launch', 'launch_ros', 'rosidl_parser'})


def ros_imports(tree: Mapping[str, str]) -> list[str]:
    """Return each import of ROS below the nodes."""
    return [
        f'{name} imports {other}'
        for name, others in graph(tree).items()
        if part_of(name) in WITHOUT_ROS
        for other in sorted(others)
        if other.split('.')[0] in ros_modules()
    ]


def foreign_imports_of_kinematics(tree: Mapping[str, str]) -> set[str]:
    used = {
        other.split('.')[0]
        for name, others in graph(tree).items()
        if part_of(name) == 'kinematics'
        for other in others
    }
    return used - {NAME, *sys.stdlib_module_names}


def planted(module: str, line: str) -> dict[str, str]:
    """Return the tree with one more import, hidden in a function."""
    module = f'{NAME}.{module}'
    return {**TREE, module: f'{TREE[module]}\n\ndef late():\n    {line}\n'}


# ---- the tree


def test_every_part_has_its_place():
    parts = {part_of(name) for name in TREE} - {''}
    assert parts <= MAY_IMPORT.keys(), 'say in MAY_IMPORT what the new part may import'
    assert ROBOT | {'sim', 'nodes.sim', 'demo', 'report', 'commands', 'launch'} <= parts


def test_imports_point_down():
    assert not upward_imports(TREE)


def test_the_simulated_robot_has_figures_of_its_own():
    ours = {
        other
        for name, others in graph(TREE).items()
        if part_of(name) == 'sim'
        for other in others
        if part_of(other) == 'kinematics'
    }
    assert ours == {f'{NAME}.kinematics.transforms'}


def test_there_is_no_circle_of_imports():
    assert not circles(TREE)


def test_no_import_of_our_own_is_hidden_in_a_string():
    """Only the entry points, which load one node, import by a computed name."""
    hiding = {
        name
        for name, source in TREE.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(f'{NAME}.')
    }
    assert hiding == {f'{NAME}.nodes.ros.entry_points'}


def test_nothing_below_the_nodes_names_ros():
    assert {'rclpy', 'tf2_ros', 'moveit_msgs', 'launch_ros'} <= ros_modules()
    assert not ros_imports(TREE)


def test_kinematics_imports_numpy_alone():
    assert foreign_imports_of_kinematics(TREE) == {'numpy'}


IMPORT_ALL = """
import importlib, sys

ros, modules = [set(words.split(',')) for words in sys.argv[1:]]


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ros:
            raise ModuleNotFoundError(f'No module named {name!r}: ROS is blocked', name=name)


sys.meta_path.insert(0, Blocked())
for module in sorted(modules):
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        print(f'{module}: {error}')
"""


def failed_without_ros(modules: set[str]) -> list[str]:
    """Return what cannot be imported in a fresh process in which there is no ROS, and why."""
    words = [','.join(sorted(names)) for names in (ros_modules(), modules)]
    done = subprocess.run(
        [sys.executable, '-c', IMPORT_ALL, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_everything_below_the_nodes_loads_without_ros():
    pytest.importorskip('mujoco')
    assert not failed_without_ros({name for name in TREE if part_of(name) in WITHOUT_ROS})


# ---- and each of these checks can fail


@pytest.mark.parametrize(
    ('module', 'line'),
    [
        ('errors', 'import ur5_pick_place.settings'),
        ('kinematics.model', 'from ur5_pick_place.planning import limits'),
        ('planning.gate', 'from ur5_pick_place.control.loops.laws import Gradient'),
        ('control.loops.laws', 'from ur5_pick_place.task import job'),
        ('task.cycle', 'import ur5_pick_place.nodes.ros.qos'),
        ('task.cycle', 'from ..nodes.ros import qos'),
        ('task.cycle', 'from ur5_pick_place import report'),
        ('nodes.trajectory_planner.execution', 'from ur5_pick_place.demo.spots import Spot'),
        ('nodes.trajectory_planner.execution', 'from ur5_pick_place.sim.physics import world'),
        ('nodes.trajectory_planner.execution', 'import ur5_pick_place.nodes.sim.driver'),
        ('nodes.trajectory_planner.execution', 'from ur5_pick_place.commands import arguments'),
        ('nodes.sim.driver', 'import ur5_pick_place.demo'),
        ('nodes.sim.driver', 'from ur5_pick_place.planning import gate'),
        ('sim.physics.world', 'from ur5_pick_place.planning import gate'),
        ('sim.physics.world', 'import ur5_pick_place.demo.spots'),
        ('planning.gate', 'import ur5_pick_place.sim.physics.world'),
        ('commands.ik', 'import ur5_pick_place.demo.spots'),
    ],
)
def test_an_import_upwards_is_found(module, line):
    (found,) = upward_imports(planted(module, line))
    assert found.startswith(f'{NAME}.{module} imports {NAME}.')


def test_a_circle_is_found_though_its_import_is_late():
    tree = planted('kinematics.model', 'from ur5_pick_place.kinematics.loading import load_model')
    assert circles(tree) == [{f'{NAME}.kinematics.{m}' for m in ('forward', 'loading', 'model')}]
    tree = planted('task.job', 'from ur5_pick_place.task.job import perform')
    assert circles(tree) == [{f'{NAME}.task.job'}]


def test_ros_below_the_nodes_is_found():
    assert ros_imports(planted('task.job', 'import rclpy.node')) == [
        f'{NAME}.task.job imports rclpy.node'
    ]
    tree = planted('kinematics.model', 'import yaml')
    assert foreign_imports_of_kinematics(tree) == {'numpy', 'yaml'}
    module = f'{NAME}.nodes.ros.qos'
    (said,) = failed_without_ros({module, f'{NAME}.errors'})
    assert said == f"{module}: No module named 'rclpy': ROS is blocked"


def test_no_generic_of_rclpy_is_evaluated_as_older_distributions_have_none():
    """`Future[None]()` is a TypeError on Humble and Jazzy; quoted or local hints are not run."""
    found = []
    for path in sorted((REPO / NAME).rglob('*.py')):
        tree = ast.parse(path.read_text())
        theirs = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('rclpy')
            for alias in node.names
        }
        local = {
            id(inner)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.AnnAssign)
            for inner in ast.walk(node.annotation)
        }
        found += [
            f'{path.name}:{node.lineno}: {ast.unparse(node)}'
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and id(node) not in local
            if isinstance(node.value, ast.Name) and node.value.id in theirs
        ]
    assert not found
