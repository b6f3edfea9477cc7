# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command become an exception, so that it ends its processes in order."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class Ended(BaseException):
    """Raised when the command receives a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Ended` on the first signal to end, and ignore further ones."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    raised: list[Ended] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # the clean-up must not be interrupted
        raised.append(Ended(number))
        raise raised[0]

    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets SIGHUP
            signal.signal(number, end)
    try:
        yield
    except BaseException:
        if raised:  # rclpy's C++ may turn what is raised within it into another exception
            raise raised[0] from None
        raise
