# SPDX-License-Identifier: Apache-2.0
"""
A stand-in for the broadcasters of ROS 2's `tf2_ros`, which the Python registry lacks.

Same names, signatures, topics and QoS. There is no buffer: this repository reads /tf by itself.
"""

from tf2_ros.static_transform_broadcaster import StaticTransformBroadcaster
from tf2_ros.transform_broadcaster import TransformBroadcaster

__all__ = ['StaticTransformBroadcaster', 'TransformBroadcaster']
