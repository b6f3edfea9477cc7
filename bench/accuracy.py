# SPDX-License-Identifier: Apache-2.0
"""
How exactly the simulated arm follows lines and reaches their ends, at several servo lags.

Figures as in ISO 9283: pose accuracy is the distance of the attained from the commanded position,
path accuracy the largest distance from the line. Repeatability over 30 cycles would say nothing
here: the simulation does the same each time.
"""

from dataclasses import replace

from measure import Row

from ur5_pick_place.demo.compare import changes_of, run_methods, write_cycle_with_stops
from ur5_pick_place.demo.options import read_options
from ur5_pick_place.demo.processes import working_folder

_LAGS = (0.0, 0.015, 0.03)  # [s]; at full speed, a lag of 0.05 s breaks the path tolerance
_POSE, _PATH = 0.1, 0.6  # [mm]


def measure() -> list[Row]:
    """Run the cycle of the demo by two methods at each lag."""
    return [row for lag in _LAGS for row in _at(lag)]


def _at(lag: float) -> list[Row]:
    rows = []
    with working_folder() as work:
        write_cycle_with_stops(work / 'cycle.yaml')
        options = read_options(['--cycle', str(work / 'cycle.yaml')])
        options = replace(options, methods=('ik', 'resolved_rate'))
        for run in run_methods(options, changes_of(lag=lag), work):
            assert not run.failure, run.failure
            pose = max(move.error[0] for move in run.moves)
            path = max(float(move.deviation.max()) for move in run.moves)
            what = f'{run.method}, lag {1e3 * lag:.0f} ms'
            rows.append(Row(f'{what}, pose', 1e3 * pose, 'mm', goal=_POSE))
            rows.append(Row(f'{what}, path', 1e3 * path, 'mm', goal=_PATH))
    return rows
