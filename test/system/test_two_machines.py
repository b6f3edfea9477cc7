# SPDX-License-Identifier: Apache-2.0
"""The cell on one machine, our nodes on another: over a bad cable, and over one that is cut."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cable import why_not

MISSING = why_not()
pytestmark = [
    pytest.mark.drill,
    pytest.mark.nodes,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


def perform(what: str) -> None:
    script = Path(__file__).parents[1] / 'support/tools/two_machines.py'
    ended = subprocess.run(
        [sys.executable, script, what],
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=180.0,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_a_cycle_succeeds_over_a_cable_that_delays_and_loses() -> None:
    perform('cycle')


def test_a_cut_cable_stops_the_cycle_until_it_is_rearmed() -> None:
    perform('cut')
