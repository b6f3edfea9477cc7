# SPDX-License-Identifier: Apache-2.0
"""
A stand-in for ROS 2's `tf2_ros`, which the Python registry lacks.

Same names, signatures, topics and QoS, as far as this repository uses them: no `transform()` of
stamped objects, no `*_full` and `*_async` look-ups, no frame-graph service.

"""

from tf2_ros.buffer import Buffer
from tf2_ros.exceptions import (
    ConnectivityException,
    ExtrapolationException,
    InvalidArgumentException,
    LookupException,
    TimeoutException,
    TransformException,
)
from tf2_ros.static_transform_broadcaster import StaticTransformBroadcaster
from tf2_ros.transform_broadcaster import TransformBroadcaster
from tf2_ros.transform_listener import TransformListener

__all__ = [
    'Buffer',
    'ConnectivityException',
    'ExtrapolationException',
    'InvalidArgumentException',
    'LookupException',
    'StaticTransformBroadcaster',
    'TimeoutException',
    'TransformBroadcaster',
    'TransformException',
    'TransformListener',
]
