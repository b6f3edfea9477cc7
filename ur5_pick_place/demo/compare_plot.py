# SPDX-License-Identifier: Apache-2.0
"""The plot of `compare`: the longest straight move by each method."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ur5_pick_place.demo.comparison import MethodRun, common_moves
from ur5_pick_place.report.plots import frame

_FLOOR = 0.01  # [mm] lower bound of the logarithmic axes


def plot(runs: Sequence[MethodRun], path: Path) -> None:
    """Write a PNG of the longest move that all runs have in common."""
    common = [move for move in runs[0].moves if move.name in common_moves(runs)]
    name = max(common, key=lambda move: move.length).name
    figure = Figure(figsize=(11, 7.5), layout='constrained')
    ((to_go, away), (tcp, joints)) = figure.subplots(2, 2)
    for run in runs:
        move = next(move for move in run.moves if move.name == name)
        t = move.trace.t - move.trace.t[0]
        distance = np.linalg.norm(move.trace.T_base_tcp[:, :3, 3] - move.T_goal[:3, 3], axis=1)
        for axes, curve in (
            (to_go, 1e3 * distance),
            (away, 1e3 * move.deviation),
            (tcp, move.trace.tcp_speed),
            (joints, move.trace.joint_speed),
        ):
            axes.plot(t, curve, label=run.method)
    for axes, title, unit in (
        (to_go, 'distance of the TCP from the goal', 'distance [mm]'),
        (away, 'deviation of the TCP from the straight line', 'distance [mm]'),
        (tcp, 'speed of the TCP', 'speed [m/s]'),
        (joints, 'speed of the fastest joint', 'speed [rad/s]'),
    ):
        frame(axes, title, 'simulated time since the move began [s]', unit)
        axes.legend()
    for axes in (to_go, away):
        axes.set_yscale('log')
        axes.set_ylim(bottom=_FLOOR)
    figure.suptitle(f'Straight move {name!r} by method, from measured joints')
    figure.savefig(path, dpi=110)
