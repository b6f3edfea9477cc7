# SPDX-License-Identifier: Apache-2.0
"""Follow the straight line to a goal with a law that knows only the next pose."""

from dataclasses import replace
from math import degrees, hypot

import numpy as np

from ur5_pick_place.control.loops.laws import Gradient, ResolvedRate
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.errors import IncompletePath, InvalidInput
from ur5_pick_place.kinematics import Model, forward
from ur5_pick_place.kinematics.transforms import Array, body_error, make_transform
from ur5_pick_place.planning.limits import Limits, slowed_to
from ur5_pick_place.planning.paths.curves import Line
from ur5_pick_place.planning.planner import MotionPlanner

Law = ResolvedRate | Gradient

METHODS: dict[str, type[Law]] = {law.name: law for law in (ResolvedRate, Gradient)}
"""The closed-loop methods, by their names in `controller_names` of ExecuteTrajectory."""


# Fractions of the thresholds. A roll-out may miss its goal by half, and the arm may miss the
# roll-out's end by the other half. Within _CLOSE the desired velocity is zero.
_SETTLED = 0.5
_CLOSE = 0.2
_OFF_LINE = 0.5  # fraction by which the distance to the law's goal may exceed the lookahead
_NEAR = 0.1  # [m]; with a lookahead up to this, the weight of the gradient law is adapted
_ADAPT_EVERY = 0.005  # [m] along the line


def make_law(method: str, model: Model, settings: LoopSettings) -> Law:
    """Return the law of a method, or raise `InvalidInput` naming the known methods."""
    if method not in METHODS:
        raise InvalidInput(f'method {method!r} is unknown: use {" or ".join(METHODS)}')
    return METHODS[method](model, settings.loop_gain, settings.loop_length)


class LineFollower:
    """
    The desired joint velocity of a motion along the line of the TCP from start to goal.

    The law's goal moves along the line in front of the TCP, at most the lookahead away, so that
    any law stays near the line. A velocity that exceeds a limit is scaled as a whole.

    - `planner`: of the arm with its tool
    - `method`: one of `METHODS`
    - `limits`: bounds on joint velocity and on the speed of TCP and elbow
    - `q_start` (6,) [rad]
    - `T_goal` (4, 4): T_base_tool

    - `length`, `remaining`: length of the line, and what remained of it at the last
      `desired_velocity` [m]; rotation counts `loop_length` metres per radian
    - `lookahead`: largest distance of the law's goal from the TCP [m]
    - `is_off_line`: whether the TCP has left the line: it is over 1.5 lookaheads from the law's
      goal
    """

    def __init__(
        self,
        planner: MotionPlanner,
        method: str,
        limits: Limits,
        q_start: Array,
        T_goal: Array,
        settings: LoopSettings,
    ) -> None:
        self._model, p_tool_tcp = planner.model, planner.scene.tool.p_tool_tcp
        self._law = law = make_law(method, planner.model, settings)
        self._limits = replace(limits, qd=np.minimum(limits.qd, settings.loop_velocity))
        self._p_tool_tcp = p_tool_tcp
        self._T_tool_tcp = make_transform(np.eye(3), p_tool_tcp)
        self._T_tcp_tool = make_transform(np.eye(3), -p_tool_tcp)
        self._settings, self._T_goal = settings, T_goal
        self._T_tcp_goal = T_goal @ self._T_tool_tcp
        T_tcp = self._T_base_tcp(q_start)
        self._line = Line(T_tcp, self._T_tcp_goal)
        self._error = body_error(T_tcp, self._T_tcp_goal)
        self.length = self.remaining = self._weighed(self._error)
        self.is_off_line = False
        self.lookahead = settings.loop_lead
        if law.name == Gradient.name:
            self.lookahead = settings.loop_gradient_lead
        self._share, self._T_next = 0.0, T_tcp  # the law's goal on the line, 0 to 1
        self._adapted = -np.inf  # position at which the weight was last adapted [m]

    def why_unreachable(self, q: Array) -> str:
        """Return why the law cannot reach the goal from joints `q` (6,); empty if it can."""
        return self._law.why_unreachable(q, self._T_goal)

    def desired_velocity(self, q: Array) -> Array:
        """Return the joint velocity (6,) [rad/s] at joints `q` (6,) [rad]; zero at the goal."""
        T = self._T_base_tcp(q)
        error = body_error(T, self._T_tcp_goal)
        self.remaining, self._error = self._weighed(error), error
        if self._is_within(error, _CLOSE):
            return np.zeros(6)
        T_next = self._next_goal(T) @ self._T_tcp_tool
        self._adapt_weight(q)
        rate = self._law.rate(q, T_next)
        return slowed_to(self._limits, self._model, q, rate, self._p_tool_tcp)

    def is_at_goal(self, q: Array) -> bool:
        """Return whether the goal counts as reached at joints `q` (6,) [rad]."""
        return self._is_within(body_error(self._T_base_tcp(q), self._T_tcp_goal), _SETTLED)

    def incomplete(self, reason: str) -> IncompletePath:
        """Return the error that states how far the law has come along the line."""
        # The fraction of a line of infinite length is 0.
        fraction = float(np.nan_to_num(np.clip(1.0 - self.remaining / self.length, 0.0, 1.0)))
        away, turned = np.linalg.norm(self._error.reshape(2, 3), axis=1)
        return IncompletePath(
            f'{self._law.name} can follow the line to {np.floor(100 * fraction):.0f} %, '
            f'{1e3 * away:.3g} mm and {np.degrees(turned):.3g} deg from its end: {reason}',
            fraction,
        )

    def distance(self, T_a: Array, T_b: Array) -> float:
        """Return the distance of two poses (4, 4) [m]; a radian counts `loop_length` metres."""
        return self._weighed(body_error(T_a, T_b))

    def _T_base_tcp(self, q: Array) -> Array:
        """Return the pose (4, 4) in base of a frame at the TCP with the axes of tool0."""
        return np.asarray(forward(self._model, q) @ self._T_tool_tcp)

    def _is_within(self, error: Array, share: float) -> bool:
        settings = self._settings
        away, turned = _lengths(error)
        return (
            1e3 * away <= share * settings.loop_position_threshold
            and degrees(turned) <= share * settings.loop_angle_threshold
        )

    def _next_goal(self, T: Array) -> Array:
        """Return the TCP's next goal; by the triangle inequality it stays within the lookahead."""
        lookahead = self.lookahead
        spare = lookahead - self._weighed(body_error(T, self._T_next))
        self.is_off_line = spare < -_OFF_LINE * lookahead
        if self._share < 1.0:
            self._share = min(1.0, self._share + max(spare, 0.0) / max(self.length, 1e-9))
            self._T_next = self._line.at(self._share)
        return self._T_next

    def _adapt_weight(self, q: Array) -> None:
        """Adapt the weight of the gradient law each time its goal has moved far enough."""
        travelled = self._share * self.length
        has_ended = self._share == 1.0 and self._adapted < travelled
        is_due = has_ended or travelled - self._adapted >= _ADAPT_EVERY
        if isinstance(self._law, Gradient) and self.lookahead <= _NEAR and is_due:
            self._law.adapt_weight(q)
            self._adapted = travelled

    def _weighed(self, error: Array) -> float:
        away, turned = _lengths(error)
        return hypot(away, self._settings.loop_length * turned)


def _lengths(error: Array) -> tuple[float, float]:
    """Return the lengths of position and orientation error of a body error (6,) [m, rad]."""
    x, y, z, wx, wy, wz = error.tolist()
    return hypot(x, y, z), hypot(wx, wy, wz)
