# SPDX-License-Identifier: Apache-2.0
"""Each of our commands, arguments and files that README and docs name exists."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from ur5_pick_place.config_files import read_parameters
from ur5_pick_place.nodes.node_list import node_list

REPO = Path(__file__).resolve().parents[1]
CONFIG = REPO / 'config'
PAGES = {str(p.relative_to(REPO)): p for p in [REPO / 'README.md', *REPO.glob('docs/*.md')]}


def text_of(page):
    return PAGES[page].read_text(encoding='utf-8')


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
    text = '\n'.join(map(text_of, PAGES))
    lines = re.findall(r'ros2 launch ur5_pick_place pick_place\.launch\.py(.*)', text)
    given = {name for line in lines for name in re.findall(r'(\w+):=', line)}
    assert given and given <= launch_arguments()


@pytest.mark.parametrize('page', PAGES)
def test_every_executable_exists(page):
    declared = re.findall(r"f'(\w+) = ", (REPO / 'setup.py').read_text())
    named = re.findall(r'ros2 run ur5_pick_place\s+(\w+)', text_of(page))
    assert set(named) <= set(declared)


@pytest.mark.parametrize('page', PAGES)
def test_every_link_leads_to_a_file_or_a_heading(page):
    text = text_of(page)
    for target in re.findall(r'\]\((?!https?:)([^)]+)\)', text):
        path, _, heading = target.partition('#')
        assert (PAGES[page].parent / path).exists(), target
        headings = [h.lower().replace(' ', '-') for h in re.findall(r'^#+ (.*)$', text, re.M)]
        assert not heading or heading in headings, target


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
            for s in node_list(r, REPO / 'config')
            for f in s.parameter_files
        }
        assert named <= read | {'scene_sim', 'cycle'}
