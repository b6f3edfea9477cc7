# SPDX-License-Identifier: Apache-2.0
"""
A trajectory controller that splices a new trajectory onto the running one, as newer ones do.

The arm is led as under a controller that restarts, and every stop still stops it. Jogs and closed
loops keep their limits on either, though their messages arrive up to two cycles late, by chance.
"""


from functools import partial

import numpy as np
import pytest
from lab.in_process import InProcessCell
from lab.in_process_ports import ControllerPort
from motion_planners import FAST as FAST_LIMITS
from motion_planners import make_planner

from ur5_pick_place.control.loops.jog_velocity import JointVelocity
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.reference import Reference
from ur5_pick_place.control.loops.rollout import loop_of, plan_roll_out
from ur5_pick_place.control.loops.splicing import next_segment
from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, JOINT_NAMES, forward
from ur5_pick_place.outcome import DONE
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.sim.controllers.controller_manager import SCALED
from ur5_pick_place.sim.controllers.spline import TrajectoryCommand, Waypoint
from ur5_pick_place.sim.controllers.trajectory_controller import TrajectoryController

PERIOD = 0.008
FAST = make_planner(FAST_LIMITS)
SWING = HOME + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0]


def ready_cell(**overrides: object) -> InProcessCell:
    cell = InProcessCell(overrides)
    cell.teach(*default_spots(CellSetup(overrides.get('ur_type', 'ur5'))))
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
    cell = late_cell(mode, ur_type)
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


LATE = 2  # cycles at most
GENERATIONS = pytest.mark.parametrize('generation', ['restart', 'splice'])
RATES = pytest.mark.parametrize('ur_type', ['ur5', 'ur5e'])  # 125 and 500 Hz
SPEED = 1.0  # [rad/s]


def late_cell(generation, ur_type='ur5'):
    """Return a cell whose messages come late by chance."""
    return ready_cell(
        trajectory_replacement=generation, ur_type=ur_type, arrival_jitter=LATE
    )


def largest_share(cell, sent):
    """Return the largest acceleration in commands as a fraction of the joints' limits."""
    acceleration = np.diff(np.array(sent), 2, axis=0) / cell.driver.period**2
    return (np.abs(acceleration) / cell.planner.limits.qdd).max()


def jog(cell):
    """Turn the first joint to and fro, and return the commands."""
    sent = commands_of(cell)
    for turn in (SPEED, -SPEED):
        for _ in range(20):
            cell.jog(JointVelocity(turn * np.eye(6)[0]))
            cell.wait(0.02)
    cell.wait(0.8)
    assert np.ptp(sent, axis=0)[0] > 0.1
    return sent


@GENERATIONS
@RATES
def test_a_jog_keeps_its_limits_however_late_its_messages_are(generation, ur_type):
    cell = late_cell(generation, ur_type)
    sent = jog(cell)
    assert largest_share(cell, sent) < 1.0
    assert cell.manager.motion_state == 'ready'


@GENERATIONS
@RATES
@pytest.mark.parametrize(
    'method', ['resolved_rate', pytest.param('gradient', marks=pytest.mark.drill)]
)
def test_a_closed_loop_keeps_its_limits_however_late_its_messages_are(
    generation, ur_type, method
):
    """Also where some of them are lost."""
    cell, ends, settings = late_cell(generation, ur_type), [], LoopSettings()
    planner, T_goal = cell.station.planner, forward(cell.model, HOME)
    T_goal[:3, 3] += [-0.05, 0.08, -0.04]
    plan = plan_roll_out(planner, method, HOME, T_goal, Scaling(), settings)
    make = partial(loop_of, planner, method, plan.trajectory, settings)
    cell.driver.link.to_driver.loss = 0.1
    sent = commands_of(cell)
    cell.manager.start_loop(make, plan.trajectory, ends.append)
    cell.until(lambda: bool(ends), 20.0, 'the end of the loop')
    assert ends == [DONE]
    assert largest_share(cell, sent) < 1.0
    assert np.linalg.norm(forward(cell.model, cell.q)[:3, 3] - T_goal[:3, 3]) < 0.3e-3


def test_a_stream_would_step_on_a_controller_that_splices(monkeypatch):
    monkeypatch.setattr(ControllerPort, 'why_no_stream', '')
    cell = late_cell('splice')
    assert largest_share(cell, jog(cell)) > 10.0


def test_a_controller_that_refuses_to_restart_gets_no_stream_but_motions(monkeypatch):
    monkeypatch.setattr(ControllerPort, 'why_no_stream', 'it splices and refuses y = false (z)')
    cell, ends = late_cell('splice'), []
    planner, T_goal = cell.station.planner, forward(cell.model, HOME)
    T_goal[2, 3] -= 0.05
    motions = cell.controller.motions
    with pytest.raises(ExecutionError, match=r'motion refused: .*refuses y = false \(z\)'):
        cell.jog(JointVelocity(np.eye(6)[0]))
    plan = plan_roll_out(planner, 'resolved_rate', HOME, T_goal, Scaling(), LoopSettings())
    make = partial(loop_of, planner, 'resolved_rate', plan.trajectory, LoopSettings())
    with pytest.raises(ExecutionError, match=r'motion refused: .*refuses y = false \(z\)'):
        cell.manager.start_loop(make, plan.trajectory, ends.append)
    cell.wait(0.2)
    assert cell.controller.motions == motions and cell.manager.motion_state == 'ready'
    cell.manager.start(planner.ptp(HOME, HOME + 0.1).trajectory, ends.append)
    cell.until(lambda: bool(ends), 10.0, 'the end of the motion')
    assert ends == [DONE]
