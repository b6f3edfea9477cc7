# SPDX-License-Identifier: Apache-2.0
"""A function is read on one screen, and a test by itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = list((ROOT / 'ur5_pick_place').rglob('*.py'))
TESTS = list((ROOT / 'test').rglob('test_*.py'))


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
