# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: seeded randomness, and an isolated DDS domain."""

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from planner_client import PlannerClient

# What a library is needed for is left out without it; repo/test_layers.py needs none.
_NEEDS = {
    'rclpy': (
        *('messages/*', 'nodes/*', 'system/*', 'lab/*nodes*', 'lab/*dds*', 'repo/test_[!l]*'),
        *('unit/report/*recordings*', 'unit/report/test_replay*'),
    ),
    'viser': ('*/test_cockpit*',),
    'pinocchio': ('repo/test_bench*',),
}
collect_ignore_glob = [
    pattern for name, needing in _NEEDS.items() if not find_spec(name) for pattern in needing
]

# A shell starts a job in its background with Ctrl-C ignored, nohup one with SIGHUP ignored, and so
# would be every process that a test starts to interrupt it.
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
for ignored, default in _DEFAULTS.items():
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, default)

# A failed assertion of what tests share shows its values, as one of a test does.
pytest.register_assert_rewrite(*(f.stem for f in Path(__file__).parent.glob('support/*/*.py')))


def pytest_report_header() -> str:
    """Say how fast simulated time runs, which is how slow this machine is."""
    import pace

    return f'simulated cells at {pace.real_time_factor():.2f} times real time'


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name with its parameters, wherever its file is."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture(scope='module')
def ros_domain() -> Iterator[int]:
    """Give the module a DDS domain that nobody uses, and keep discovery on this machine."""
    from ur5_pick_place.demo.processes import own_domain

    with own_domain() as domain:
        os.environ['ROS_DOMAIN_ID'] = str(domain)
        os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
        yield domain


@pytest.fixture(scope='module')
def client(ros_domain: int, tmp_path_factory: pytest.TempPathFactory) -> 'Iterator[PlannerClient]':
    """Give a client of a cell without task node; a module may have another client of its own."""
    from cells import running_cell
    from planner_client import PlannerClient

    folder = tmp_path_factory.mktemp('cell')
    with running_cell(PlannerClient, ros_domain, folder, without=['pick_place']) as client:
        yield client


@pytest.fixture
def at_home(client: 'PlannerClient') -> Iterator[None]:
    """Begin with the arm at home and the planner ready; every node must outlive the test."""
    client.go_home()
    yield
    client.processes.check()
