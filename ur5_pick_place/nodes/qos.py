# SPDX-License-Identifier: Apache-2.0
"""Qualities of service that more than one node uses; the driver's where it has them."""

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def fresh(lifespan: float) -> QoSProfile:
    """
    Return the QoS of what moves something: kept longer than `lifespan` [s] it is never delivered.

    Else DDS hands over a reliable request whenever a cut cable is mended, seconds after whoever
    sent it has given it up and stopped: a gripper opened that way with the part in the air.

    """
    return QoSProfile(depth=10, lifespan=Duration(nanoseconds=round(1e9 * lifespan)))


SWITCHING = fresh(0.5)
"""Of small requests; a lossy cable has them over within some 0.1 s."""
