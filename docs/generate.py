# SPDX-License-Identifier: Apache-2.0
"""
What the pages say about names and numbers, taken from the product when the site is built.

A line `<!-- generated: NAME -->` of a page becomes what `NAME` of `PARTS` returns.
"""

import ast
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.planning.scene.scene_file import _Scene
from ur5_pick_place.settings import REQUIRED, Settings
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle.file import PlaceSettings
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.grippers.registry import KINDS

HERE = Path(__file__).resolve().parent
REPO, CONFIG = HERE.parent, HERE.parent / 'config'
MARK = re.compile(r'^<!-- generated: (\w+) -->$', re.MULTILINE)
CONTENTS = {
    'tutorials': 'demo cell_page script robot_and_pc first_hour first_cycle ursim',
    'howto': 'operate after_a_stop cycle pallet gripper moveit obstacles jog touch network '
    'two_pcs access recordings',
    'concepts': 'architecture stops kinematics following_a_line conventions',
    'reference': 'client commands parameters interfaces events files',
}
_TITLES = {'howto': 'How to'}
_NOT_OURS = re.compile(
    r'(?<!gripper_action)_controller/|controller_manager|broadcaster|dashboard|joint_states'
)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [[str(cell).replace('|', '\\|').replace('\n', ' ') for cell in line] for line in rows]
    lines = [titles, ['---'] * len(titles), *cells]
    return ''.join(f'| {" | ".join(line)} |\n' for line in lines)


def code(names: Iterable[object]) -> str:
    return ', '.join(f'`{name}`' for name in names)


def value(given: object) -> str:
    return '' if given in (None, '', ()) else f'`{json.dumps(given, default=str)}`'


def limits(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ''
    return f'{"" if low is None else f"{low:g}"} … {"" if high is None else f"{high:g}"}'


def contents() -> str:
    """Return the tree of the site's pages, which GitHub shows as folders."""
    folders = {
        _TITLES.get(folder, folder.capitalize()): [f'{folder}/{name}' for name in names.split()]
        for folder, names in CONTENTS.items()
    }
    folders['Help'] = ['troubleshooting', 'measurements', 'ur_controller']
    return '\n'.join(
        f'```{{toctree}}\n:hidden:\n:caption: {title}\n\n' + '\n'.join(pages) + '\n```\n'
        for title, pages in folders.items()
    )


# ---- files and parameters


def row(f: Any, given: object) -> tuple[str, str, str, str]:
    """Return name, meaning, range and value of a field of a settings class."""
    meta = f.metadata
    text = meta['description'] + (f' [{meta["unit"]}]' if meta['unit'] else '')
    within = code(meta['choices']) or limits(meta['low'], meta['high'])
    return f'`{f.name}`', text, within, '**needed**' if given is REQUIRED else value(given)


def keys_of(kind: type[Settings], title: str) -> str:
    """Return the table of a settings class, then those of the classes that it contains."""
    heads = ('key', 'meaning', 'range', 'default')
    parts = [f'### {title}\n\n' + table(heads, [row(f, f.default) for f in fields(kind)])]
    for f in fields(kind):
        own = f.metadata['of'] or f.metadata['kind']
        if issubclass(own, Settings):
            parts.append(keys_of(own, f'`{f.name}`'))
    return '\n'.join(parts)


def cycle_keys() -> str:
    return keys_of(Stage, 'A stage') + '\n' + keys_of(PlaceSettings, 'A place')


def scene_keys() -> str:
    return keys_of(_Scene, 'The file')


def parameters() -> str:
    """Return the parameters of our nodes, with the values of the files that are read."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted(CONFIG.glob('*.yaml')):
        if not path.name.startswith(('cycle', 'scene', 'gripper')):
            for name, given in read_parameters(path).items():
                files[name].append(f'`{json.dumps(given)}` {path.stem}')
    nodes: dict[str, list[Sequence[str]]] = defaultdict(list)
    for name, (users, text, within, default) in nodes_declare()['parameters'].items():
        values = files[name] or [value(default)]  # by no file: that of the code
        nodes[', '.join(users)].append((f'`{name}`', text, within, '<br>'.join(values)))
    heads = ('parameter', 'meaning', 'range', 'value, file')
    parts = [f'## {users}\n\n{table(heads, rows)}' for users, rows in nodes.items()]
    for kind, gripper in KINDS.items():
        given = read_parameters(CONFIG / f'gripper_{kind}.yaml')
        rows = [row(f, given.get(f.name, f.default)) for f in fields(gripper.settings_type)]
        parts.append(f'## `gripper: {kind}`\n\n{table((*heads[:3], "value"), rows)}')
    return '\n'.join(parts)


# ---- topics, services and actions


def interfaces() -> str:
    """Return what our nodes offer and use, and what of the driver they use."""
    about = yaml.safe_load((HERE / 'reference/interfaces.yaml').read_text())
    found = nodes_declare()['interfaces']
    recorded = [name for verb, name, _ in found['recorder'] if verb == 'subscribes']
    found['recorder'] = [entry for entry in found['recorder'] if entry[0] != 'subscribes']
    named = {name for rows in found.values() for _, name, _ in rows if not _NOT_OURS.search(name)}
    if wrong := about.keys() ^ named:
        raise ValueError(f'reference/interfaces.yaml has too much or too little: {sorted(wrong)}')
    uses, parts, heads = defaultdict(list), [], ('name', 'kind', 'type', 'meaning')
    for node, rows in found.items():
        lines = [(f'`{n}`', verb, f'`{kind}`', about[n]) for verb, n, kind in rows if n in about]
        parts.append(f'## {node}\n\n{table(heads, lines)}')
        for verb, name, kind in rows:
            if name not in about:
                uses[f'`{name}`', verb, f'`{kind}`'].append(node)
    parts.append(f'It records {code(sorted(recorded))}.\n')
    lines = [(*use, code(users)) for use, users in sorted(uses.items())]
    return '\n'.join([*parts, '## Of the driver\n', table(('name', 'use', 'type', 'by'), lines)])


def simulation() -> str:
    rows = [(f'`{name}`', f'`{kind}`') for _, name, kind in nodes_declare()['simulated']]
    return table(('service', 'type'), rows)


@cache
def nodes_declare() -> Any:
    """Return what the nodes declare; another process creates them."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, 'HOME': home, 'ROS_DOMAIN_ID': str(150 + os.getpid() % 80)}
        words = [sys.executable, HERE / 'declarations.py']
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f'the nodes cannot be created: {done.stderr}')
    return json.loads(done.stdout.splitlines()[-1])


# ---- events, commands, client


def event_names() -> str:
    """Return every event with its fields and the text below it in the source."""
    texts = {}
    for line, after in itertools.pairwise(ast.parse(inspect.getsource(events)).body):
        match line, after:
            case ast.Assign(value=ast.Constant(name)), ast.Expr(ast.Constant(text)):
                texts[name] = inspect.cleandoc(text)
    rows = [(f'`{name}`', code(names), texts[name]) for name, names in events.FIELDS.items()]
    return table(('event', 'fields', 'meaning'), rows)


def commands() -> str:
    """Return what `make help` and `--help` of every executable print."""
    names = sorted(re.findall(r"f'(\w+) = ", (REPO / 'setup.py').read_text()))
    calls = {name: [str(Path(sys.executable).parent / name), '--help'] for name in names}
    env = {**os.environ, 'COLUMNS': '88'}
    parts = []
    for name, words in {'make': ['make', '--no-print-directory', 'help'], **calls}.items():
        text = subprocess.check_output(words, cwd=REPO, env=env, text=True)
        parts.append(f'## {name}\n\n```text\n{text.strip()}\n```\n')
    return '\n'.join(parts)


def client() -> str:
    names = ('PickPlaceClient', 'PlanReport', 'RunResult', 'Solutions')
    lines = [f'.. autoclass:: ur5_pick_place.client.{name}\n   :members:\n' for name in names]
    return '```{eval-rst}\n' + '\n'.join(lines) + '```'


PARTS: Mapping[str, Any] = {
    part.__name__: part
    for part in (
        *(contents, cycle_keys, scene_keys, parameters, interfaces, simulation),
        *(event_names, commands, client),
    )
}
