# SPDX-License-Identifier: Apache-2.0
"""What a client sees of the cell: state, joints, TCP, places, and the solutions of a pose."""

from contextlib import suppress

from moveit_msgs.srv import GetPositionFK, GetPositionIK
from numpy.typing import ArrayLike
from std_srvs.srv import Trigger

from ur5_pick_place.client import requests
from ur5_pick_place.client.link import PLANNER, TASK, Link
from ur5_pick_place.client.results import Solutions
from ur5_pick_place.errors import InvalidInput, TimedOut
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix, to_seconds

_STATE_TIME = 1.0  # [s] by which the state may follow the reply or the event
_TEACH = f'{TASK}/teach_'


class CellReader:
    """Reads state, joints, TCP and places of the cell; base class of jobs and motions."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def state(self) -> str:
        """
        State of the task, such as `idle`, `running: transfer` or `stopped: <reason>`.

        Also `stopped` while the planner alone is: it refuses every motion.

        """
        self._link.check_open()
        return stopped_first(*map(self._link.received.states.__getitem__, (TASK, PLANNER)))

    @property
    def _task_state(self) -> str:
        """State of the task alone."""
        self._link.check_open()
        return self._link.received.states[TASK]

    @property
    def joints(self) -> Array:
        """Present joints (6,) [rad] in controller order; `ExecutionError` without recent ones."""
        return self._link.received.joints()[0].copy()

    @property
    def stamped_joints(self) -> tuple[float, Array]:
        """The robot's time of the present joints [s], and these, as `joints`."""
        q, message = self._link.received.joints()
        return to_seconds(message.header.stamp), q.copy()

    @property
    def tcp(self) -> Array:
        """Present pose (4, 4) of the TCP in `base_link`."""
        # No frame means the arm's own base_link, even if a mobile base has one of that name.
        return self._pose_of('tcp', '')

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the places that can be taught, as the cycle file defines them."""
        found = (name for name in self._link.services() if name.startswith(_TEACH))
        names = (name.removeprefix(_TEACH) for name in found)
        return tuple(sorted(name for name in names if '/' not in name))

    def solutions(
        self,
        T: ArrayLike | None = None,
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        frame: str | None = None,
        avoid_collisions: bool = False,
    ) -> Solutions:
        """
        Return the joint solutions of a pose on every branch, that nearest to the arm first.

        Parameters
        ----------
        T : array_like, shape (4, 4)
            Pose of the TCP in `frame`; give this or `xyz`.
        xyz : array_like, shape (3,)
            Point of the TCP in `frame` [m], tool down.
        yaw_deg : float, optional
            Angle of the TCP's x axis about z [deg], 0 by default; with `xyz` alone.
        frame : str, optional
            `base_link` by default.
        avoid_collisions : bool
            Whether branches in collision count as missing.

        Raises
        ------
        InvalidInput
            The pose is malformed or the frame is unknown.

        """
        request = GetPositionIK.Request()
        ik = request.ik_request
        ik.ik_link_name = 'tcp'
        ik.avoid_collisions = requests.flag('avoid_collisions', avoid_collisions)
        ik.pose_stamped = requests.stamped(requests.tcp_pose(xyz, yaw_deg, T), frame)
        reply = self._link.call(GetPositionIK, 'compute_ik_all', request)
        try:
            reasons = requests.check_code(reply.error_code, 'compute_ik_all')
        except requests.WITHOUT_SOLUTION as error:
            reasons = str(error).removeprefix('compute_ik_all: ')
        return requests.solutions(reply.solution.joint_state, reasons)

    def _pose_of(self, link: str, frame: str) -> Array:
        request = GetPositionFK.Request(fk_link_names=[link])
        request.header.frame_id = frame
        request.robot_state.joint_state = self._link.received.joints()[1]
        reply = self._link.call(GetPositionFK, 'compute_fk', request)
        requests.check_code(reply.error_code, 'compute_fk')
        return pose_to_matrix(reply.pose_stamped[0].pose)

    def _check_place(self, place: str) -> None:
        known = self.places
        if not isinstance(place, str) or place not in known:
            raise InvalidInput(f'place {place!r} is unknown: must be one of {", ".join(known)}')

    def _trigger(self, name: str) -> tuple[bool, str]:
        """Call a service of the task node; return its success and message."""
        reply = self._link.call(
            Trigger, f'{TASK}/{name}', Trigger.Request(), lambda: self._task_state == 'planning'
        )
        return reply.success, reply.message

    def _await_state(self, *beginnings: str, is_wanted: bool = True) -> None:
        """
        Wait briefly until the state begins, or no longer begins, with one of `beginnings`.

        The state may arrive after the reply that it follows from.

        """

        def is_reached() -> bool:
            states = (self.state, self._task_state)
            return all(state.startswith(beginnings) == is_wanted for state in states)

        with suppress(TimedOut):
            self._link.wait(is_reached, 'the state', _STATE_TIME)


def stopped_first(task: str, planner: str) -> str:
    """Return the state of the task, or that of the planner if it alone is stopped."""
    if planner.startswith('stopped') and not task.startswith('stopped'):
        return planner
    return task
