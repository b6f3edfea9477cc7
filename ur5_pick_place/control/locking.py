# SPDX-License-Identifier: Apache-2.0
"""A lock around methods that several threads call."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar('T')


def locked(method: Callable[..., T]) -> Callable[..., T]:
    """Return the method, wrapped to run with its object's `_lock` held."""

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return run
