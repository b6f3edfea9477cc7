# SPDX-License-Identifier: Apache-2.0
"""The share of a core that each node takes beside an idle arm, and the recorder."""

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from measure import Row

from ur5_pick_place.nodes.node_list import node_list
from ur5_pick_place.trials.processes import NodeProcesses, own_domain

CONFIG = Path(__file__).resolve().parents[1] / 'config'
_DRIVER, _NODES = 'sim_driver', ('ik_service', 'trajectory_planner', 'pick_place')
_START, _SPAN = 12.0, 20.0  # [s] on the wall


def measure() -> list[Row]:
    """Return the shares; nothing else should run on the machine."""
    return [
        *_shares('ur5', {'recorder': 2.0}, 125),
        *_shares('ur5e', dict.fromkeys(_NODES, 8.0), 500),
    ]


def _shares(ur_type: str, goals: dict[str, float], rate: int) -> list[Row]:
    """Return the share [percent of a core] of each node beside the driver at a rate [Hz]."""
    with tempfile.TemporaryDirectory() as folder, own_domain() as domain:
        files = {
            'recorder': {'records_folder': folder},
            'pick_place': {'poses_file': f'{folder}/poses.yaml'},
        }
        specs = [
            replace(spec, parameters={**spec.parameters, **files.get(spec.executable, {})})
            for spec in node_list('sim', CONFIG, ur_type=ur_type, record=True)
            if spec.executable in (*goals, _DRIVER)
        ]
        with NodeProcesses(specs, domain, Path(folder)) as nodes:
            time.sleep(_START)
            before, begin = {n: _processor_time(nodes.pids[n]) for n in goals}, time.monotonic()
            time.sleep(_SPAN)
            span = time.monotonic() - begin
            used = {n: _processor_time(nodes.pids[n]) - before[n] for n in goals}
            nodes.check()
    return [
        Row(f'{name} at {rate} Hz, of a core', 100.0 * used[name] / span, '%', goal=goal)
        for name, goal in goals.items()
    ]


def _processor_time(pid: int) -> float:
    """Return the processor time of a process [s]."""
    fields = Path(f'/proc/{pid}/stat').read_text(encoding='ascii').rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
