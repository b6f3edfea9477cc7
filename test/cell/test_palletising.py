# SPDX-License-Identifier: Apache-2.0
"""A pallet filled with real cubes, in the whole cell in one process."""

import math

import numpy as np
import pytest
from lab.in_process import InProcessCell

from ur5_pick_place.demo.spots import Spot
from ur5_pick_place.task.cycle.pattern import PatternProgress

FEEDER, PALLET = Spot(0.4, -0.2, 0.0), Spot(0.36, 0.1, 0.0)
PITCH = (0.06, 0.09, 0.0452)  # the cube's 45 mm; the open gripper is 118 mm wide along y
GRID = (2, 3, 2)


@pytest.mark.drill
def test_a_pallet_of_two_layers_is_filled_by_twelve_cycles() -> None:
    cell = InProcessCell(
        {
            'parts': 12,
            'part_x': FEEDER[0],
            'part_y': FEEDER[1],
            'target_grid': GRID,
            'target_pitch': PITCH,
            'approach_speed': 0.4,
            'close_time': 0.4,
            'open_time': 0.4,
        }
    )
    cell.teach(FEEDER, PALLET)
    cell.on_step = lambda: feed(cell)
    cell.run()
    cell.until(lambda: not cell.is_busy, 200.0, 'the pallet to be full')
    assert not cell.stop_reason

    # The taught TCP looks down: its y is the other way round.
    cells = [(r, -c, n) for n in range(2) for c in range(3) for r in range(2)]
    wanted = [*PALLET[:2], 0.0225] + np.array(cells) * [*PITCH[:2], 0.045]
    laid = cell.world.T_world_parts
    assert np.abs(laid[:, :3, 3] - wanted).max() < 2e-3
    for T in laid:
        upright = math.acos(min(T[2, 2], 1.0))
        turned = math.atan2(T[1, 0], T[0, 0])
        assert max(upright, abs(turned)) < math.radians(2.0)


def feed(cell: InProcessCell) -> None:
    """Bring the next cube as soon as one has been laid down and the arm is home."""
    done = sum(event['event'] == 'cycle_done' for event in cell.events)
    if 0 < done < 12 and len(cell.world.T_world_parts) == done:
        cell.world.feed_part()


def test_a_position_that_was_filled_counts_although_another_part_is_held_at_the_stop():
    """A cycle with two transfers: the first part lies in the pattern, the second sticks."""
    progress = PatternProgress()
    progress.begin()
    progress.release(1)
    progress.settle(is_held=False)
    progress.release(1)
    progress.settle(is_held=True)
    assert progress.done == 1
    progress.release(2)
    progress.settle(is_held=True)
    assert progress.done == 1
