# SPDX-License-Identifier: Apache-2.0
"""Paths around obstacles beside a long search, and refusals of tasks that cannot be."""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np
from measure import Row, beside_yardstick

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import HOME
from ur5_pick_place.planning import ways_round
from ur5_pick_place.planning.planner import MotionPlanner

# The scenes of the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / 'test/support/robots'))
sys.path.append(str(Path(__file__).resolve().parents[1] / 'test/support/scenes'))

from impossible_tasks import FAST, TASKS, impossible_task
from obstacle_scenes import FAMILIES, UR5, Problem, problem

_ALLOWED = 1.0  # [s]
_REFERENCE = 120.0  # [s] allowed for the long search; it takes some 10 s of processor time
_TASKS = 200


def measure() -> list[Row]:
    """Solve the scenes with little and with much time, and plan the impossible tasks."""
    return [*_paths(), *_refusals()]


def _paths() -> Iterator[Row]:
    firsts, ratios, lost = [], [], 0
    for family in FAMILIES:
        task = problem(family, 5000)
        first, ours = _duration(task, _ALLOWED)
        best = _duration(task, _REFERENCE)[1]
        lost += ours is None and best is not None
        if ours is not None and best is not None:
            firsts.append(first)
            ratios.append(ours / best)
    peer = 'a long search'
    yield Row('ways round, not found', lost, 'scenes', goal=0.0)
    yield beside_yardstick('ways round, first found', 1e3 * float(np.median(firsts)), 'ms', 150.0)
    yield Row('ways round, duration, median', float(np.median(ratios)), 'x', peer, goal=1.15)
    yield Row('ways round, duration, p95', float(np.percentile(ratios, 95)), 'x', peer, goal=1.6)


def _duration(task: Problem, allowed: float) -> tuple[float, float | None]:
    """Return the processor time to the first path [s], and the motion's duration [s] or None."""
    first = [0.0]
    connect = ways_round.Search._connect

    def timed(*arguments: object) -> object:
        found = connect(*arguments)
        if found is not None and not first[0]:
            first[0] = process_time() - begin
        return found

    planner, begin = MotionPlanner(UR5, FAST, task.scene), process_time()
    ways_round.Search._connect = timed
    try:
        motion = planner.auto(task.q_start, [task.q_goal], allowed=allowed)
        return first[0], motion.trajectory.duration
    except PlanningError:
        return first[0], None
    finally:
        ways_round.Search._connect = connect


def _refusals() -> Iterator[Row]:
    times, unnamed, kinds = [], 0, list(TASKS)
    for seed in range(_TASKS):
        planner, poses, is_named = impossible_task(kinds[seed % len(kinds)], 100 + seed)
        begin = process_time()
        try:
            planner.plan(poses, HOME)
            unnamed += 1
        except PlanningError as refusal:
            unnamed += not is_named(str(refusal))
        times.append(process_time() - begin)
    yield Row(f'{_TASKS} impossible tasks, not named', unnamed, 'tasks', goal=0.0)
    yield beside_yardstick('refusal, slowest, processor time', max(times), 's', 0.3)
