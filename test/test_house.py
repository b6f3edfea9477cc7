# SPDX-License-Identifier: Apache-2.0
"""A module is read in one sitting, a function on one screen, and a test by itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = list((ROOT / 'ur5_pick_place').rglob('*.py'))
FOLDERS = ('bench', 'examples', 'launch', 'test', 'underlay')
TESTS = list((ROOT / 'test').glob('test_*.py'))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ''
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_a_module_has_at_most_425_lines():
    ours = [*MODULES, *(path for folder in FOLDERS for path in (ROOT / folder).rglob('*.py'))]
    assert len(ours) > 400
    assert [path for path in ours if len(path.read_text().splitlines()) > 425] == []


def test_a_function_has_at_most_60_lines():
    long = [
        (path.name, node.name)
        for path in MODULES
        for node in functions(path)
        if node.end_lineno - node.lineno >= 60
    ]
    assert long == []


def test_no_test_imports_another():
    assert len(TESTS) > 100
    assert [
        (path.name, name) for path in TESTS for name in imported(path) if name.startswith('test_')
    ] == []
