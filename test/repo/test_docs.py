# SPDX-License-Identifier: Apache-2.0
"""Each of our commands, arguments and files that pages and workflows name exists; `--help`."""

import argparse
import ast
import contextlib
import importlib
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import rclpy
import yaml

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.kinematics import UR_TYPES
from ur5_pick_place.task.cycle.stages import ACTIONS, MOVES, WAITS_AND_PINS, Stage
from ur5_pick_place.task.grippers.registry import KINDS

REPO = Path(__file__).resolve().parents[2]
CONFIG = REPO / 'config'
PAGES = {
    str(p.relative_to(REPO)): p
    for p in [REPO / 'README.md', REPO / 'CONTRIBUTING.md', *REPO.glob('docs/**/*.md')]
}
WORKFLOWS = {p.name: p for p in REPO.glob('.github/workflows/*.yml')}
NAMING = {**PAGES, **WORKFLOWS}
EXECUTABLES = dict(re.findall(r"f'(\w+) = {NAME}\.([\w.]+:\w+)'", (REPO / 'setup.py').read_text()))
NODES = {name for name, place in EXECUTABLES.items() if place.startswith('nodes.')}


def text_of(page):
    return NAMING[page].read_text(encoding='utf-8')


def anchors(text):
    """Return what GitHub calls the headings of a page in a link."""
    headings = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    return {re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-') for heading in headings}


def commands_of(workflow):
    """Return what the steps of a workflow run."""
    jobs = yaml.safe_load(text_of(workflow))['jobs'].values()
    return '\n'.join(step.get('run', '') for job in jobs for step in job['steps'])


def launch_arguments():
    """Return the names of our launch file's arguments."""
    tree = ast.parse((REPO / 'launch/pick_place.launch.py').read_text())
    (table,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == 'ARGUMENTS'
    ]
    return {key.value for key in table.keys}


def test_every_launch_argument_exists():
    text = '\n'.join([*map(text_of, PAGES), *map(commands_of, WORKFLOWS)])
    lines = re.findall(r'ros2 launch ur5_pick_place pick_place\.launch\.py(.*)', text)
    given = {name for line in lines for name in re.findall(r'(\w+):=', line)}
    assert given and given <= launch_arguments()


def test_every_executable_and_make_target_exists():
    text = '\n'.join([*map(text_of, PAGES), *map(commands_of, WORKFLOWS)])
    named = re.findall(r'ros2 run ur5_pick_place\s+(\w+)', text)
    assert named and set(named) <= EXECUTABLES.keys()
    targets = re.findall(r'^(\w+):', (REPO / 'Makefile').read_text(), re.MULTILINE)
    named = re.findall(r'(?:^|`)make (\w+)', text, re.MULTILINE)
    assert named and set(named) <= set(targets)


@pytest.mark.parametrize('page', NAMING)
def test_every_path_into_the_tree_exists(page):
    roots = '|'.join(p.name for p in (REPO / 'ur5_pick_place').iterdir() if p.is_dir())
    named = re.findall(rf'(?<![\w/.])((?:{roots}|test)/[\w/]+\.pyx?)', text_of(page))
    for path in named:
        assert (REPO / 'ur5_pick_place' / path).exists() or (REPO / path).exists(), path


@pytest.mark.parametrize('page', PAGES)
def test_every_link_leads_to_a_file_or_a_heading(page):
    text = text_of(page)
    for target in re.findall(r'\]\((?!https?:)([^)]+)\)', text):
        path, _, heading = target.partition('#')
        file = PAGES[page].parent / path if path else PAGES[page]
        assert file.exists(), target
        assert not heading or heading in anchors(file.read_text(encoding='utf-8')), target


@pytest.mark.parametrize('kind', KINDS)
def test_every_kind_of_gripper_has_a_file_and_a_row_that_links_to_it(kind):
    name = f'gripper_{kind}.yaml'
    row = rf'^\| `{kind}` \|.*\(\.\./\.\./config/{name}\) \|$'
    assert re.search(row, text_of('docs/howto/gripper.md'), re.MULTILINE)
    given, settings = read_parameters(CONFIG / name), KINDS[kind].settings_type
    assert given and given.keys() <= {field.name for field in fields(settings)}


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_every_ur_type_is_named_where_users_choose_theirs(ur_type):
    _, choice = text_of('docs/tutorials/robot_and_pc.md').split('**Type.**')
    assert ur_type in re.findall(r'\bur\w+', choice.split('. ')[0])


def test_every_stage_and_key_is_explained_on_top_of_the_cycle_file():
    comment = (CONFIG / 'cycle.yaml').read_text().split('\nplaces:')[0]
    named = {*MOVES, *ACTIONS, *WAITS_AND_PINS, *(field.name for field in fields(Stage))}
    assert named <= {*re.findall(r'\w+', comment)}


def test_every_parameter_of_an_example_is_declared():
    declared = {name for file in CONFIG.glob('*.yaml') for name in read_parameters(file)}
    text = '\n'.join(map(text_of, PAGES))
    blocks = re.findall(r'```\n(/\*\*:.*?)```', text, re.DOTALL)
    assert blocks
    for block in blocks:
        given = yaml.safe_load(block)['/**']['ros__parameters']
        assert given.keys() <= declared


def texts_of_product():
    """Return the text constants of the product, one a line, with line breaks as blanks."""
    files = [*(REPO / 'ur5_pick_place').glob('**/*.py'), *REPO.glob('underlay/*.py')]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return '\n'.join(text.replace('\n', ' ') for text in texts if isinstance(text, str))


def test_every_message_of_the_troubleshooting_page_is_one_of_the_product():
    messages = re.findall(r'^\| `([^`]+)` \|', text_of('docs/troubleshooting.md'), re.MULTILINE)
    known = texts_of_product()
    pieces = [piece.strip() for message in messages for piece in message.split('…')]
    assert len(messages) >= 30
    assert not [piece for piece in pieces if piece not in known]


@pytest.mark.parametrize('page', [page for page in PAGES if page.startswith('docs/')])
def test_every_page_is_short_and_in_the_tree_of_the_site(page):
    text, name = text_of(page), page.removeprefix('docs/').removesuffix('.md')
    assert text.startswith('# ') and len(text.splitlines()) <= 120
    stem = name.rpartition('/')[2]
    generator = (REPO / 'docs/generate.py').read_text()
    assert name == 'index' or re.search(rf'\b{stem}\b', generator), f'add {stem} to CONTENTS'
    for part in re.findall(r'<!-- generated: (\w+) -->', text):
        assert f'def {part}(' in generator


def main_of(name):
    module, function = EXECUTABLES[name].split(':')
    return getattr(importlib.import_module(f'ur5_pick_place.{module}'), function)


@pytest.mark.parametrize('name', EXECUTABLES)
def test_help_starts_nothing_gives_an_example_and_the_parameters(name, monkeypatch, capsys):
    assert {'ik_service', 'trajectory_planner', 'pick_place', 'sim_driver'} <= NODES
    monkeypatch.setattr(rclpy, 'init', lambda *_, **__: pytest.fail('--help must not start ROS'))
    monkeypatch.setattr(sys, 'argv', [name, '--help', '--ros-args', '-p', 'a:=1'])
    with contextlib.suppress(SystemExit):
        assert not main_of(name)()
    text = capsys.readouterr().out
    assert text.startswith('usage: ')
    assert re.search(rf'Example:\s.*\b{name}\b', text, re.DOTALL), text
    if name in NODES:
        parameters = read_parameters(CONFIG / f'{name}.yaml')
        assert len(parameters) >= 3 and all(f'{parameter}: ' in text for parameter in parameters)


class Parsed(Exception):
    """The arguments are valid; nothing is to be started."""


def lines_of(start):
    """Return what the pages say after `start`, up to the end of a command."""
    text = '\n'.join(map(text_of, PAGES))
    found = re.findall(rf'(?:^|`)(?:{start})([^`#|…;]*?)(?=$|[`#|…;])', text, re.MULTILINE)
    return sorted({' '.join(line.split()) for line in found} - {''})


@pytest.mark.parametrize('line', lines_of(r'\.venv/bin/|ros2 run ur5_pick_place '))
def test_every_command_line_has_arguments_that_its_command_takes(line, monkeypatch):
    name, *words = shlex.split(line.replace('<file>', 'FILE'))
    if name in ('python', 'dask') or name in NODES:
        return
    parse = argparse.ArgumentParser.parse_args

    def check(parser, *given, **named):
        parse(parser, *given, **named)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, 'parse_args', check)
    monkeypatch.setattr(sys, 'argv', [name, *words])
    with pytest.raises(Parsed):
        main_of(name)()


@pytest.mark.drill
def test_the_page_of_interfaces_explains_every_name_and_no_other(monkeypatch):
    monkeypatch.syspath_prepend(REPO / 'docs')
    page = importlib.import_module('generate').interfaces()  # raises with the names
    assert '`plan_kinematic_path`' in page and '## Of the driver' in page


@pytest.mark.parametrize('line', lines_of('make '))
def test_every_make_target_takes_its_variables(line):
    words = ['make', '-n', '--no-print-directory', *shlex.split(line)]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('page', [page for page in PAGES if '```python' in text_of(page)])
def test_python_on_a_page_is_what_the_client_and_the_examples_have(page):
    example = (REPO / 'examples/moveit_client.py').read_text()
    for block in re.findall(r'```python\n(.*?)```', text_of(page), re.DOTALL):
        ast.parse(block)
        assert all(hasattr(PickPlaceClient, name) for name in re.findall(r'\bcell\.(\w+)', block))
        if 'rclpy' in block:
            assert example.endswith(f'\n\n{block}')
        elif 'kinematics' in block:
            exec(block, {})
