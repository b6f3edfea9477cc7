# SPDX-License-Identifier: Apache-2.0
"""Other people's kinematics and timing; what is not installed is named and left out."""

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
from ruckig import InputParameter, Ruckig, Trajectory

from ur5_pick_place.kinematics import Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.limits import Limits
from ur5_pick_place.planning.paths.follow import JointPath

_STATIONS, _LINEARISATIONS = 301, 3  # of copp-py; more change the durations by less than 0.1 %

Solve = Callable[[Array], object]

skipped: dict[str, str] = {}
"""Why a peer is not in the table."""


def eaik(m: Model) -> tuple[Solve, Solve] | None:
    """Give EAIK's solver of one pose (4, 4) and of many (n, 4, 4), answers read into NumPy."""
    module = _import('EAIK', 'eaik.IK_DH')
    if module is None:
        return None
    robot = module.DhRobot(m.alpha, m.a, m.d)
    return lambda T: robot.IK(T).Q, lambda T: [answer.Q for answer in robot.IK_batched(T)]


def ur_analytic_ik(_: Model) -> Solve | None:
    """Give ur-analytic-ik's solver of one pose (4, 4) of a UR5."""
    module = _import('ur-analytic-ik', 'ur_analytic_ik')
    return None if module is None else lambda T: np.asarray(module.ur5.inverse_kinematics(T))


def toppra(velocity: Array, acceleration: Array) -> Callable[[Array], float] | None:
    """Give toppra's duration [s] of a joint path (n, 6), with its samples as the grid."""
    module = _import('toppra', 'toppra')
    if module is None:
        return None
    logging.getLogger('toppra').setLevel(logging.ERROR)
    constraint = importlib.import_module('toppra.constraint')
    algorithm = importlib.import_module('toppra.algorithm')

    def solve(q: Array) -> float:
        grid = np.linspace(0.0, 1.0, len(q))
        path = module.SplineInterpolator(grid, q)
        qd, qdd = (np.stack([-bound, bound], axis=1) for bound in (velocity, acceleration))
        bounds = [
            constraint.JointVelocityConstraint(qd),
            constraint.JointAccelerationConstraint(qdd),
        ]
        return float(algorithm.TOPPRA(bounds, path, gridpoints=grid).compute_trajectory().duration)

    return solve


def copp(limits: Limits) -> Callable[[JointPath], float] | None:
    """Give copp-py's duration [s] of a joint path; like ours it keeps jerk limits."""
    module = _import('copp-py', 'copp_py')
    if module is None:
        return None
    s, stations = np.linspace(0.0, 1.0, _STATIONS), {'start_idx_s': 0, 'length': _STATIONS}

    def solve(path: JointPath) -> float:
        robot = module.Robot(6, capacity=_STATIONS)
        robot.append_s(s)
        q, d1, d2, d3 = map(np.ascontiguousarray, path.sample(s))
        robot.set_q(q, d1, d2, 0, dddq=d3)
        robot.add_velocity_limits(limits.qd, -limits.qd, **stations)
        robot.add_acceleration_limits(limits.qdd, -limits.qdd, **stations)
        robot.add_jerk_limits(limits.qddd, -limits.qddd, **stations)
        second, third = module.solver.topp2_ra, module.solver.topp3_socp
        whole = {'idx_s_interval': (0, _STATIONS - 1), 'a_boundary': (0.0, 0.0)}
        a = second.solve(second.Problem(robot.constraints, **whole), second.Options())
        near: dict[str, Array] = {}
        for _ in range(_LINEARISATIONS):
            profile = third.solve(third.Problem(robot.constraints, a, **near))
            a, near = profile.a, {'b_linearization': profile.b}
        return float(module.interpolation.s_to_t_topp3(s, profile, 0.0)[0])

    return solve


def ruckig(q_start: Array, q_goal: Array, limits: Limits) -> Callable[[], object]:
    """Give ruckig's own calculation of a joint motion, unsampled."""
    request = InputParameter(6)
    request.current_position, request.target_position = list(q_start), list(q_goal)
    request.max_velocity, request.max_acceleration = list(limits.qd), list(limits.qdd)
    request.max_jerk = list(limits.qddd)
    return lambda: Ruckig(6).calculate(request, Trajectory(6))


def _import(peer: str, module: str):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        skipped[peer] = str(error)
        return None


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Drop what compiled code prints: ur-analytic-ik prints a line per row that it rejects."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, 'wb') as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
