# SPDX-License-Identifier: Apache-2.0
"""
The fixture `ur_controller` for tests of software that speaks to a UR robot.

`pytest_plugins = ['ur5_pick_place.sim.controller.pytest_plugin']` in `conftest.py` offers it.
"""

from collections.abc import Iterator

import pytest

from ur5_pick_place.sim.controller.process import RunningController


@pytest.fixture
def ur_controller(request: pytest.FixtureRequest) -> Iterator[RunningController]:
    """
    Give a test a simulated robot of its own, ready to move, at `ur_controller.host`.

    A parameter, with `indirect=True`, is a sequence of options of `sim_controller`.
    """
    with RunningController(*getattr(request, 'param', ())) as controller:
        yield controller
