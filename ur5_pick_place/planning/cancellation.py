# SPDX-License-Identifier: Apache-2.0
"""
Long computations that a stop ends early.

Whoever starts one says in `cancelable` when it is to end; what takes time calls `checkpoint` every
few milliseconds. Elsewhere, such as in the gate of a running robot, a checkpoint does nothing.

"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ur5_pick_place.errors import PlanningCanceled

_is_canceled: ContextVar[Callable[[], bool]] = ContextVar('is_canceled', default=lambda: False)


@contextmanager
def cancelable(is_canceled: Callable[[], bool]) -> Iterator[None]:
    """
    Let the checkpoints of this thread end the computation within, once `is_canceled` is true.

    Raises
    ------
    PlanningCanceled
        At the next checkpoint, or at the end of the block.

    """
    token = _is_canceled.set(is_canceled)
    try:
        yield
        checkpoint()
    finally:
        _is_canceled.reset(token)


def checkpoint() -> None:
    """Raise `PlanningCanceled` if the computation of this thread is to end."""
    if _is_canceled.get()():
        raise PlanningCanceled('a stop was requested while this was planned: request it again')
