# SPDX-License-Identifier: Apache-2.0
"""
Jogging while a button is held: one message to the planner per report that counts.

The planner ends a jog 0.2 s after the last message. Nothing here may repeat a message by itself:
if a browser dies, freezes or loses its connection, the jog must end.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from control_msgs.msg import JointJog
from geometry_msgs.msg import TwistStamped
from rclpy.node import Node

from ur5_pick_place.client import requests
from ur5_pick_place.client.connection import PLANNER

RATE = 30.0  # [Hz] at which a browser reports a held button
LINEAR, ANGULAR, JOINT = 0.1, 0.5, 0.5  # [m/s], [rad/s], [rad/s] at full jog speed

# [s] longest gap between two reports of a held button; after it another button or browser may jog
_QUIET = 0.2
_AGREES = 0.1  # [s] largest difference of this clock and the joints' stamp, delay included
_BURST = 0.015  # [s]; what a stalled connection delivers at once moves nothing


@dataclass
class HoldFilter:
    """
    Decides which reports of held buttons count, of one button at a time.

    A report counts only 15 to 200 ms after the previous one of the same button: a single late
    report, or a burst after a stall, may be of a button that was released since.
    """

    clock: Callable[[], float] = time.monotonic  # steady time [s]
    _who: tuple[int, str] | None = field(default=None, init=False)
    _last: float = field(default=-1e9, init=False)  # time of the latest report

    def accepts(self, client: int, button: str) -> bool:
        """Return whether a report that `client` holds `button` is to be passed on."""
        now, who = self.clock(), (client, button)
        if who != self._who and now < self._last + _QUIET:
            return False
        gap = now - self._last if who == self._who else math.inf
        self._who, self._last = who, now
        return _BURST <= gap < _QUIET


class Jog:
    """
    Publishes what the held buttons request.

    `prefix`: of frames. `stamp_of_joints`: returns the stamp of the latest joint_states [s].
    Messages are stamped only if this node's clock agrees with it. It does not in the simulated
    cell, as this node runs on wall time, nor if the clocks of two PCs differ.
    """

    def __init__(
        self,
        node: Node,
        prefix: str,
        joint_names: tuple[str, ...],
        stamp_of_joints: Callable[[], float],
    ) -> None:
        self._node, self._prefix, self._names = node, prefix, joint_names
        self._stamp_of_joints = stamp_of_joints
        self._twist = node.create_publisher(TwistStamped, f'{PLANNER}/delta_twist_cmds', 1)
        self._joint = node.create_publisher(JointJog, f'{PLANNER}/delta_joint_cmds', 1)

    def twist(self, frame: str, axis: int, sign: float, speed: float) -> None:
        """Ask for a twist along or about an axis 0 to 5 of a frame, at a share of full speed."""
        velocity = np.zeros(6)
        velocity[axis] = sign * speed * (LINEAR if axis < 3 else ANGULAR)
        message = requests.twist(velocity, self._prefix + frame)
        self._stamp(message)
        self._twist.publish(message)

    def joint(self, joint: int, sign: float, speed: float) -> None:
        """Ask for the motion of one joint, at a share of full speed."""
        message = JointJog(
            joint_names=[self._names[joint]], velocities=[sign * JOINT * speed], duration=1 / RATE
        )
        self._stamp(message)
        self._joint.publish(message)

    def _stamp(self, message: TwistStamped | JointJog) -> None:
        now = self._node.get_clock().now()
        if abs(now.nanoseconds * 1e-9 - self._stamp_of_joints()) < _AGREES:
            message.header.stamp = now.to_msg()
