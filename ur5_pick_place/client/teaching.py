# SPDX-License-Identifier: Apache-2.0
"""Teach places from a script."""

import time
from collections import deque
from contextlib import suppress

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from numpy.typing import ArrayLike

from ur5_pick_place.client import requests
from ur5_pick_place.client.cell_reader import CellReader
from ur5_pick_place.client.link import TASK
from ur5_pick_place.client.received import Event
from ur5_pick_place.errors import ExecutionError, PlanningError, TimedOut
from ur5_pick_place.nodes.messages.conversions import time_to_msg
from ur5_pick_place.nodes.pick_place.teaching import stamp_text
from ur5_pick_place.task import events

_REPEAT = 2.0  # [s] after which an unanswered pose is published again
_PRESENT = 'the present joints (neither xyz nor T is given)'
_LISTENER = 5.0  # [s] for a topic's subscriber to be discovered


class Teaching(CellReader):
    """Teaches places, and waits until they are taught or refused."""

    _poses = 0  # sent

    def teach(
        self,
        place: str,
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
    ) -> str:
        """
        Teach a place from the present joints, or from a pose of the TCP; return what was taught.

        Parameters
        ----------
        place : str
            One of `places`.
        xyz : array_like, shape (3,), optional
            Point of the TCP in `frame` [m], tool down.
        yaw_deg : float, optional
            Angle of the TCP's x axis about z [deg], 0 by default; with `xyz` alone.
        T : array_like, shape (4, 4), optional
            Pose of the TCP in `frame`, instead of `xyz`.
        frame : str, optional
            `base_link` by default.

        Returns
        -------
        str
            With a warning if the arm cannot be there, or above it, in the present scene.

        Raises
        ------
        PlanningError
            The node refuses it, for example because the arm cannot reach it; gives the reason.
            The place stays as it was.
        InvalidInput
            The pose is malformed, or there is no such place.

        """
        self._check_place(place)
        if xyz is None and T is None:
            requests.refuse_beside(_PRESENT, yaw_deg=yaw_deg, frame=frame)
            is_taught, message = self._trigger(f'teach_{place}')
            if not is_taught:
                raise _refusal(place, message)
            return message
        return self._teach_pose(place, requests.stamped(requests.tcp_pose(xyz, yaw_deg, T), frame))

    def _new_stamp(self) -> Time:
        """Return the time of the cell, with nanoseconds that no pose of this client had before."""
        try:
            now = self._link.received.joints()[1].header.stamp
        except ExecutionError:  # for a frame that does not move
            now = time_to_msg(time.time())
        self._poses += 1
        return Time(sec=now.sec, nanosec=now.nanosec // 1000 * 1000 + self._poses % 1000)

    def _teach_pose(self, place: str, pose: PoseStamped) -> str:
        topic = f'{TASK}/{place}_pose'
        try:
            publisher = self._link.publisher(PoseStamped, topic, _LISTENER)
        except TimedOut as error:
            raise ExecutionError(f'{place} not taught: {error}; teach it from joints') from error
        pose.header.stamp = self._new_stamp()
        stamp = stamp_text(pose.header.stamp)
        deadline = time.monotonic() + self._link.timeout
        with self._link.received.listening() as collected:
            while True:
                publisher.publish(pose)
                with suppress(TimedOut):
                    answer = self._link.wait(
                        lambda: _answer(collected, stamp), f'{topic} to be answered', _REPEAT
                    )
                    break
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f'{place} not taught: no answer to {topic} within '
                        f'{self._link.timeout:g} s; look at the log of {TASK}'
                    )
        if answer['event'] == events.REFUSED:
            raise _refusal(place, answer['reason'])
        warning = answer['warning']
        return f'{place} taught{f"; warning: {warning}" if warning else ""}'


def _refusal(place: str, reason: str) -> PlanningError:
    prefix = f'{place} not taught: '
    return PlanningError(prefix + reason.removeprefix(prefix))


def _answer(collected: deque[Event], stamp: str) -> Event | None:
    """Return the outcome of the pose of that stamp, if it has come."""
    return next((event for event in collected if event.get('stamp') == stamp), None)
