# SPDX-License-Identifier: Apache-2.0
"""The last messages of each topic, bounded in time and in bytes."""

from collections import deque
from collections.abc import Sequence

from ur5_pick_place.nodes.ros.distro import TakenMessage

_OVERHEAD = 300  # [bytes] of Python's objects around each message
_PUBLISHERS = 64  # whose last message is kept however old it is


class TopicMemory:
    """
    The messages of one topic that were received in the last `span`.

    What exceeds the bytes allowed pushes out older messages of this topic alone.

    `span` [ns]. `most`: bound on the memory [bytes]. `is_latched`: whether the last message of
    each publisher is kept even if it is older than `span`.
    """

    def __init__(self, span: int, most: int, is_latched: bool) -> None:
        self._span, self._is_latched = span, is_latched
        self._most = most // 2 if is_latched else most  # half for the older ones
        self._messages: deque[TakenMessage] = deque()
        self._older: dict[bytes, TakenMessage] = {}
        self._size = 0
        self._lost, self._last_lost = 0, 0

    @property
    def size(self) -> int:
        """Memory of the messages [bytes], those of latched publishers included."""
        return self._size + self._older_size

    def add(self, messages: Sequence[TakenMessage]) -> None:
        """Keep newer messages than before, oldest first; at least one."""
        for message in messages:
            if (cost := _cost(message)) > self._most:
                self._lose(message)
            else:
                self._messages.append(message)
                self._size += cost
        self._forget_before(messages[-1].received - self._span)
        while self._size > self._most:
            self._lose(self._drop_first())

    def messages(self, now: int) -> tuple[list[TakenMessage], list[TakenMessage], int]:
        """
        Return what is kept at a system time [ns], and how many messages did not fit.

        First the last ones of latched publishers that have sent nothing since, then those of the
        last `span`, oldest first. A message that was lost before `span` does not count.
        """
        self._forget_before(now - self._span)
        if self._last_lost < now - self._span:
            self._lost = 0
        newer = {_publisher(message) for message in self._messages}
        older = [m for publisher, m in self._older.items() if publisher not in newer]
        return older, list(self._messages), self._lost

    def _forget_before(self, time: int) -> None:
        while self._messages and self._messages[0].received < time:
            self._drop_first()

    def _drop_first(self) -> TakenMessage:
        message = self._messages.popleft()
        self._size -= _cost(message)
        if self._is_latched:
            self._older.pop(_publisher(message), None)
            self._older[_publisher(message)] = message
            while len(self._older) > _PUBLISHERS or self._older_size > self._most:
                self._older.pop(next(iter(self._older)))
        return message

    @property
    def _older_size(self) -> int:
        return sum(map(_cost, self._older.values()))

    def _lose(self, message: TakenMessage) -> None:
        self._lost += 1
        self._last_lost = message.received


def _cost(message: TakenMessage) -> int:
    return len(message.data) + _OVERHEAD


def _publisher(message: TakenMessage) -> bytes:
    """Return the id of a message's publisher; the content where the middleware gives no id."""
    return message.publisher or message.data
