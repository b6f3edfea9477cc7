# SPDX-License-Identifier: Apache-2.0
"""A closed loop in execution: its ticks on joint_states, and whether the arm follows."""

from ur5_pick_place.control.closed_loop import ClosedLoop, TrajectorySegment
from ur5_pick_place.control.controller import OnEnd
from ur5_pick_place.control.motion_monitor import StallDetector
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.planning.trajectory import Trajectory

_SET_BACK = 0.1  # [s]; stamps that decrease by more mean that the clock was set back


class Stream:
    """
    A running closed loop.

    Parameters
    ----------
    loop : ClosedLoop
    trajectory : Trajectory
        Its roll-out.
    on_end : callable
        Called at the end with '' if the joints have reached the goal, else with the reason.
    stall_time : float
        How long the arm may be at rest while the loop continues [s].

    Attributes
    ----------
    is_wanted_stop : bool
        Whether a stop was requested; the reason that the loop gives is then not latched.

    """

    def __init__(
        self, loop: ClosedLoop, trajectory: Trajectory, on_end: OnEnd, stall_time: float
    ) -> None:
        self.loop, self.trajectory, self.on_end = loop, trajectory, on_end
        self.is_wanted_stop = False
        self._stall, self._stamp = StallDetector(stall_time), 0.0

    def tick(self, status: RobotStatus) -> tuple[TrajectorySegment | None, str]:
        """
        Return the segment to send for the latest joints, and the fault that ends the loop.

        Either may be missing: None, and '' without a fault.

        """
        assert status.q is not None and status.qd is not None  # else the loop had not begun
        if status.stamp < self._stamp - _SET_BACK:
            return None, (
                'the clock of joint_states was set back: check whether the driver restarted'
            )
        self._stamp = status.stamp
        segment = self.loop.tick(status.stamp, status.q, status.qd, status.speed_scaling)
        if self.loop.outcome is not None:
            return segment, ''
        return segment, self._stall.tick(status.stamp, status.q, self.loop.q_planned) or ''
