# SPDX-License-Identifier: Apache-2.0
"""Shared by all tests: seeded randomness, pose comparison, and an isolated DDS domain."""

import itertools
import os

import numpy as np
import pytest

_DOMAINS = itertools.count(1 + (os.getpid() * 7) % 90)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(scope='module')
def ros_domain() -> int:
    """
    Give the module a DDS domain of its own and keep discovery on this machine.

    Domains above 101 collide with the ephemeral ports of Linux, so the numbers wrap below that.

    """
    domain = next(_DOMAINS) % 100 + 1
    os.environ['ROS_DOMAIN_ID'] = str(domain)
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    return domain


def assert_transforms_close(
    actual: np.ndarray, expected: np.ndarray, position: float = 1e-9, angle: float = 1e-9
) -> None:
    """Fail unless two poses agree within `position` [m] and `angle` [rad]."""
    delta = np.linalg.inv(expected) @ actual
    miss = np.linalg.norm(delta[:3, 3])
    skew = delta[:3, :3] - delta[:3, :3].T
    sine = np.linalg.norm([skew[2, 1], skew[0, 2], skew[1, 0]]) / 2
    turn = np.arctan2(sine, (np.trace(delta[:3, :3]) - 1) / 2)
    assert miss <= position, f'{miss} m apart, allowed {position} m'
    assert turn <= angle, f'{turn} rad apart, allowed {angle} rad'
