# SPDX-License-Identifier: Apache-2.0
"""Processor time of each tick of a closed loop, and of planning the cycle of the demo."""

import multiprocessing
import sys
from pathlib import Path
from time import process_time, thread_time

import numpy as np
from measure import Row, beside_yardstick, yardstick

from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.demo.spots import default_spots

# The cell in one process of the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / 'test'))

from lab.in_process import InProcessCell

_PLANS = 5  # of one process; the first one is cold
_LONGEST = 200.0  # [s] of robot time for a cycle
_BETWEEN = 50  # ticks from one look at the yardstick to the next


def measure() -> list[Row]:
    """Run the cycle with each closed loop in process, and plan it in a process of its own."""
    rows = []
    for method in METHODS:
        ticks, yards = ticks_of(method)
        for name, value, goal in (
            ('median', np.median(ticks), 0.2),
            ('p99.9', np.percentile(ticks, 99.9), 0.6),
        ):
            what = f'tick of {method}, {name}'
            rows.append(beside_yardstick(what, 1e3 * float(value), 'ms', goal, yards))
    with multiprocessing.get_context('spawn').Pool(1) as process:
        cold, *warm = process.apply(plan_times)
    return [
        *rows,
        beside_yardstick('cycle planned, processor time', float(np.median(warm)), 's', 0.15),
        beside_yardstick('cycle planned first, proc. time', cold, 's', 0.15),
    ]


def ticks_of(method: str) -> tuple[list[float], list[float]]:
    """
    Return the processor time of each tick in a cycle of the demo, and of the yardstick then [s].

    A tick is all that the execution manager does with one joint state while a closed loop runs,
    up to the segment that goes to the controller; the simulated controller does not count.
    """
    cell = _cell(method)
    cell.run()
    to_driver, manager, port = cell.driver.link.to_driver, cell.manager, cell.controller
    deliver, process = to_driver.send, manager.on_joints
    simulated, ticks, yards = 0.0, [], []

    def send(*args: object, **how: object) -> None:
        nonlocal simulated
        begin = thread_time()
        deliver(*args, **how)
        simulated += thread_time() - begin

    def on_joints() -> None:
        nonlocal simulated
        sent, simulated, begin = port.motions, 0.0, thread_time()
        process()
        if port.motions > sent:
            ticks.append(thread_time() - begin - simulated)
            if len(ticks) % _BETWEEN == 0:
                yards.append(yardstick())

    to_driver.send, manager.on_joints = send, on_joints
    cell.until(lambda: not cell.is_busy, _LONGEST, 'the end of the cycle')
    if cell.stop_reason:
        raise RuntimeError(f'the cycle with {method} has stopped: {cell.stop_reason}')
    return ticks, yards


def plan_times() -> list[float]:
    """Return the processor time of planning the cycle again and again, the first one cold [s]."""
    cell, times = _cell('ik'), []
    for _ in range(_PLANS):
        begin = process_time()
        cell.station.machine.make_plan(cell.poses)
        times.append(process_time() - begin)
    return times


def _cell(method: str) -> InProcessCell:
    """Return a cell with the part at start and all places taught."""
    cell = InProcessCell({'method': method})
    cell.put_part(default_spots()[0])
    cell.teach(*default_spots())
    return cell
