# SPDX-License-Identifier: Apache-2.0
"""The joints chosen along a chain of moves are the best of all that there are."""

import itertools

import numpy as np

from ur5_pick_place.kinematics import HOME, all_variants, classify, inverse, load_model
from ur5_pick_place.kinematics import forward as forward_kinematics
from ur5_pick_place.planning.joint_goals import Stop, shortest_chain

MODEL = load_model('ur5')


def times(q_start, q_goal):
    return (np.abs(q_goal - q_start) / MODEL.qd_max).max(axis=-1)


def time_of(chain):
    return sum(times(a, b) for a, b in itertools.pairwise(chain))


def is_allowed(chain, stops):
    return all(
        not stop.is_line
        or (classify(MODEL, a) == classify(MODEL, b) and np.abs(b - a).max() <= np.pi)
        for stop, (a, b) in zip(stops, itertools.pairwise(chain), strict=True)
    )


def some_solutions(q):
    """Two branches of one pose, each with every whole turn of the last joint."""
    rows, ok = inverse(MODEL, forward_kinematics(MODEL, q))
    variants = [all_variants(MODEL, row) for row in rows[ok][:2]]
    return np.concatenate([v[np.abs(v[:, :5]).max(axis=1) <= np.pi] for v in variants])


def test_no_other_chain_of_solutions_is_shorter(rng):
    """Against trying them all."""
    for _ in range(30):
        first, second = rng.uniform(-2, 2, (2, 6))
        stops = [
            Stop(some_solutions(first), False),
            Stop(some_solutions(first + 0.02), True),
            Stop(some_solutions(second), False),
        ]
        q_start = rng.uniform(-5, 5, 6)
        every = [
            chain
            for goals in itertools.product(*(stop.goals for stop in stops))
            if is_allowed(chain := (q_start, *goals), stops)
        ]
        chosen = shortest_chain(MODEL, q_start, stops, times)
        if not every:  # the line crosses a singularity
            assert chosen == []
            continue
        assert is_allowed((q_start, *chosen), stops)
        assert np.isclose(time_of((q_start, *chosen)), min(map(time_of, every)))


def test_a_line_to_another_branch_has_no_chain():
    rows, _ = inverse(MODEL, forward_kinematics(MODEL, [0.1, -1.3, 1.6, -1.9, -1.4, 0.2]))
    stops = [Stop(rows[:1], False), Stop(rows[1:2], True)]
    assert shortest_chain(MODEL, HOME, stops, times) == []


def test_it_looks_beyond_the_nearest_solution():
    """
    Two turns of the last joint on, the nearest variant first would have to be undone.

    From 170 deg the way to -170 deg is 20 deg over the top; but the next stop is a line to where
    wrist 3 stands at -10 deg, that is 350 deg on the far side.
    """

    def with_wrist_3(angle):
        return np.concatenate([HOME[:5], [np.radians(angle)]])

    def all_of(angle):
        q = with_wrist_3(angle)
        return np.array([q, q + [0, 0, 0, 0, 0, 2 * np.pi], q - [0, 0, 0, 0, 0, 2 * np.pi]])

    stops = [
        Stop(all_of(-170.0), False),
        Stop(all_of(-90.0), True),
        Stop(with_wrist_3(-10.0)[None], True),
    ]
    chain = np.degrees([q[5] for q in shortest_chain(MODEL, with_wrist_3(170.0), stops, times)])
    np.testing.assert_allclose(chain, [-170.0, -90.0, -10.0])
