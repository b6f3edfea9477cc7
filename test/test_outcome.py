# SPDX-License-Identifier: Apache-2.0
"""An outcome has a reason exactly if it is a failure."""

import pytest

from ur5_pick_place.outcome import DONE, Outcome


def test_only_a_failure_has_a_reason() -> None:
    assert DONE.ok and DONE.reason == ''
    assert Outcome.from_reason('') == DONE
    assert Outcome.from_reason('why') == Outcome.failed('why') == Outcome(False, 'why')
    for ok, reason in ((True, 'why'), (False, '')):
        with pytest.raises(ValueError, match='outcome: ok'):
            Outcome(ok, reason)
