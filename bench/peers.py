# SPDX-License-Identifier: Apache-2.0
"""Other people's UR5 kinematics; what is not installed is named and left out."""

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.kinematics import Model

Array = NDArray[np.float64]
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


def _import(peer: str, module: str):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        skipped[peer] = str(error)
        return None


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Drop what compiled code prints: ur-analytic-ik has a line for each row that it rejects."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, 'wb') as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
