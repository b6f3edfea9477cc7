# SPDX-License-Identifier: Apache-2.0
"""A stop for an object that appears ahead of the arm, far away and nearer than it can brake."""

from dataclasses import replace

import numpy as np
import pytest
from closed_loop_cell import PLANNER, TCP, Bench
from motion_planners import FAST, make_planner, tool_down
from scenes import box_at
from stop_cell import Cell, Limited, moving, turn

from ur5_pick_place.kinematics import HOME, forward, inverse
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.planning.paths.trajectory import Trajectory

TO_FINGERTIPS = 0.059  # [m] in y from the TCP to the side of the hand


def put_post(cell, planner, gap):
    y = -forward(planner.model, cell.port.q)[1, 3]
    post = box_at('post', (0.4, y + TO_FINGERTIPS + gap + 0.015, 0.15), (0.04, 0.02, 0.3))
    planner.set_scene(replace(planner.scene, boxes=(post,)))
    assert not planner.collision.check(cell.port.q)
    cell.executor.stop_if_blocked()


def stopped(gap, then=None):
    """
    Return a cell whose motion has ended, with a post `gap` [m] ahead of the arm at 1 m/s.

    With `then`, it is that near while the arm brakes.
    """
    planner = make_planner(replace(FAST, max_speed=1.0))
    q = inverse(planner.model, tool_down(0.4, -0.35, 0.25, 0.0))[0][0]
    T = forward(planner.model, q)
    T[1, 3] -= 0.65  # y of base_link, which is turned by half a turn
    motion = planner.lin(q, [T]).trajectory
    cell = Cell(planner, watched=0.0)
    cell.port.q = q
    cell.run(0.5)
    cell.executor.start(motion, cell.ends.append)
    cell.port.accept(cell.now)
    cell.run(0.4)
    put_post(cell, planner, gap)
    if len(cell.port.sent) > 1:
        cell.port.accept(cell.port.sent[-1].begin)
    if then:
        cell.run(0.1)
        put_post(cell, planner, then)
    before = cell.port.q
    cell.run(1.5)
    assert cell.state == 'ready'
    return cell, planner, np.abs(cell.port.q - before).max()


@pytest.mark.parametrize('gap', [0.05, 0.1, 0.2])
def test_an_object_nearer_than_the_braking_distance_cancels_the_motion_at_once(gap):
    cell, planner, turned = stopped(gap)
    assert len(cell.port.sent) == 1 and turned < 1e-6, 'no motion brakes through the object'
    (outcome,) = cell.ends
    assert outcome.reason.startswith('the scene has changed: ') and 'post' in outcome.reason
    assert 'canceled at once: look whether the arm has touched it' in outcome.reason
    assert not planner.collision.check(cell.port.q)


def test_a_motion_that_began_during_the_look_at_the_one_before_is_not_stopped_for_it():
    class Slow(Limited):
        """The first look outlasts the motion, whose path is blocked; the next one's is free."""

        cell, looks = None, 0

        def why_blocked(self, _path):
            self.looks += 1
            if self.looks > 1:
                return ''
            self.cell.run(6.0)
            on = turn(1.0, 8.0)
            on = Trajectory(on.t, on.q + self.cell.port.q - HOME, on.qd, on.qdd)
            self.cell.executor.start(on, self.cell.ends.append)
            return 'an object in a path that was left'

    gate = Slow()
    gate.cell = cell = moving(gate)
    cell.executor.stop_if_blocked()
    assert [end.ok for end in cell.ends] == [True] and gate.looks == 2
    cell.port.accept(cell.now)
    cell.run(9.0)
    assert [end.ok for end in cell.ends] == [True, True]


def test_a_motion_that_brakes_is_canceled_if_the_next_object_is_nearer():
    cell, planner, _ = stopped(0.36, then=0.06)
    assert len(cell.port.sent) == 2 and cell.port.cancels
    assert cell.ends[0].reason.count('the scene has changed: ') == 2, 'the reason names both'
    assert not planner.collision.check(cell.port.q)


def test_an_object_farther_away_lets_the_arm_brake_on_its_path():
    cell, planner, turned = stopped(0.36)
    assert len(cell.port.sent) == 2 and turned > 0.1
    (outcome,) = cell.ends
    assert outcome.reason.startswith('the scene has changed: ')
    assert 'canceled' not in outcome.reason
    assert not planner.collision.check(cell.port.q)


@pytest.fixture
def bench():
    """A closed loop on its way, and its planner's scene as before afterwards."""
    scene = PLANNER.scene
    bench = Bench(PLANNER.why_blocked)
    bench.run(0.8)
    yield bench
    PLANNER.set_scene(scene)


def put_in_the_way(q, q_ahead):
    """Put a post ahead of an arm at joints (6,) that meets it by the time it is at `q_ahead`."""
    scene, T = PLANNER.scene, forward(PLANNER.model, np.array([q, q_ahead]))
    p, p_ahead = (T[:, :3, :3] @ TCP + T[:, :3, 3]) * (-1.0, -1.0, 1.0)  # in base_link
    way = (p_ahead - p) / np.linalg.norm(p_ahead - p)
    for gap in np.arange(0.15, 0.0, -5e-4):
        post = box_at('post', p + gap * way, (0.02, 0.02, 0.02))
        PLANNER.set_scene(replace(scene, boxes=(*scene.boxes, post)))
        if PLANNER.why_blocked(q_ahead[None]):
            break
    assert not PLANNER.why_blocked(q[None])


def ends_at_rest(bench):
    """Run a stopped loop to its end, before which it does not count as ready."""
    for _ in range(250):
        if bench.ends:
            break
        assert bench.executor.motion_state != 'ready'
        bench.run(CYCLE)
    assert bench.ends and bench.executor.is_at_rest


def test_a_closed_loop_that_is_stopped_at_a_slow_slider_ends_when_the_arm_is_at_rest(bench):
    bench.cell.driver.robot.slider = bench.status.speed_scaling = 0.19
    bench.run(0.3)
    bench.executor.stop('enough', latch=False)
    ends_at_rest(bench)
    assert bench.ends[0].reason == 'enough' and bench.executor.motion_state == 'ready'


@pytest.mark.parametrize('is_told_by', ['the scene', 'its own check'])
@pytest.mark.parametrize('seconds', [0.06, 0.1])
def test_a_closed_loop_does_not_brake_through_an_object(bench, seconds, is_told_by):
    q = bench.status.q
    put_in_the_way(q, q + seconds * bench.status.qd)
    if is_told_by == 'its own check':
        bench.run(0.016)
    bench.executor.stop_if_blocked()
    assert bench.port.held
    ends_at_rest(bench)
    (outcome,) = bench.ends
    assert 'post' in outcome.reason and 'canceled at once: look whether' in outcome.reason
    bench.run(1.0)
    assert not PLANNER.why_blocked(np.array(bench.cell.q[-100:]))
