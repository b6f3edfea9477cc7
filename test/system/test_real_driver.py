# SPDX-License-Identifier: Apache-2.0
"""UR's own driver on the simulated controller: a cycle, a stop, and what comes after."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ament_index_python.packages import get_packages_with_prefixes

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.kinematics import HOME

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.skipif(
        'ur_robot_driver' not in get_packages_with_prefixes(), reason='no ur_robot_driver'
    ),
]
LAUNCH_FILE = Path(__file__).parents[2] / 'launch/pick_place.launch.py'
HOST = '127.0.0.1'
START, TARGET = (0.45, -0.20, 0.02), (0.40, 0.25, 0.02)
RESEND = ['ros2', 'service', 'call', '/io_and_status_controller/resend_robot_program',
          'std_srvs/srv/Trigger']  # fmt: skip


def tell(command: str) -> str:
    with socket.create_connection((HOST, 29990), timeout=30.0) as wire:
        wire.sendall(f'{command}\n'.encode())
        return wire.makefile().readline()


def rearm(cell: PickPlaceClient) -> None:
    """Rearm as soon as driver and robot are ready."""
    until = time.monotonic() + 120.0
    while True:
        try:
            cell.rearm()
            return
        except ExecutionError:
            if time.monotonic() > until:
                raise
            time.sleep(1.0)


@pytest.fixture(params=['ur5', 'ur5e'])
def cell(
    request: pytest.FixtureRequest, ros_domain: int, tmp_path: Path
) -> Iterator[PickPlaceClient]:
    own = {'/**': {'ros__parameters': {'poses_file': str(tmp_path / 'poses.yaml')}}}
    file = tmp_path / 'own.yaml'
    file.write_text(json.dumps(own))
    words = ['robot:=controller', f'ur_type:={request.param}', f'params_file:={file}']
    process = subprocess.Popen(
        ['ros2', 'launch', str(LAUNCH_FILE), *words],
        cwd='/',
        env={**os.environ, 'ROS_LOG_DIR': str(tmp_path)},
    )
    try:
        with PickPlaceClient(timeout=120.0) as cell:
            rearm(cell)
            yield cell
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60.0)


def carry(cell: PickPlaceClient) -> None:
    """Carry the cube from start to target; judged by the cell, not by the nodes."""
    cell.teach('home')
    cell.teach('start', xyz=START)
    cell.teach('target', xyz=TARGET, yaw_deg=30.0)
    cell.plan()
    assert cell.run().placed == 1
    part = json.loads(tell('state'))['part']
    np.testing.assert_allclose(part[:2], TARGET[:2], atol=0.005)


def test_the_cube_is_carried_also_after_a_protective_stop(cell: PickPlaceClient) -> None:
    cell.init_gripper()
    carry(cell)
    tell('protective_stop')
    with pytest.raises(Ur5PickPlaceError, match='protective stop'):
        cell.move_to(joints=HOME)
    tell('unlock')
    subprocess.run(RESEND, check=True, timeout=60.0)
    rearm(cell)
    cell.move_to(joints=HOME)
    tell(f'part {START[0]} {START[1]} 0')
    carry(cell)
