# SPDX-License-Identifier: Apache-2.0
"""Size-limited conversion of messages, for topics on which any node may publish."""

from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message

_WARNING_PERIOD = 10.0  # [s]


class BoundedReader:
    """
    Converts the serialized messages of a raw subscription, unless they are too large or malformed.

    rclpy would convert a message of any size before it calls the callback, and block all other
    callbacks meanwhile.

    Parameters
    ----------
    kind : type
        Type of the messages.
    topic : str
        For the warning about a message that was ignored.
    largest : int
        Largest size of a message that is converted [bytes].

    """

    def __init__(self, node: Node, kind: type, topic: str, largest: int) -> None:
        self._kind, self._topic, self._largest = kind, topic, largest
        self._log = node.get_logger()
        self._latest: tuple[bytes, Any] = b'', None

    def read(self, data: bytes) -> Any:
        """
        Return the message, or None, with a warning, if it is too large or malformed.

        It must not be changed: for the same bytes once more the same object is returned, as the
        driver repeats many messages at 500 Hz.

        """
        latest, message = self._latest
        if message is None or data != latest:
            message = self._convert(data)
            self._latest = data, message
        return message

    def _convert(self, data: bytes) -> Any:
        if len(data) > self._largest:
            self._warn(f'a message of {len(data)} bytes was ignored (at most {self._largest})')
            return None
        try:
            return deserialize_message(data, self._kind)
        except RuntimeError:  # the base of rclpy's own, which is private
            self._warn(f'a malformed message of {len(data)} bytes was ignored')
            return None

    def _warn(self, text: str) -> None:
        self._log.warning(
            f'{self._topic}: {text}; list its publishers: ros2 topic info -v {self._topic}',
            throttle_duration_sec=_WARNING_PERIOD,
        )
