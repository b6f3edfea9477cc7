# SPDX-License-Identifier: Apache-2.0
"""What a client has received, shared by the thread that receives and those that wait."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from rcl_interfaces.msg import Log
from sensor_msgs.msg import JointState

from ur5_pick_place.client.connection import Event
from ur5_pick_place.control.stillness import Stillness
from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import joints_from_state, to_seconds
from ur5_pick_place.task.events import TAUGHT

_FRESH = 1.0  # [s] largest age of joints that count as the present ones
_RECENT = 0.2  # [s] largest age of joints that show whether the arm is at rest
_WARNING = 30  # level in the log


class ReceivedMessages:
    """
    The latest message of every topic that a client subscribes to.

    `changed` is notified after every change that somebody may wait for. `states` has the latest
    state of each node that publishes one, and `taught` the latest event `taught` of each place.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()  # with an RLock: predicates may call these methods
        self.prefix = ''  # of the arm's joints and frames
        self.states: dict[str, str] = {}
        self.taught: dict[str, Event] = {}
        self._listeners: list[deque[Event]] = []
        self._log: deque[str] = deque(maxlen=16)  # warnings and errors
        self._joints: tuple[Array, JointState, float] | None = None  # and when they arrived
        self._bad_joints = ''
        self._stillness = Stillness()
        self._dead: set[str] = set()

    # -- callbacks -----------------------------------------------------------------------------

    def notify(self) -> None:
        """Wake those who wait."""
        with self.changed:
            self.changed.notify_all()

    def on_event(self, event: Event) -> None:
        """Take an event of the task node."""
        with self.changed:
            if event['event'] == TAUGHT and isinstance(place := event.get('place'), str):
                self.taught[place] = event
            for events in self._listeners:
                events.append(event)
            self.changed.notify_all()

    def on_state(self, node: str, state: str) -> None:
        self.states[node] = state
        self.notify()

    def on_liveliness(self, node: str, event: Any) -> None:
        """Take a change of how many publishers of a node's state are alive."""
        if event.alive_count:
            self._dead.discard(node)
        elif event.alive_count_change < 0:
            self._dead.add(node)
            self.taught.clear()  # a restarted node may have another tool
        self.notify()

    def on_joints(self, message: JointState, problem: str = '') -> None:
        """Take joints of this arm, or why they are not to be used; malformed ones are ignored."""
        if problem:
            with self.changed:
                self._bad_joints = problem
                self.changed.notify_all()
            return
        try:
            q = joints_from_state(message, self.joint_names)
        except InvalidInput:
            return  # the planner reports it, and stops for it
        now = time.monotonic()
        with self.changed:
            self._joints, self._bad_joints = (q, message, now), ''
            self._stillness.update(to_seconds(message.header.stamp), q)

    def on_log(self, message: Log) -> None:
        """Take a line of the planner's log; warnings and errors are kept."""
        if message.level >= _WARNING:
            with self.changed:
                self._log.append(message.msg)
                self.changed.notify_all()

    # -- what is known -------------------------------------------------------------------------

    @property
    def joint_names(self) -> list[str]:
        """Of the arm, in controller order."""
        return [self.prefix + name for name in JOINT_NAMES]

    @property
    def has_joints(self) -> bool:
        """Whether joints of the arm were received at all, good or bad."""
        return bool(self._joints or self._bad_joints)

    def joints(self) -> tuple[Array, JointState]:
        """
        Return the present joints (6,) [rad], and their message.

        Raises `ExecutionError`: the driver is silent, or two publishers send them.
        """
        if self._bad_joints:
            raise ExecutionError(self._bad_joints)
        q, message, arrived = self._joints or (np.zeros(6), JointState(), 0.0)
        if (age := time.monotonic() - arrived) > _FRESH:
            raise ExecutionError(
                f'joint_states are silent for {age:.1f} s: check the driver and the link to it'
            )
        return q, message

    def is_at_rest(self) -> bool:
        """
        Return whether recent joints show that the arm has not moved for a while.

        Silence does not show it; errors as `joints`.
        """
        self.joints()
        with self.changed:
            arrived = self._joints[2] if self._joints else -np.inf
            return time.monotonic() - arrived <= _RECENT and self._stillness.is_at_rest

    def error(self, *words: str) -> str:
        """Return the latest warning or error in the log with all `words`; '' if there is none."""
        with self.changed:
            lines = reversed(self._log)
            return next((line for line in lines if all(word in line for word in words)), '')

    def forget_errors(self) -> None:
        """Clear what `error` finds."""
        with self.changed:
            self._log.clear()

    def missing_nodes_text(self) -> str:
        """Return which nodes have died or are stuck, as text; '' if none."""
        return '; '.join(f'node {name} has gone or is stuck' for name in sorted(self._dead))

    @contextlib.contextmanager
    def listening(self) -> Iterator[deque[Event]]:
        """Collect the events from now on, oldest first; read them under `changed`."""
        events: deque[Event] = deque()
        with self.changed:
            self._listeners.append(events)
        try:
            yield events
        finally:
            with self.changed:
                self._listeners = [other for other in self._listeners if other is not events]
