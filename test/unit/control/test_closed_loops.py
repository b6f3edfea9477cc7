# SPDX-License-Identifier: Apache-2.0
"""The two closed-loop methods before anything moves: laws, references and roll-outs."""

from dataclasses import replace

import numpy as np
import pytest
from closed_loop_cell import LIFT, METHODS, MODEL, PLANNER, START, goal_of, loop_on, miss, plan
from scipy.interpolate import CubicHermiteSpline
from twists import exp_se3

from ur5_pick_place.control.loops import rollout
from ur5_pick_place.control.loops.laws import DAMPED_BELOW, Gradient, ResolvedRate
from ur5_pick_place.control.loops.loop_settings import PICK_AND_PLACE_PROJECT, LoopSettings
from ur5_pick_place.control.loops.reference import Change, Reference, shortest_change
from ur5_pick_place.control.loops.rollout import loop_of, plan_roll_out, roll_out
from ur5_pick_place.errors import GateRefusal, IncompletePath
from ur5_pick_place.kinematics import HOME, forward, jacobian
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import body_error, inverse_transform, log_se3
from ur5_pick_place.planning.limits import MotionSettings, Scaling, motion_limits

# -- the laws --------------------------------------------------------------------------------


def value_of(law, q, T_goal):
    """Return V [m^2] of a gradient law at joints (6,)."""
    weighted = law._root @ body_error(forward(MODEL, q), T_goal)
    return weighted @ weighted / 2.0


def test_the_project_step_halves_the_twist_error_in_each_iteration():
    """K = 1 and T_step = 0.5; for small errors, where the twist commutes with its change."""
    settings = PICK_AND_PLACE_PROJECT
    assert (settings.loop_gain, settings.loop_hold) == (1.0, 0.5)
    law = ResolvedRate(MODEL, settings.loop_gain, settings.loop_length)
    q, T_goal = START, goal_of(START, 0.05 * LIFT, (0.0, 0.0, 0.01))
    for k in range(1, 9):
        q = q + settings.loop_hold * law.rate(q, T_goal)
        assert miss(q, T_goal)[0] == pytest.approx(0.5**k * 1e3 * 0.05 * 0.1187, rel=0.02)


@pytest.mark.parametrize('method', METHODS)
def test_the_project_settings_reach_the_goal_too(method):
    T_goal = goal_of(START, 0.3 * LIFT, (0, 0, 0))
    end = plan(method, START, T_goal, PICK_AND_PLACE_PROJECT).q[-1]
    assert miss(end, T_goal)[0] <= 5.0


@pytest.mark.drill
@pytest.mark.parametrize(
    ('method', 'median', 'largest'), [('resolved_rate', 0.7, 2.0), ('gradient', 0.5, 6.0)]
)
def test_the_tcp_stays_near_a_random_line(method, median, largest):
    """In millimetres from the chord, of lines of up to 0.43 m that turn the tool too."""
    rng, tcp, deviations = np.random.default_rng(5), PLANNER.scene.tool.p_tool_tcp, []
    while len(deviations) < 50:
        q = HOME + rng.uniform(-0.5, 0.5, 6)
        shift, turn = rng.uniform(-0.25, 0.25, 3), rng.uniform(-0.3, 0.3, 3)
        T = forward(MODEL, q)
        T_goal = T @ exp_se3(np.r_[np.zeros(3), turn])
        T_goal[:3, 3] += shift
        try:
            path = roll_out(PLANNER, method, PLANNER.limits, q, T_goal, LoopSettings()).q
        except IncompletePath:
            continue
        T = forward(MODEL, path)
        away = T[:, :3, 3] + T[:, :3, :3] @ tcp - (T[0] @ np.r_[tcp, 1.0])[:3]
        along = (T_goal @ np.r_[tcp, 1.0] - T[0] @ np.r_[tcp, 1.0])[:3]
        along /= np.linalg.norm(along)
        beside = away - np.outer(away @ along, along)
        deviations.append(1e3 * np.linalg.norm(beside, axis=1).max())
    assert np.median(deviations) < median and max(deviations) < largest


def test_damping_is_zero_but_near_a_singularity():
    law = ResolvedRate(MODEL, 1.0, 0.3)
    ratio = {}
    for theta_5 in (0.6, 0.02):
        q = np.array([0.2, -1.4, 1.6, -1.2, theta_5, 0.3])
        T_goal = forward(MODEL, q) @ exp_se3([0.0, 0.0, 0.0, 0.05, 0.05, 0.0])
        J = jacobian(MODEL, q)
        undamped = np.linalg.norm(np.linalg.solve(J, log_se3(exp_se3([0, 0, 0, 0.05, 0.05, 0]))))
        ratio[theta_5] = np.linalg.norm(law.rate(q, T_goal)) / undamped
    assert ratio[0.6] == pytest.approx(1.0, abs=1e-9)
    assert ratio[0.02] < 0.2


def test_the_gradient_follows_lines_of_every_length_within_seconds(rng):
    """With one weight for all directions it took 40 s, and left the lines by as much."""
    for length in (0.02, 0.06, 0.2):
        way = rng.normal(size=3) * [1.0, 1.0, 0.3]
        way *= length / np.linalg.norm(way)
        path = plan('gradient', T_goal=goal_of(START, way, rng.normal(0.0, 0.2, 3)))
        assert path.duration < 4.0 + length / 0.04
        p = forward(MODEL, path.q)[:, :3, 3] - forward(MODEL, START)[:3, 3]
        away = p - np.outer(p @ way, way) / (way @ way)
        assert np.linalg.norm(away, axis=1).max() < 4e-3


def test_a_suited_weight_makes_all_directions_alike_and_its_value_falls(rng):
    law = Gradient(MODEL, 1.0, 0.3)
    law.adapt_weight(START)
    for _ in range(20):
        T_goal = goal_of(START, rng.uniform(-0.006, 0.006, 3), rng.uniform(-0.02, 0.02, 3))
        q = START
        for _ in range(3):
            before, q = value_of(law, q, T_goal), q + law.step(q, T_goal)
            assert value_of(law, q, T_goal) < 0.1 * before


def test_a_loop_that_takes_too_long_says_how_far_it_gets(monkeypatch):
    monkeypatch.setattr(rollout, '_LONGEST', 5.0)
    limits = replace(PLANNER.limits, speed=0.005)
    with pytest.raises(IncompletePath, match=r'to \d\d %, 9\d[.\d]* mm .* within 5 s') as error:
        roll_out(PLANNER, 'gradient', limits, START, goal_of(START), LoopSettings())
    assert 0.1 < error.value.fraction < 0.25


@pytest.mark.parametrize('share', [1.0, 0.5, 0.04])
def test_the_error_falls_in_every_iteration_whatever_share_of_the_step_is_taken(rng, share):
    """From anywhere, the half turn but for some degrees included, wild postures too."""
    law = Gradient(MODEL, 1.0, 0.3)
    for _ in range(60):
        q, other = rng.uniform(-np.pi, np.pi, (2, 6))
        T_goal = forward(MODEL, other)
        for _ in range(8):
            before, q = value_of(law, q, T_goal), q + share * law.step(q, T_goal)
            assert value_of(law, q, T_goal) < before


# -- the reference ---------------------------------------------------------------------------


def test_a_change_from_a_steady_motion_keeps_the_direction(rng):
    qd = rng.uniform(-0.5, 0.5, 6)
    change = shortest_change(np.array([HOME, qd, np.zeros(6)]), np.zeros(6), PLANNER.limits)
    for k in range(change.cycles):
        now = change.at(k)[1]
        np.testing.assert_allclose(now, qd * (now[0] / qd[0]), atol=1e-12)


def test_a_loop_checks_the_ramp_on_which_it_would_stop_and_not_its_chord(rng):
    """A ramp from a state with acceleration bends up to 4 mrad off its chord."""
    checked, farthest = [], 0.0
    path = plan('resolved_rate')
    loop = loop_on(
        path, 'resolved_rate', why_blocked=lambda q: '' if checked.append(q) is None else 'x'
    )
    loop.tick(100.0, START, np.zeros(6), 1.0)
    reference = loop._reference
    for velocity in rng.uniform(-0.6, 0.6, (60, 6)):
        loop._desired_velocity, loop._desired_until = velocity, np.inf
        for _ in range(rng.integers(1, 12)):
            loop._extend(reference, START)
        ramp = reference.segment()[0]
        q = ramp.sample(np.linspace(ramp.t[-2], ramp.t[-1], 40))[0]
        a, b = checked[-1][:-1, None], checked[-1][1:, None]
        share = ((q - a) * (b - a)).sum(axis=2) / ((b - a) ** 2).sum(axis=2).clip(1e-18)
        away = np.abs(q - a - share.clip(0.0, 1.0)[..., None] * (b - a)).max(axis=2)
        farthest = max(farthest, away.min(axis=0).max())
    assert farthest < 5e-4


@pytest.mark.parametrize('longest', [1, 5])
def test_windows_agree_on_what_is_settled(rng, longest):
    """So that the controller may pass from one to the next whenever it hears it."""
    reference, ahead = Reference(HOME, PLANNER.limits), 10
    before = None
    for k in range(80):
        passed = int(rng.integers(1, longest + 1)) if k else 0
        reference.advance(passed * CYCLE, ahead)
        for _ in range(reference.missing(ahead)):
            reference.extend(*reference.propose(rng.uniform(-0.5, 0.5, 6)))
        segment, ago = reference.segment()
        assert ago == pytest.approx(0.0, abs=1e-9)
        if before is not None:
            t = CYCLE * np.arange(ahead)
            expected = before.sample(t + passed * CYCLE)[0]
            np.testing.assert_allclose(segment.sample(t)[0], expected, atol=1e-9)
        assert not segment.qd[-1].any() and not segment.qdd[-1].any()
        before = segment


# -- roll-outs -------------------------------------------------------------------------------


@pytest.mark.parametrize('method', METHODS)
def test_a_roll_out_passes_the_gate_and_ends_at_the_goal(method):
    path = plan(method)
    PLANNER.check(path, START)
    mm, deg = miss(path.q[-1], goal_of(START))
    assert mm <= 0.1 and deg <= 0.05


@pytest.mark.parametrize('method', METHODS)
def test_a_goal_out_of_reach_is_refused_with_the_singularity(method):
    with pytest.raises(IncompletePath, match='elbow singularity') as refusal:
        plan(method, START, goal_of(START, (-0.9, 0.0, 0.0)))
    assert 0.1 < refusal.value.fraction < 0.9


@pytest.mark.parametrize('x', [1e3, 1e160, 1e308])
def test_a_goal_beyond_all_measure_is_refused(x):
    T_goal = goal_of(START)
    T_goal[0, 3] = x
    with np.errstate(all='ignore'), pytest.raises(IncompletePath, match='line to 0 %'):
        plan('resolved_rate', START, T_goal)


def test_a_line_across_the_wrist_singularity_is_refused():
    q = np.array([0.2, -1.4, 1.6, -1.2, 0.3, 0.3])
    with pytest.raises(IncompletePath, match='wrist singularity'):
        plan('resolved_rate', q, forward(MODEL, q + [0.1, 0.05, -0.05, 0.1, -0.6, 0.1]))


def test_the_saddle_of_the_gradient_is_named_instead_of_looping():
    T_goal = goal_of(START, LIFT, (0.0, 0.0, np.pi - 0.005))
    with pytest.raises(IncompletePath, match='179.7 deg from the goal, the 180-degree saddle'):
        plan('gradient', START, T_goal)


def test_a_roll_out_keeps_the_speed_of_tcp_and_elbow():
    limits = PLANNER.limits_at(Scaling(1.0, 1.0, 0.05))
    path = roll_out(PLANNER, 'resolved_rate', limits, START, goal_of(START), LoopSettings())
    report = PLANNER.check(path, START)
    assert 0.045 < max(report.tcp_speed, report.elbow_speed) <= 0.05


def test_a_loop_is_made_of_its_own_roll_out_only():
    own = plan_roll_out(
        PLANNER, 'gradient', START, goal_of(START), Scaling(0.3, 0.3), LoopSettings()
    )
    assert made_of(own, 'gradient').method == 'gradient'
    other = PLANNER.ptp(START, START + [0.8, 0.2, -0.4, 0.0, 0.0, 0.3])
    with pytest.raises(GateRefusal, match='no roll-out of gradient'):
        made_of(other, 'gradient')


def made_of(planned, method, settings=LoopSettings()):
    return loop_of(PLANNER, method, planned.trajectory, settings, planned.report)


@pytest.mark.parametrize('settings', [LoopSettings(), PICK_AND_PLACE_PROJECT])
@pytest.mark.parametrize('method', METHODS)
def test_every_roll_out_is_known_for_its_own(method, settings, rng):
    for _ in range(3):
        T = goal_of(START, rng.uniform(-0.08, 0.08, 3), (0.0, 0.0, rng.uniform(-0.8, 0.8)))
        own = plan_roll_out(PLANNER, method, START, T, Scaling(), settings)
        assert made_of(own, method, settings).method == method


LENGTH = 0.3


def test_resolved_rate_solves_the_jacobian_where_it_is_not_damped(rng):
    weight = np.array([1.0, 1.0, 1.0, LENGTH, LENGTH, LENGTH])
    for q in rng.uniform(-np.pi, np.pi, (50, 6)):
        T_goal = forward(MODEL, q + rng.normal(0.0, 0.2, 6))
        J = jacobian(MODEL, q)
        if np.linalg.svd(weight[:, None] * J)[1][-1] > DAMPED_BELOW:
            twist = log_se3(inverse_transform(T_goal) @ forward(MODEL, q))
            expected = -2.0 * np.linalg.solve(J, twist)
            qd = ResolvedRate(MODEL, 2.0, LENGTH).rate(q, T_goal)
            np.testing.assert_allclose(qd, expected, rtol=1e-7, atol=1e-9)


def test_a_step_down_the_gradient_is_that_of_finite_differences(rng):
    law = Gradient(MODEL, 1.0, LENGTH)
    W = np.diag([1.0, 1.0, 1.0, LENGTH**2, LENGTH**2, LENGTH**2])
    for _ in range(20):
        q = rng.uniform(-2.0, 2.0, 6)
        T_goal = forward(MODEL, q + rng.normal(0.0, 0.02, 6))

        def value(q, T_goal=T_goal):
            e = body_error(forward(MODEL, q), T_goal)
            return e @ W @ e / 2.0

        h = 1e-6 * np.eye(6)
        gradient = np.array([(value(q + d) - value(q - d)) / 2e-6 for d in h])
        step = law.step(q, T_goal)
        cosine = -step @ gradient / np.linalg.norm(step) / np.linalg.norm(gradient)
        assert cosine == pytest.approx(1.0, abs=1e-5)
        assert value(q + step) <= value(q) - np.linalg.norm(step) * np.linalg.norm(gradient) / 4.5


@pytest.mark.parametrize('at', [0, 3, 10, 13])
def test_a_change_of_velocity_is_the_cubic_that_meets_both_ends(at, rng):
    q, qd, qdd, velocity = rng.normal(size=(4, 6))
    end = 10 * CYCLE
    cubic = CubicHermiteSpline([0.0, end], [qd, velocity], [qdd, np.zeros(6)])
    t = min(at * CYCLE, end)
    travelled = cubic.antiderivative()(t) + (at * CYCLE - t) * velocity
    expected = np.array([q + travelled, cubic(t), cubic(t, 1)])
    state = Change(np.array([q, qd, qdd]), velocity, 10).at(at)
    np.testing.assert_allclose(state, expected, rtol=1e-12, atol=1e-11)


def test_a_change_takes_the_fewest_cycles_that_keep_the_limits(rng):
    limits = motion_limits(MODEL, MotionSettings(max_acceleration=10.0, max_jerk=100.0))

    def keeps_limits(start, velocity, cycles):
        end = cycles * CYCLE
        cubic = CubicHermiteSpline([0.0, end], [start[1], velocity], [start[2], np.zeros(6)])
        t = np.linspace(0.0, end, 2001)
        return (
            np.abs(cubic(t, 1)).max() <= 10.0 * 1.001 + 1e-6
            and np.abs(cubic(t[[0, -1]], 2)).max() <= 100.0 * 1.001 + 1e-6
        )

    for _ in range(60):
        qd, velocity = rng.uniform(-1.0, 1.0, (2, 6))
        start = np.array([np.zeros(6), qd, rng.uniform(-1.0, 1.0, 6)])
        cycles = shortest_change(start, velocity, limits).cycles
        assert keeps_limits(start, velocity, cycles)
        assert cycles == 1 or not keeps_limits(start, velocity, cycles - 1)
