# SPDX-License-Identifier: Apache-2.0
"""Which part of the tree imports which: downwards, in no circle, and no ROS below the nodes."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest

REPO = Path(__file__).resolve().parents[2]
NAME = 'ur5_pick_place'

BASE = {'errors', 'outcome', 'settings', 'config_files', 'terminal'}
ROBOT = BASE | {'kinematics', 'planning', 'control', 'task', 'nodes'}

# part: the other parts that it may import.
MAY_IMPORT = {
    'errors': set(),
    'outcome': set(),
    'settings': {'errors'},
    'config_files': {'errors'},
    'terminal': {'errors'},
    'kinematics': BASE,
    'planning': BASE | {'kinematics'},
    'control': BASE | {'kinematics', 'planning'},
    'task': BASE | {'kinematics', 'planning', 'control'},
    'nodes': ROBOT,
    'launch': ROBOT | {'sim'},  # which it starts too
    'client': ROBOT,
    'cockpit': ROBOT | {'client', 'sim'},  # which knows how an arm looks
    'commands': ROBOT - {'nodes'},
    'commands.move_to': ROBOT | {'client', 'commands'},
    'commands.sim_controller': BASE | {'commands', 'sim', 'sim.controller'},
    'commands.preflight': ROBOT | {'client', 'commands'},
    'report': ROBOT | {'client', 'commands'},
    'demo': ROBOT | {'client', 'commands', 'report', 'sim', 'nodes.sim'},
    # A robot of its own: it shares with ours what an arm is, and no thought about motion.
    'sim': {'kinematics', 'errors', 'settings', 'config_files'},
    'sim.controller': BASE | {'kinematics', 'sim'},
    'nodes.sim': BASE | {'kinematics', 'nodes', 'sim'},
}
WITHOUT_ROS = {
    *(*BASE, 'kinematics', 'planning', 'control', 'task', 'commands', 'commands.sim_controller'),
    *('sim', 'sim.controller'),
}


def module_of(file: Path) -> str:
    words = file.relative_to(REPO).with_suffix('').parts
    return '.'.join(words).removesuffix('.__init__')


SOURCES = {
    module_of(file): file
    for file in [*(REPO / NAME).rglob('*.py'), *(REPO / 'launch').glob('*.py')]
}
MODULES = SOURCES.keys() | {f'{NAME}.kinematics._ik'}  # which is compiled, and imports none


def imports(module: str) -> set[str]:
    """Return what a module imports, late and for type checkers alone too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f'{module}: imports are absolute here'
            modules = {f'{node.module}.{alias.name}' for alias in node.names}
            found |= {name if name in MODULES else node.module or '' for name in modules}
    return found


def part_of(module: str) -> str:
    """Return the folder or top-level module that a module of ours belongs to; else ''."""
    words = module.split('.')
    if words[0] != NAME:
        return words[0] if module in SOURCES else ''
    inner = '.'.join(words[1:3])
    return inner if inner in MAY_IMPORT else words[1] if len(words) > 1 else ''


IMPORTS = {module: imports(module) for module in SOURCES}


def test_imports_point_down():
    assert ROBOT | {'sim', 'nodes.sim', 'demo'} <= {part_of(module) for module in SOURCES}
    upward = [
        f'{module} imports {other}'
        for module, others in IMPORTS.items()
        for other in others
        if other.startswith(NAME) and (part := part_of(module)) and (used := part_of(other))
        and used != part and used not in MAY_IMPORT[part]
    ]
    assert not upward


def test_there_is_no_circle_of_imports():
    TopologicalSorter({m: o & SOURCES.keys() for m, o in IMPORTS.items()}).prepare()


def test_kinematics_and_the_simulated_robot_stand_on_their_own():
    used = {part: set[str]() for part in ('kinematics', 'sim')}
    for part, found in used.items():
        found.update(*(IMPORTS[m] for m in IMPORTS if part_of(m) == part))
    foreign = {o.split('.')[0] for o in used['kinematics']} - {NAME, *sys.stdlib_module_names}
    assert foreign == {'numpy'}
    ours = {other for other in used['sim'] if part_of(other) == 'kinematics'}
    shared = {f'{NAME}.kinematics.{module}' for module in ('transforms', 'mounting')}
    assert ours == shared, 'the cell has figures of its own'


IMPORT_ALL = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in sys.argv[1].split(','):
            raise ModuleNotFoundError(f'No module named {name!r}: ROS is blocked', name=name)

sys.meta_path.insert(0, Blocked())
for module in sys.argv[2].split(','):
    importlib.import_module(module)
"""


def test_everything_below_the_nodes_loads_without_ros():
    """Late imports of ROS are looked for in the source."""
    pytest.importorskip('mujoco')
    manifest = ElementTree.parse(REPO / 'package.xml').getroot()
    ros = {e.text or '' for e in manifest.iter('depend')} | {'ament_index_python', 'launch'}
    below = {module for module in SOURCES if part_of(module) in WITHOUT_ROS}
    assert 'rclpy' in ros and f'{NAME}.task.job' in below
    assert not [(m, o) for m in below for o in IMPORTS[m] if o.split('.')[0] in ros]
    words = [sys.executable, '-c', IMPORT_ALL, ','.join(ros), ','.join(sorted(below))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_no_generic_of_rclpy_is_evaluated_as_older_distributions_have_none():
    """`Future[None]()` is a TypeError on Humble and Jazzy; quoted or local hints are not run."""
    found = []
    for module, file in SOURCES.items():
        tree = ast.parse(file.read_text(encoding='utf-8'))
        froms = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        theirs = {a.name for n in froms if (n.module or '').startswith('rclpy') for a in n.names}
        hints = {
            id(inner)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.AnnAssign)
            for inner in ast.walk(node.annotation)
        }
        found += [
            f'{module}:{node.lineno}: {ast.unparse(node)}'
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and id(node) not in hints
            if isinstance(node.value, ast.Name) and node.value.id in theirs
        ]
    assert not found


def test_a_function_is_read_on_one_screen():
    long = [
        f'{module}: {node.name}'
        for module, file in SOURCES.items()
        for node in ast.walk(ast.parse(file.read_text(encoding='utf-8')))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= 60
    ]
    assert not long
