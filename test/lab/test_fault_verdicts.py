# SPDX-License-Identifier: Apache-2.0
"""What the matrix of faults calls wrong: a cell that does it is told so, by name."""

import math

import pytest

from lab.fault_matrix import START, TARGET, Case
from lab.in_process import InProcessCell


class Restless(InProcessCell):
    """Sends the controller something at every look."""

    looks = 0

    @property
    def commands(self):
        self.looks += 1
        return self.looks, 0, 0


class Insistent(InProcessCell):
    """Tells the arm more than often enough to stay."""

    looks = 0

    @property
    def commands(self):
        self.looks += 8
        return 0, self.looks, 0


class Drifting(InProcessCell):
    """Goes on after a stop."""

    @property
    def q(self):
        return super().q + (0.1 * self.time if self.stop_reason else 0.0)


class Late(InProcessCell):
    """Is held to a stop at once."""

    reaction_limit = 0.0


class Faltering(InProcessCell):
    """Stops before anything was done to it."""

    def run(self):
        super().run()
        self.stop()


def outcome(kind):
    cell = kind({})
    cell.teach(START, TARGET)
    return Case(cell, 'safeguard_stop', START, TARGET, 0.16, 'start').run()


@pytest.mark.parametrize(
    ('kind', 'words'),
    [
        (Restless, '1 motion and 0 gripper commands after the stop'),
        (Insistent, '8 hold commands after the stop'),
        (Drifting, 'rad of motion after the stop'),
        (Late, 'detected after 0.0'),
        (Faltering, 'stopped without a fault'),
    ],
)
def test_a_cell_that_does_wrong_is_told_so(kind, words):
    assert words in outcome(kind).problem


def test_a_part_that_was_turned_by_a_right_angle_is_misplaced():
    cell = InProcessCell({})
    cell.teach(START, TARGET)
    cell.put_part(START)
    cell.run()
    cell.until(lambda: not cell.is_busy, 60.0, 'the end of the cycle')
    away, turn = cell.placement(TARGET)
    assert away < 1e-3 and turn < 0.01
    cell.put_part(TARGET._replace(yaw=TARGET.yaw + math.pi / 2))
    assert cell.placement(TARGET)[1] == pytest.approx(math.pi / 2, abs=0.01)
