# SPDX-License-Identifier: Apache-2.0
"""A part is picked where a tag is, on the whole cell, once somebody has pressed a button."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cells import running_cell
from task_client import START, TARGET, TaskClient
from tf2_msgs.msg import TFMessage
from ur_msgs.srv import SetIO

pytestmark = [pytest.mark.drill, pytest.mark.nodes]

REPO = Path(__file__).parents[3]
PLACES = 'places: {home: , part: {from_frame: part_0}, target: }\n'
BUTTON = '  - {name: button, do: wait_input, pin: 2, value: true, timeout: 30}\n'


@pytest.fixture(scope='module')
def cell(ros_domain, tmp_path_factory):
    folder = tmp_path_factory.mktemp('cell')
    path = folder / 'cycle.yaml'
    stages = (REPO / 'config/cycle_tag.yaml').read_text().split('stages:\n')[1]
    path.write_text(f'{PLACES}stages:\n{BUTTON}{stages}')
    own = {'/**/pick_place': {'cycle_file': str(path)}}
    with running_cell(TaskClient, ros_domain, folder, own=own, without=['ik_service']) as client:
        client.job('init_gripper')
        client.do('teach_home')
        client.teach('target', TARGET)
        client.put_part(START)
        yield client


@pytest.fixture(scope='module')
def tag(cell):
    """The example, as it stands, in a process of its own."""
    script = REPO / 'examples/tag_broadcaster.py'
    process = subprocess.Popen([sys.executable, str(script)], env=dict(os.environ))
    seen = []
    cell.hear(TFMessage, '/tf', seen.append)

    def is_seen():
        return any(t.child_frame_id == 'part_0' for m in seen for t in m.transforms)

    cell.until(is_seen, 'the frame of the tag')
    cell.run(1.0)
    yield process
    process.kill()
    process.wait()


def test_a_part_is_picked_where_its_frame_is_when_the_button_is_pressed(cell, tag):
    cell.do('plan')
    cell.put_part((START[0] + 0.05, START[1], START[2]))
    cell.run(1.0)
    refusal = cell.ask('run')
    assert not refusal.success and 'since ~/plan: plan again' in refusal.message
    cell.do('plan')
    since = len(cell.events)
    cell.do('run')
    waiting = cell.event('waiting', since=since, stage='button')
    assert waiting['reason'] == 'wait for input 2 on, at most 30 s'
    named = 'running: button (wait for input 2 on, at most 30 s)'
    cell.until(lambda: cell.states[-1] == named, 'the state')
    assert cell.call(SetIO, 'sim_driver/switch_input', pin=2, state=1.0).success
    cell.event('done', since=since, job='run')
    cell.run(0.4)
    assert np.linalg.norm(cell.part_at()[:2] - TARGET[:2]) < 2e-3
    cell.processes.check()
