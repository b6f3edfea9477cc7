# SPDX-License-Identifier: Apache-2.0
"""What the flight recorder costs beside the simulated driver at 125 Hz, in real time."""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from measure import Row

from ur5_pick_place.nodes.node_list import node_list
from ur5_pick_place.trials.processes import NodeProcesses, own_domain

CONFIG = Path(__file__).resolve().parents[1] / 'config'
_NAMES = ('sim_driver', 'recorder')
_START, _SPAN = 8.0, 20.0  # [s] on the wall
_GOAL = 2.0  # percent of a core


def measure() -> list[Row]:
    """Return the recorder's share of a core; nothing else should run on the machine."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        specs = [
            replace(spec, parameters={**spec.parameters, 'records_folder': folder})
            if spec.executable == 'recorder'
            else spec
            for spec in node_list('sim', CONFIG, record=True)
            if spec.executable in _NAMES
        ]
        with NodeProcesses(specs, domain, Path(folder)) as nodes:
            time.sleep(_START)
            before, begin = _processor_time(nodes.pids['recorder']), time.monotonic()
            time.sleep(_SPAN)
            used = _processor_time(nodes.pids['recorder']) - before
            share = 100.0 * used / (time.monotonic() - begin)
            nodes.check()
    return [Row('recorder, share of a core', share, '%', goal=_GOAL)]


def _processor_time(pid: int) -> float:
    """Return the processor time of a process [s]."""
    fields = Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
