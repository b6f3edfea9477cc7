# SPDX-License-Identifier: Apache-2.0
"""Live plots: joint speeds, and how far each joint is from its nearer limit."""

from collections import deque
from typing import Any

import numpy as np
import viser
from viser import uplot

from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.kinematics.transforms import Array

PERIOD = 0.2  # [s] between two samples
_SPAN = 10.0  # [s] shown
_COLOURS = ('#1f77b4', '#ff7f0e', '#2ca02c', '#d62728', '#9467bd', '#17a2b8')
_HEIGHT = 190  # pixels
_VISIBLE = 0.05  # [deg, deg/s]


class Plots:
    """
    Two plots over the last seconds.

    `model`: source of the limits.
    """

    def __init__(self, gui: viser.GuiApi, model: Model) -> None:
        self._low, self._high = model.q_min, model.q_max
        self._samples: deque[tuple[float, Array, Array]] = deque(maxlen=round(_SPAN / PERIOD))
        self._sent = np.empty((0, 12))
        self._speeds = self._plot(gui, 'Joint speeds [deg/s]')
        self._margins = self._plot(gui, 'Distance to the nearer limit [deg]')

    @staticmethod
    def _plot(gui: viser.GuiApi, title: str) -> Any:
        series = [uplot.Series(label='t [s]')]
        series += [
            uplot.Series(label=name.removesuffix('_joint'), stroke=colour, width=2)
            for name, colour in zip(JOINT_NAMES, _COLOURS, strict=True)
        ]
        nothing = (np.zeros(1),) * 7
        return gui.add_uplot(
            nothing,
            tuple(series),
            title=title,
            height=_HEIGHT,
            scales={'x': uplot.Scale(time=False)},
            legend=uplot.Legend(show=True),
        )

    def add(self, t: float, q: Array, qd: Array) -> None:
        """Add joints (6,) [rad] and speeds (6,) [rad/s] at time t [s]."""
        if self._samples and t < self._samples[-1][0]:
            self._samples.clear()  # a restarted cell
        self._samples.append((t, np.degrees(qd), np.degrees(self.margins(q))))

    def margins(self, q: Array) -> Array:
        """Return the distance of each joint to its nearer limit (6,) [rad]."""
        return np.asarray(np.minimum(q - self._low, self._high - q))

    def draw(self) -> None:
        """Send the plots to the browsers, unless they look as before."""
        if not self._samples:
            return
        values = np.array([np.concatenate(sample[1:]) for sample in self._samples])
        if values.shape == self._sent.shape and np.abs(values - self._sent).max() < _VISIBLE:
            return
        self._sent = values
        t = np.array([sample[0] for sample in self._samples])
        for plot, lines in ((self._speeds, values[:, :6]), (self._margins, values[:, 6:])):
            plot.data = (t - t[-1], *np.ascontiguousarray(lines.T))
