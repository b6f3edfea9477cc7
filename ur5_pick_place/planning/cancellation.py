# SPDX-License-Identifier: Apache-2.0
"""
Cancel long computations.

The caller runs the computation inside `cancelable`; the computation calls `checkpoint` every few
milliseconds. Outside `cancelable`, such as in the gate of a running robot, a checkpoint does
nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ur5_pick_place.errors import PlanningCanceled

_is_canceled: ContextVar[Callable[[], bool]] = ContextVar('is_canceled', default=lambda: False)


@contextmanager
def cancelable(is_canceled: Callable[[], bool]) -> Iterator[None]:
    """
    End the computation in this block, in this thread, when `is_canceled` returns true.

    `is_canceled`: called at each checkpoint; must be quick.

    Raises `PlanningCanceled`: at the next checkpoint, or at the end of the block.
    """
    token = _is_canceled.set(is_canceled)
    try:
        yield
        checkpoint()
    finally:
        _is_canceled.reset(token)


def checkpoint() -> None:
    """Raise `PlanningCanceled` if the computation of this thread is canceled."""
    if _is_canceled.get()():
        raise PlanningCanceled('a stop was requested while this was planned: request it again')
