# SPDX-License-Identifier: Apache-2.0
"""A module is read in one sitting, a function on one screen, and a test by itself."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / 'ur5_pick_place').rglob('*.py'))
TESTS = sorted((ROOT / 'test').glob('test_*.py'))
COMPILED = ROOT / 'ur5_pick_place/kinematics/scalar.py'  # one compiled unit: calls stay inlined
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.mark.parametrize('module', MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_and_its_functions_are_short(module):
    text = module.read_text()
    assert module == COMPILED or len(text.splitlines()) <= 425
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize('test', TESTS, ids=lambda path: path.name)
def test_no_test_imports_another(test):
    for node in ast.walk(ast.parse(test.read_text())):
        names = [node.module or ''] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not [name for name in names if name.split('.')[0].startswith('test_')]
