# SPDX-License-Identifier: Apache-2.0
"""QoS profiles that several nodes use; the driver's where it defines them."""

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def fresh(lifespan: float) -> QoSProfile:
    """
    Return the QoS of commands: one that is older than `lifespan` [s] is not delivered.

    Otherwise DDS delivers a reliable request when a cut link returns, seconds after the sender
    has given up and stopped: a gripper once opened that way while the arm carried the part.

    """
    return QoSProfile(depth=10, lifespan=Duration(nanoseconds=round(1e9 * lifespan)))


SWITCHING = fresh(0.5)
"""For small requests; a lossy link delivers them within about 0.1 s."""
