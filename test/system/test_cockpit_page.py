# SPDX-License-Identifier: Apache-2.0
"""The page of `make cell` in a browser: what a user clicks and drags, and what the arm does."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pace
import pytest
from browser import CHROMIUM, Browser, chromium, pixel_of
from task_client import TaskClient

from ur5_pick_place.cockpit.view import CAMERA, LOOKS_AT, VIEW_ANGLE
from ur5_pick_place.demo.processes import own_domain
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.kinematics.transforms import (
    T_BASE_BASE_LINK,
    make_transform,
    matrix_from_quat,
    tool_down,
)
from ur5_pick_place.sim.physics.cell import PART_SIZE

pytestmark = [pytest.mark.drill, pytest.mark.nodes]

CELL = Path(sys.executable).with_name('cell')
ARROW = 0.17  # [m] from the middle of a handle to where its arrow is grasped


def start_cell(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [CELL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )


@pytest.fixture(scope='module')
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """`make cell` with places of its own, as the executable that it starts."""
    home = str(tmp_path_factory.mktemp('home'))
    with own_domain() as domain:
        pass  # free again, as a cell reserves it itself
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('HOME', home)
        patch.setenv('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        process = start_cell('--port', '0', '--rtf', str(pace.real_time_factor(1.0)))
        client = TaskClient()
        try:
            lines: list[str] = []
            threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True).start()
            deadline = time.monotonic() + pace.wall(40.0)
            while 'Ctrl-C ends the cell' not in ''.join(lines):
                assert process.poll() is None and time.monotonic() < deadline, lines
                time.sleep(0.05)
            address = re.search(r'http://127\.0\.0\.1:\d+/\?token=\S+', ''.join(lines))
            client.wait_for_driver()
            yield SimpleNamespace(
                process=process, lines=lines, address=address[0], client=client
            )
        finally:
            client.close()
            process.terminate()  # it ends its nodes
            process.wait(30.0)


@pytest.fixture(scope='module')
def page(cell: SimpleNamespace) -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip('no Chromium on this machine')
    with chromium() as browser:
        browser.open(cell.address)
        browser.until(lambda: browser.state() == 'idle', 'the state')
        yield browser


def target(client: TaskClient) -> np.ndarray:
    """Return where the target was taught last, (4, 4) in `base_link`."""
    taught = [e for e in client.events if (e['event'], e.get('place')) == ('taught', 'target')]
    pose = taught[-1]['pose']
    T = make_transform(matrix_from_quat(pose[3:]), pose[:3])
    return T_BASE_BASE_LINK @ T


def fastest(client: TaskClient) -> float:
    """Return the speed of the fastest joint [rad/s]."""
    return float(np.abs(client.qd).max())


def drag(page: Browser, client: TaskClient, T: np.ndarray, axis: np.ndarray, by: float) -> dict:
    """Drag the target at T along an axis [m] by its arrow; return the task node's answer."""
    seen = (CAMERA, LOOKS_AT, VIEW_ANGLE)
    grasp = T[:3, 3] + ARROW * axis
    begin, end = pixel_of(grasp, *seen), pixel_of(grasp + by * axis, *seen)
    since = len(client.events)
    with page.held(*begin):
        for share in np.linspace(0.0, 1.0, 6):
            page.mouse('mouseMoved', *(begin + share * (end - begin)))
            client.run(0.1)
    def answers() -> list[dict]:
        return [e for e in client.events[since:] if e['event'] in ('taught', 'refused')]

    client.until(answers, 'an answer', 30.0)
    return answers()[-1]


def frame_rate(client: TaskClient, page: Browser) -> float:
    """Return the frames that the page draws in a second, once it has drawn all of the cell."""
    page.run('window.frames_ = 0; (function f() { frames_++; requestAnimationFrame(f); })(); 0')
    rate = 0.0
    for _ in range(10):
        begin, before = time.monotonic(), page.run('frames_')
        client.run(1.0)
        rate = (page.run('frames_') - before) / (time.monotonic() - begin)
        if rate >= 10.0:
            break
    return rate


def test_the_arm_jogs_while_a_button_is_held_and_rests_soon_after(cell, page):
    client = cell.client
    if (rate := frame_rate(client, page)) < 10.0:
        pytest.skip(f'{rate:.0f} frames/s: too slow to report a held button in time')
    page.tab('Jog')
    where = page.until(lambda: page.button('Z +'), 'the button')
    with page.held(*where):
        client.until(lambda: fastest(client) > 0.02, 'the arm to move', 20.0)
    begin = client.time
    client.until(lambda: fastest(client) < 0.01, 'rest', 20.0)
    assert client.time - begin < pace.wall(0.5)  # 0.2 s without a message, and the ramp


def test_a_place_is_taught_by_a_drag_and_refused_where_it_cannot_be(cell, page):
    client = cell.client
    page.click('Init gripper')
    client.event('done', job='init_gripper')
    since = len(client.events)
    page.click('Teach home')
    client.event('taught', since=since, place='home')
    page.until(lambda: 'taught: home' in page.text(), 'the event')
    client.run(1.0)  # the handles come anew

    spot = default_spots()[1]
    T = tool_down(spot.x, spot.y, PART_SIZE / 2, spot.yaw)
    up = np.array([0.0, 0.0, 1.0])
    refused = drag(page, client, T, up, -0.15)
    assert (refused['event'], refused['request']) == ('refused', 'target_pose')
    page.until(lambda: 'refused: target_pose' in page.text(), 'the refusal')
    taught = drag(page, client, T, T[:3, 0], -0.06)  # from where it has returned to
    assert taught['event'] == 'taught', taught
    moved = target(client)[:3, 3] - T[:3, 3]
    assert moved @ T[:3, 0] < -0.03
    np.testing.assert_allclose(moved[2], 0.0, atol=1e-3)
    page.tab('Solutions')
    page.until(lambda: 'free of collision' in page.run('document.body.textContent'), 'solutions')


def test_a_run_places_the_cube_and_stop_brings_the_arm_to_rest(cell, page):
    client = cell.client
    since = len(client.events)
    page.click('Init gripper')
    client.event('done', since=since, job='init_gripper')
    page.click('Plan')
    page.click('Run')
    client.event('cycle_done', wall=120.0)
    page.until(lambda: page.state().startswith('placed 1, missed 0, in '), 'what the run did')
    client.run(0.5)
    np.testing.assert_allclose(client.part_at(), target(client)[:3, 3], atol=2e-3)

    page.tab('Simulation')
    page.click('Put part at start')
    since = len(client.events)
    page.click('Plan')
    client.event('planned', since=since)  # Run is enabled by the plan before too
    page.click('Run')
    client.event('stage', since=since, stage='transfer', wall=120.0)
    # A browser that renders in software keeps a press for seconds: the transfer must still go on,
    # and the time of the stop counts from when the page gets the press.
    assert client.set_speed(0.1)
    page.run("addEventListener('pointerdown', () => window.pressed = Date.now(), true)")
    client.run(1.0)
    assert fastest(client) > 0.02
    where = page.until(lambda: page.button('Stop'), 'the button')
    page.mouse('mouseMoved', *where, 0)
    # Beside this thread, as the browser answers a frame later; Stop does not wait for the release.
    press = threading.Thread(target=page.mouse, args=('mousePressed', *where))
    press.start()
    client.until(lambda: fastest(client) < 0.01, 'rest', 20.0)
    rested = time.time()
    press.join()
    assert 0.0 < rested - page.run('window.pressed') / 1e3 < pace.wall(1.0)
    page.mouse('mouseReleased', *where, 0)
    page.until(lambda: page.state() == 'STOPPED', 'the stop on the page')
    client.event('stopped', since=since)
    since = len(client.events)
    page.click('Rearm')
    client.event('rearmed', since=since)
    assert client.set_speed(1.0)
    page.click('Go home')
    client.event('done', since=since, job='go_home', wall=60.0)


def test_preflight_and_statistics_show_this_cell(cell, page):
    page.tab('Statistics')
    page.until(lambda: re.search(r'placed\s+[1-9]\s+[1-9]', page.text()), 'the placed part')
    page.tab('Checks')
    page.click('Preflight')
    page.until(lambda: 'network: ROS_DOMAIN_ID' in page.text(), 'the checks', 60.0)
    assert re.search(r'ready to move|\d checks? failed', page.text())


def test_the_cell_reports_a_dead_node_and_ends_on_ctrl_c(cell):
    begin = time.monotonic()
    cell.process.send_signal(signal.SIGINT)
    assert cell.process.wait(10) == 0
    assert time.monotonic() - begin < pace.wall(2.0)
    assert 'ended with all its processes' in ''.join(cell.lines)
