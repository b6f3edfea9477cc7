# SPDX-License-Identifier: Apache-2.0
"""Whether a motion is slow enough for the robot's reduced mode, also one that runs already."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.control.controller import Goal
from ur5_pick_place.control.loops.stream import Stream
from ur5_pick_place.control.path_position import first_pass
from ur5_pick_place.control.robot_status import SAFETY_REDUCED, RobotStatus
from ur5_pick_place.planning.limits import tcp_and_elbow_speed
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner

_STEP = 0.01  # [s] between samples: a check must not delay the processing of joint_states
_SLACK = 1.005  # the gate samples at other times, and admits a little more than the limit


@dataclass(eq=False)
class ReducedMode:
    """Compares motions with the limit of the reduced mode, while the robot is in it."""

    planner: MotionPlanner
    status: RobotStatus
    _seen: Goal | Stream | None = None  # compared already, since the mode changed

    @property
    def is_on(self) -> bool:
        return self.status.safety_mode == SAFETY_REDUCED

    def objection(self, motion: Goal | Stream | None) -> str:
        """Return why a running motion must stop, once per motion and mode, or an empty text."""
        if not self.is_on:
            self._seen = None
        if not self.is_on or motion is self._seen:
            return ''
        self._seen = motion
        q = self.status.q
        if motion is None or motion.stop_reason or q is None:
            return ''
        if (trajectory := motion.trajectory) is None:
            return ''  # a jog keeps the limits of the present mode by itself
        excess = self._excess(trajectory, first_pass(trajectory, q, motion.within))
        return excess and f'the safety mode is now reduced, but {excess}: plan a slower motion'

    def _excess(self, trajectory: Trajectory, begin: float) -> str:
        """Return what is too fast from time `begin` [s] on; empty if nothing is."""
        planner, limits = self.planner, self.planner.limits_in(True)
        if limits is planner.limits:
            return ''  # max_speed is the limit in this mode too
        limit, t = limits.speed, np.arange(begin, trajectory.duration, _STEP)
        q, qd, _, _ = trajectory.sample(np.append(t, trajectory.duration))
        speed = tcp_and_elbow_speed(planner.model, q, qd, planner.scene.tool.p_tool_tcp)
        i, which = np.unravel_index(speed.argmax(), speed.shape)
        if speed[i, which] <= limit * _SLACK:
            return ''
        return (
            f'{("TCP", "elbow")[which]} moves at {speed[i, which]:.3f} m/s, limit {limit:.3f} m/s '
            'in this mode (reduced_speed)'
        )
