# SPDX-License-Identifier: Apache-2.0
"""
How fast a simulated cell may run here, so that nodes keep up with it on slow machines too.

Its nodes fill two cores that are shared with others; if the cell ran too fast, the machine would
be late, not a node. Limits of a test in simulated time do not depend on it.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache

_QUICK = 0.03  # [s] for the loop on each of two cores of a quick machine
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
    """Return the speed of two cores of this machine as a fraction of a quick one's, 0.2 to 1."""
    # Both at once: two threads of one core are half as quick together as each alone.
    loops = [
        subprocess.Popen([sys.executable, '-c', _LOOP], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    seconds = max(float(loop.communicate()[0]) for loop in loops)
    return max(_SLOWEST, min(1.0, _QUICK / seconds))


def real_time_factor(quick: float = 2.0) -> float:
    """Return the real-time factor, at most 1.2, of what runs at `quick` on a quick machine."""
    return min(_FASTEST, quick * pace())


def sim(quick: float = 2.0) -> dict[str, float]:
    """Return the parameters of the simulated driver."""
    return {'real_time_factor': real_time_factor(quick)}


def wall(seconds: float) -> float:
    """Return the wall time [s] that this machine gets where a quick one gets `seconds`."""
    return seconds / pace()


def until(condition: Callable[[], object], what: str = 'it', seconds: float = 30.0) -> None:
    """Look again and again until something is so, for some time of the wall [s]."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f'timed out waiting for {what}'
        time.sleep(0.01)
