# SPDX-License-Identifier: Apache-2.0
"""Each of our commands, arguments and files that pages and workflows name exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.task.grippers.registry import KINDS

REPO = Path(__file__).resolve().parents[2]
CONFIG = REPO / 'config'
PAGES = {
    str(p.relative_to(REPO)): p
    for p in [REPO / 'README.md', REPO / 'CONTRIBUTING.md', *REPO.glob('docs/*.md')]
}
WORKFLOWS = {p.name: p for p in REPO.glob('.github/workflows/*.yml')}
NAMING = {**PAGES, **WORKFLOWS}


def text_of(page):
    return NAMING[page].read_text(encoding='utf-8')


def anchors(text):
    """Return what GitHub calls the headings of a page in a link."""
    headings = re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    return {re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-') for heading in headings}


def jobs_of(workflow):
    return yaml.safe_load(text_of(workflow))['jobs'].values()


def commands_of(workflow):
    """Return what the steps of a workflow run."""
    return '\n'.join(step.get('run', '') for job in jobs_of(workflow) for step in job['steps'])


@cache
def installer():
    """Return the text of what `make setup` runs."""
    return (REPO / 'underlay/make_venv.py').read_text()


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


@pytest.mark.parametrize('page', NAMING)
def test_every_executable_exists(page):
    declared = re.findall(r"f'(\w+) = ", (REPO / 'setup.py').read_text())
    named = re.findall(r'ros2 run ur5_pick_place\s+(\w+)', text_of(page))
    assert set(named) <= set(declared)


@pytest.mark.parametrize('page', NAMING)
def test_every_make_target_exists(page):
    text = text_of(page) if page in PAGES else commands_of(page)
    targets = re.findall(r'^(\w+):', (REPO / 'Makefile').read_text(), re.MULTILINE)
    named = re.findall(r'(?:^|`)make (\w+)', text, re.MULTILINE)
    assert set(named) <= set(targets)


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


@pytest.mark.parametrize('page', PAGES)
def test_every_parameter_of_an_example_is_declared(page):
    declared = {name for file in CONFIG.glob('*.yaml') for name in read_parameters(file)}
    for block in re.findall(r'```\n(/\*\*:.*?)```', text_of(page), re.DOTALL):
        given = yaml.safe_load(block)['/**']['ros__parameters']
        assert given.keys() <= declared


def test_the_parameter_files_named_are_those_that_are_read():
    for page in PAGES:
        named = set(re.findall(r'config/(\w+)\.yaml', text_of(page)))
        read = {
            f.stem
            for r in ('sim', 'real')
            for gripper in KINDS
            for s in node_list(r, REPO / 'config', gripper=gripper)
            for f in s.parameter_files
        }
        assert named <= read | {'scene_sim', 'cycle'}


# ---- the workflows, which nothing runs here


def test_workflows_set_up_as_the_readme_says():
    assert {'make setup', 'make test', 'make demo'} <= set(
        commands_of('without-ros.yml').splitlines()
    )
    lines = re.findall(r'^python3? -m (?:venv|colcon) .*', text_of('README.md'), re.MULTILINE)
    assert len(lines) == 2
    for workflow in ('ros.yml', 'ursim.yml'):
        assert set(lines) <= set(commands_of(workflow).splitlines()), workflow


def test_workflows_try_every_python_and_every_robot_that_needs_no_arm():
    (job,) = jobs_of('without-ros.yml')
    pythons = re.search(r'PYTHONS = \((.*)\)', installer())[1]
    assert job['strategy']['matrix']['python'] == re.findall(r"'([\d.]+)'", pythons)
    assert 'robot:=mock' in commands_of('ros.yml') and 'robot:=ursim' in commands_of('ursim.yml')


def test_the_workflow_installs_the_libraries_that_make_setup_would():
    (libraries,) = re.findall(r"return needed, \[('lib.*)\]", installer())
    assert ' '.join(re.findall(r"'([\w.-]+)'", libraries)) in commands_of('without-ros.yml')
