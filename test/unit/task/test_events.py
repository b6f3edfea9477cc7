# SPDX-License-Identifier: Apache-2.0
"""`task.events` is the one list of the task's events: every call that emits one agrees with it."""

import ast
from pathlib import Path

import pytest

from ur5_pick_place.task import events

PACKAGE = Path(events.__file__).parents[1]


def emitted():
    """Return (file:line, event expressions, keywords) of every call of an `emit`."""
    for path in sorted(PACKAGE.rglob('*.py')):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Call) and getattr(node.func, 'attr', '') in ('emit', '_emit'):
                first = node.args[0]
                names = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
                yield f'{path.name}:{node.lineno}', names, [k.arg for k in node.keywords]


@pytest.mark.parametrize(('where', 'names', 'fields'), list(emitted()))
def test_an_event_carries_the_fields_that_its_list_names(where, names, fields):
    for name in names:
        assert isinstance(name, ast.Attribute), f'{where}: give a constant of task.events'
        known = events.FIELDS[getattr(events, name.attr)]
        assert fields == [None] or tuple(fields) == known, where  # [None]: **keywords


def test_every_event_is_emitted_somewhere():
    found = {getattr(events, name.attr) for _, names, _ in emitted() for name in names}
    assert found == set(events.FIELDS)
