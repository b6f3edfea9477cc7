# SPDX-License-Identifier: Apache-2.0
"""An outcome has a reason exactly if it is a failure."""

import pytest

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.task.job import Compute


def test_only_a_failure_has_a_reason() -> None:
    assert DONE.ok and DONE.reason == ''
    assert Outcome.from_reason('') == DONE
    assert Outcome.from_reason('why') == Outcome.failed('why') == Outcome(False, 'why')
    for ok, reason in ((True, 'why'), (False, '')):
        with pytest.raises(ValueError, match='outcome: ok'):
            Outcome(ok, reason)


def test_an_error_without_a_text_is_a_failure_too() -> None:
    def work() -> None:
        raise ExecutionError('')

    assert Compute(work).attempt() == Outcome.failed('ExecutionError')
