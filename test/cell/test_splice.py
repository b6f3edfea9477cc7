# SPDX-License-Identifier: Apache-2.0
"""
A trajectory controller that splices a new trajectory onto the running one, as newer ones do.

The arm is led as under a controller that restarts, and every stop still stops it.

"""


import numpy as np
import pytest
from lab.in_process import InProcessCell
from motion_planners import FAST as FAST_LIMITS
from motion_planners import make_planner

from ur5_pick_place.control.loops.reference import Reference
from ur5_pick_place.control.loops.splicing import next_segment
from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController

PERIOD = 0.008
FAST = make_planner(FAST_LIMITS)
SWING = HOME + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]


def ready_cell(**overrides: object) -> InProcessCell:
    cell = InProcessCell(overrides)
    cell.teach(*default_spots('ur5'))
    return cell


def commands_of(cell: InProcessCell) -> list[np.ndarray]:
    """Return the list to which every command of the controller is added from now on."""
    sent: list[np.ndarray] = []

    def look() -> None:
        tracking = cell.driver.trajectory[SCALED].tracking
        if tracking is not None:
            sent.append(tracking.output.copy())

    cell.on_step = look
    return sent


@pytest.mark.parametrize('how', ['stop', 'fault', 'cancel'])
def test_every_stop_brings_the_arm_to_rest_without_a_step_back(how):
    cell, ends = ready_cell(trajectory_replacement='splice'), []
    motion = cell.station.planner.ptp(HOME, SWING).trajectory
    cell.manager.start(motion, ends.append)
    cell.wait(motion.duration / 2)
    sent, q = commands_of(cell), cell.q
    assert cell.driver.qd[0] > 1.5
    if how == 'stop':
        cell.stop()
    elif how == 'fault':
        cell.manager.fail('something is wrong')
    else:
        cell.port.cancel_motion()
    cell.wait(1.0)
    rest = cell.q
    cell.wait(0.3)
    assert ends and np.abs(cell.q - rest).max() < 1e-4
    assert 0.0 < rest[0] - q[0] < 1.0
    if how != 'fault':  # after a fault the measured joints are held at once
        speed = np.diff(np.array(sent)[:, 0]) / PERIOD
        assert speed.min() > -1e-6
        assert np.abs(np.diff(speed)).max() / PERIOD < 10.5, 'the limit is 10 rad/s2'


def swing(cell: InProcessCell) -> Trajectory:
    return cell.station.planner.ptp(cell.q, cell.q + SWING - HOME).trajectory


def line(cell: InProcessCell) -> Trajectory:
    T = forward(cell.station.planner.model, cell.q)
    T[1, 3] += 0.15
    return cell.station.planner.lin(cell.q, [T]).trajectory


@pytest.mark.parametrize('plan', [swing, line])
@pytest.mark.parametrize('mode', ['restart', 'splice'])
@pytest.mark.parametrize('ur_type', ['ur5', 'ur5e'], ids=['125 Hz', '500 Hz'])
def test_a_stop_keeps_the_acceleration_whichever_cycle_takes_it(ur_type, mode, plan, rng):
    cell = InProcessCell(
        {'trajectory_replacement': mode, 'ur_type': ur_type, 'arrival_jitter': 2}
    )
    cell.teach(*default_spots(ur_type))
    for share in (0.2, 0.35, 0.5, 0.65):
        ends = []
        motion = plan(cell)
        cell.manager.start(motion, ends.append)
        cell.wait(share * motion.duration + rng.uniform(0.0, 0.02))
        sent = commands_of(cell)
        cell.wait(0.05)
        cell.stop()
        cell.wait(1.5)
        accelerations = np.diff(sent, 2, axis=0) / cell.driver.period**2
        assert ends and np.abs(accelerations).max() < 1.2 * 10.0, 'the limit is 10 rad/s2'
        assert cell.rearm().ok


@pytest.mark.parametrize('mode', ['restart', 'splice'])
def test_a_stop_of_a_motion_that_has_just_begun_keeps_the_acceleration(mode):
    cell = ready_cell(trajectory_replacement=mode, arrival_jitter=2)
    for k in range(10):
        ends, sent = [], commands_of(cell)
        goal = cell.q + (-1) ** k * (SWING - HOME)
        cell.manager.start(cell.station.planner.ptp(cell.q, goal).trajectory, ends.append)
        cell.wait(0.008 * k)
        cell.stop()
        cell.wait(1.0)
        accelerations = np.diff(sent, 2, axis=0) / cell.driver.period**2
        assert ends and np.abs(accelerations).max(initial=0.0) < 1.2 * 10.0
        assert cell.rearm().ok


@pytest.mark.parametrize('mode', ['restart', 'splice'])
@pytest.mark.parametrize('slider', [0.25, 0.4, 0.5, 0.8])
def test_a_stop_at_any_slider_steps_neither_ahead_nor_back(slider, mode):
    cell, ends = ready_cell(trajectory_replacement=mode), []
    motion = cell.station.planner.ptp(HOME, SWING).trajectory
    cell.driver.robot.slider = slider
    cell.wait(0.5)
    cell.manager.start(motion, ends.append)
    cell.wait(motion.duration / 2 / slider)
    sent = commands_of(cell)
    cell.wait(0.05)
    cell.stop()
    cell.wait(3.0)
    speed = np.diff(np.array(sent)[:, 0]) / PERIOD
    assert ends and speed[0] > slider and abs(speed[-1]) < 1e-6
    assert np.abs(np.diff(speed)).max() / PERIOD < 10.5, 'the limit is 10 rad/s2'


def test_what_arrives_late_is_begun_where_the_motion_is():
    motion = ready_cell().station.planner.ptp(HOME, SWING).trajectory
    begun = TrajectorySegment(motion, 0.0, 50.0, 0.4)
    rest, stamp = next_segment(begun, 50.03)
    times = np.linspace(0.0, rest.duration, 50)
    np.testing.assert_allclose(rest.sample(times)[0], motion.sample(times + 0.012)[0], atol=1e-6)
    assert stamp == 0.0
    out_of_step, _ = next_segment(begun, 49.0)
    assert out_of_step.duration == motion.duration


class Stream:
    """A stream of one velocity of 0.2 rad/s on a controller, with a segment every few cycles."""

    SPEED = 0.2

    def __init__(self, period: float, every: int) -> None:
        self._controller = TrajectoryController(JOINT_NAMES, period)
        self._controller.activate(HOME)
        self._reference = Reference(HOME, FAST.limits)
        self._period, self._every = period, every
        self._cycles, self._seen, self._q, self._qd = 0, 100.0, HOME, np.zeros(6)
        self._next: TrajectoryCommand | None = None

    def run(self, cycles: int, scaling: float) -> np.ndarray:
        """Return the speed that the first joint is commanded to, in each cycle."""
        return np.array([self._cycle(scaling) for _ in range(cycles)])

    def _cycle(self, scaling: float) -> float:
        now = round(100.0 + self._cycles * self._period, 9)
        if self._next:
            self._controller.follow(self._next, now)
        before, self._next = self._q, None
        self._q = self._controller.update(now, self._q, self._qd, scaling)
        self._qd = (self._q - before) / self._period
        if self._cycles % self._every == 0:
            self._next = self._segment(now, scaling)
        self._cycles += 1
        return float(self._qd[0])

    def _segment(self, now: float, scaling: float) -> TrajectoryCommand:
        ahead, reference = 10, self._reference
        reference.advance((now - self._seen) * scaling, ahead)
        self._seen = now
        for _ in range(reference.missing(ahead)):
            reference.extend(*reference.propose(self.SPEED * np.eye(6)[0]))
        segment = TrajectorySegment(*reference.segment(), now, scaling)
        motion, stamp = next_segment(segment, now + self._period)
        rows = zip(motion.t.round(9), motion.q, motion.qd, motion.qdd, strict=True)
        return TrajectoryCommand(JOINT_NAMES, [Waypoint(*row) for row in rows], round(stamp, 9))


@pytest.mark.parametrize('period', [0.002, 0.008])
@pytest.mark.parametrize('every', [1, 2, 3, 5])
def test_a_stream_moves_steadily_at_the_share_of_its_speed_that_the_slider_says(period, every):
    stream = Stream(period, every)
    stream.run(round(0.5 / period), 1.0)
    for scaling in (0.7, 0.5, 0.3, 0.1, 0.05):
        speed = stream.run(20 * every, scaling)
        expected = scaling * stream.SPEED
        np.testing.assert_allclose(speed[2 * every :], expected, rtol=1e-3)
        assert abs((speed - expected).sum()) <= 1.01 * every * stream.SPEED, 'a segment at most'
    speed = stream.run(round(1.0 / period), 1.0)
    np.testing.assert_allclose(speed[-10 * every :], stream.SPEED, rtol=1e-3)


@pytest.mark.parametrize('scaling', [0.05, 0.3, 0.5, 0.9, 1.0])
def test_a_segment_that_is_late_shifts_a_stream_by_at_most_half_its_delay_or_its_way(
    scaling,
):
    """By the way within the delay where it has no stamp, by the rest of it where it has one."""
    motion = FAST.ptp(HOME, SWING).trajectory
    segment = TrajectorySegment(motion, 0.004, 50.0, scaling)
    late = 0.03
    sent, stamp = next_segment(segment, 50.008)
    entry = 50.008 + late - stamp if stamp else 0.0
    q = sent.sample([entry])[0][0]
    wanted = 0.004 + scaling * (0.008 + late)
    shift = min(scaling, 1.0 - scaling) * late
    near = motion.sample([wanted - shift, wanted + shift])[0]
    assert np.abs(q - near).max(axis=1).min() < 1e-6
