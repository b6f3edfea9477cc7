# SPDX-License-Identifier: Apache-2.0
"""A node's callbacks, called without an executor."""

import inspect
from collections.abc import Callable

import pytest


def at_once(callback: Callable) -> Callable:
    """Run a callback that may be a coroutine, which must not wait for anything here."""

    def run(request: object, response: object) -> object:
        if not inspect.iscoroutinefunction(callback):
            return callback(request, response)
        with pytest.raises(StopIteration) as end:
            callback(request, response).send(None)
        return end.value.value

    return run
