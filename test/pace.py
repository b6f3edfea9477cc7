# SPDX-License-Identifier: Apache-2.0
"""
How fast this machine lets a simulated cell run, so that slow ones judge the same simulated time.

Four nodes at twice real time fill two cores that are shared with others; what is late then is the
machine, not a node. Nothing that a test asks for in simulated time depends on it.

"""

import subprocess
import sys
from functools import cache

_QUICK = 0.03  # [s] for the loop on each of two cores, where twice real time is no effort
_SLOWEST = 0.2
_FASTEST = 1.2  # times real time: a test acts within stages of a second, over processes that stall
_LOOP = """
import statistics, time
times = []
for _ in range(20):
    begin, total = time.perf_counter(), 0
    for i in range(200_000):
        total += i
    times.append(time.perf_counter() - begin)
print(statistics.median(times))
"""


@cache
def pace() -> float:
    """Return what part of a quick machine's work two cores of this one do in the same time."""
    # Both at once: two threads of one core are half as quick together as each alone.
    loops = [
        subprocess.Popen([sys.executable, '-c', _LOOP], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    seconds = max(float(loop.communicate()[0]) for loop in loops)
    return max(_SLOWEST, min(1.0, _QUICK / seconds))


def real_time_factor(quick: float = 2.0) -> float:
    """Return the simulated seconds per second for what runs at `quick` on a quick machine."""
    return min(_FASTEST, quick * pace())


def sim(quick: float = 2.0) -> dict[str, float]:
    """Return the parameters of the simulated driver."""
    return {'real_time_factor': real_time_factor(quick)}


def wall(seconds: float) -> float:
    """Return what this machine gets for what a quick one has to do in `seconds` on the wall."""
    return seconds / pace()
