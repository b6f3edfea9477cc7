# SPDX-License-Identifier: Apache-2.0
"""Leads the tool along the straight line to its goal by a law that knows only the next pose."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from ur5_pick_place.control.laws import Gradient, ResolvedRate, body_error
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.errors import IncompletePath, InvalidInput
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.curves import Line
from ur5_pick_place.planning.limits import Limits, tcp_and_elbow_speed

METHODS: dict[str, type[ResolvedRate] | type[Gradient]] = {
    law.name: law for law in (ResolvedRate, Gradient)
}
"""The closed-loop methods by the name that `controller_names` takes."""


# Shares of the thresholds: a roll-out may miss its goal by half, and the arm the roll-out's end by
# half. Within the other the law is at rest.
_SETTLED = 0.5
_CLOSE = 0.2
_ASTRAY = 0.5  # of the lead, beyond it
_NEAR = 0.1  # [m] of the lead, within which W may mix position and orientation
_SUITED_FOR = 0.005  # [m] of the line


class Law(Protocol):
    """From where the arm is to the joint velocity that shrinks its error."""

    name: str

    def rate(self, q: Array, T_goal: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] from joints `q` (6,) to T_base_tool (4, 4)."""
        ...

    def obstacle(self, q: Array, T_goal: Array) -> str:
        """Return why the law cannot lead from joints `q` (6,) to the goal (4, 4), or nothing."""
        ...


def make_law(method: str, model: Model, settings: LoopSettings) -> Law:
    """Return the law of a method; an unknown one is refused with those that exist."""
    if method not in METHODS:
        raise InvalidInput(f'method {method!r} is unknown: use {" or ".join(METHODS)}')
    return METHODS[method](model, settings.loop_gain, settings.loop_length)


class LineFollower:
    """
    What joint velocity a motion wishes at each place.

    The law's goal runs ahead of the tool on the line from start to goal, as far as the lead, so
    that any law stays near the line. A wish that is too fast is scaled as a whole.

    Parameters
    ----------
    law : Law
    model : Model
    limits : Limits
        Joint velocity and speed of TCP and elbow are kept.
    p_tool_tcp : ndarray, shape (3,)
        The TCP in tool0 [m].
    q_start : ndarray, shape (6,)
        [rad]
    T_goal : ndarray, shape (4, 4)
        T_base_tool.
    settings : LoopSettings

    Attributes
    ----------
    way, remaining : float
        The length of the line, and what was left of it at the last wish; radians count by the
        length [m].
    lead : float
        How far the law's goal may be from the tool [m].
    is_astray : bool
        Whether the tool was thrown off the line, farther from the law's goal than the lead.

    """

    def __init__(
        self,
        law: Law,
        model: Model,
        limits: Limits,
        p_tool_tcp: Array,
        q_start: Array,
        T_goal: Array,
        settings: LoopSettings,
    ) -> None:
        self._law, self._model = law, model
        self._limits = replace(limits, qd=np.minimum(limits.qd, settings.loop_velocity))
        self._p_tool_tcp, self._settings, self._T_goal = p_tool_tcp, settings, T_goal
        self._line = Line(forward(model, q_start), T_goal)
        self.way = float(np.hypot(self._line.length, settings.loop_length * self._line.turn))
        self.remaining, self._error = self.way, body_error(forward(model, q_start), T_goal)
        self.is_astray = False
        self.lead = settings.loop_lead
        if law.name == Gradient.name:
            self.lead = settings.loop_gradient_lead
        self._share = 0.0  # of the line, where the law's goal is
        self._suited = -np.inf  # where it was when the law was last suited to the arm [m]

    def obstacle(self, q: Array) -> str:
        """Return why the law cannot lead from joints `q` (6,) to the goal, or nothing."""
        return self._law.obstacle(q, self._T_goal)

    def wish(self, q: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] at joints `q` (6,) [rad]; zero at the goal."""
        T = forward(self._model, q)
        error = body_error(T, self._T_goal)
        self.remaining, self._error = self._weighed(error), error
        if self._is_within(error, _CLOSE):
            return np.zeros(6)
        T_next = self._next_goal(T)
        self._suit(q)
        qd = self._law.rate(q, T_next)
        speed = tcp_and_elbow_speed(self._model, q[None], qd[None], self._p_tool_tcp).max()
        used = max(np.abs(qd / self._limits.qd).max(), speed / self._limits.speed)
        return np.asarray(qd / max(used, 1.0))

    def is_there(self, q: Array) -> bool:
        """Whether the goal counts as reached at joints `q` (6,) [rad]."""
        return self._is_within(body_error(forward(self._model, q), self._T_goal), _SETTLED)

    def incomplete(self, reason: str) -> IncompletePath:
        """Return the error that says how far the law has come."""
        # A way beyond all measure has no share: nothing of it then.
        fraction = float(np.nan_to_num(np.clip(1.0 - self.remaining / self.way, 0.0, 1.0)))
        away, turned = np.linalg.norm(self._error.reshape(2, 3), axis=1)
        return IncompletePath(
            f'{self._law.name} can follow the line to {np.floor(100 * fraction):.0f} %, '
            f'{1e3 * away:.3g} mm and {np.degrees(turned):.3g} deg from its end: {reason}',
            fraction,
        )

    def apart(self, T_a: Array, T_b: Array) -> float:
        """Return the distance of two poses (4, 4), radians counting by the length [m]."""
        return self._weighed(body_error(T_a, T_b))

    def _is_within(self, error: Array, share: float) -> bool:
        settings = self._settings
        return bool(
            1e3 * np.linalg.norm(error[:3]) <= share * settings.loop_position_threshold
            and np.degrees(np.linalg.norm(error[3:])) <= share * settings.loop_angle_threshold
        )

    def _next_goal(self, T: Array) -> Array:
        """Move the law's goal on; by the triangle inequality it stays within the lead."""
        lead = self.lead
        spare = lead - self._weighed(body_error(T, self._at(self._share)))
        self.is_astray = spare < -_ASTRAY * lead
        if self._share < 1.0:
            self._share = min(1.0, self._share + max(spare, 0.0) / max(self.way, 1e-9))
        return self._at(self._share)

    def _suit(self, q: Array) -> None:
        """Let gradient weigh its error anew each time that its near goal has gone some way."""
        gone = self._share * self.way
        has_ended = self._share == 1.0 and self._suited < gone
        is_due = has_ended or gone - self._suited >= _SUITED_FOR
        if isinstance(self._law, Gradient) and self.lead <= _NEAR and is_due:
            self._law.suit(q)
            self._suited = gone

    def _at(self, share: float) -> Array:
        return self._T_goal if share == 1.0 else self._line(np.array([share]))[0]

    def _weighed(self, error: Array) -> float:
        turn = self._settings.loop_length * np.linalg.norm(error[3:])
        return float(np.hypot(np.linalg.norm(error[:3]), turn))
