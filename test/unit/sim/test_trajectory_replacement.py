# SPDX-License-Identifier: Apache-2.0
"""
The simulated trajectory controller repeats what the real one did with replaced trajectories.

`data/trajectory_replacement.json.xz` holds 34 recordings of joint_trajectory_controller 5.17 and
of its master after 6.9 at 125 Hz on mock hardware, whose measured position is the last output.
One joint moves.
"""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController

RECORDED = Path(__file__).parents[3] / 'test/data' / 'trajectory_replacement.json.xz'
CASES = json.loads(lzma.decompress(RECORDED.read_bytes()))['cases']
HELD = {'stream splice a every 1 err 0': 53}  # cycles until the path tolerance is violated
ZERO, FIRST = np.zeros(6), np.eye(6)[0]


def seconds(ns: int) -> float:
    return round(1000.0 + 1e-9 * ns, 9)


def command_of(message: dict) -> TrajectoryCommand:
    rows = zip(
        message['time_from_start_ns'],
        *(np.outer(message[of], FIRST) for of in ('position', 'velocity', 'acceleration')),
        strict=True,
    )
    points = [Waypoint(round(1e-9 * t, 9), *row) for t, *row in rows]
    stamp = message['stamp_ns']
    return TrajectoryCommand(JOINT_NAMES, points, 0.0 if stamp is None else seconds(stamp))


def started_controller(case: dict) -> TrajectoryController:
    """Return a controller at rest that holds what the recorded one held at first."""
    period, start = 1e-9 * case['period_ns'], seconds(case['cycle_start_ns'][0])
    controller = TrajectoryController(JOINT_NAMES, period, case['behaviour'] == 'splice')
    controller.activate(ZERO)
    for k in range(-5, 0):
        if k == -4 and case['running_at_first'].startswith('a trajectory of 2 points'):
            points = [Waypoint(t, ZERO, ZERO, ZERO) for t in (0.0, period)]
            controller.follow(TrajectoryCommand(JOINT_NAMES, points), start + k * period)
        controller.update(round(start + k * period, 9), ZERO, ZERO, case['speed_scaling'])
    return controller


def cycles_of(case: dict) -> list[tuple[int, int | None]]:
    """Return start [ns] and index of the cycles; those that were not recorded have no index."""
    starts, period = case['cycle_start_ns'], case['period_ns']
    cycles: list[tuple[int, int | None]] = []
    for i, start in enumerate(starts):
        missing = round((start - starts[i - 1]) / period) - 1 if i else 0
        cycles += [(start - k * period, None) for k in range(missing, 0, -1)]
        cycles.append((start, i))
    return cycles


def replay(case: dict) -> np.ndarray:
    """Return output and reference [rad] of each recorded cycle, shape (n, 2)."""
    controller, messages = started_controller(case), case['messages']
    taken = {message['taken_in_cycle']: message for message in messages}
    before = output = ZERO
    last, rows = seconds(case['cycle_start_ns'][0] - case['period_ns']), []
    for start, index in cycles_of(case):
        now = seconds(start)
        if message := taken.get(index):
            take = controller.follow if message['via'] == 'topic' else controller.start_goal
            take(command_of(message), now)
        speed = (output - before) / (now - last)  # as the mock hardware computes it
        before, last = output, now
        output = controller.update(now, output, speed, case['speed_scaling'])
        assert controller.tracking is not None
        if index is not None:
            rows.append((output[0], controller.tracking.reference.q[0]))
    return np.array(rows)


@pytest.mark.parametrize('case', CASES, ids=[case['name'] for case in CASES])
def test_a_recorded_replacement_is_reproduced(case):
    recorded = np.stack([case['output_position'], case['reference_position']], axis=1)
    cycles = HELD.get(case['name'], len(recorded))
    # Positions are recorded to 1e-8 rad, cycles begin a little off their recorded time.
    tolerance = 1e-8 + 1.1 * case['largest_error_of_the_rules_rad']
    if case['name'] in HELD:
        tolerance = 2e-8
    error = np.abs(replay(case) - recorded)[:cycles].max()
    assert error < tolerance


def test_a_path_too_far_ahead_is_held_where_the_real_controller_held_it():
    case = next(case for case in CASES if case['name'] in HELD)
    cycle = HELD[case['name']] - 1
    outputs = np.array(case['output_position'])
    assert np.ptp(outputs[cycle - 1 :]) == 0.0 < outputs[cycle - 1] - outputs[cycle - 2]
    np.testing.assert_allclose(replay(case)[cycle, 0], outputs[cycle], atol=1e-8)
