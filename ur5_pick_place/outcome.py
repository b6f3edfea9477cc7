# SPDX-License-Identifier: Apache-2.0
"""How an operation ended: done, or failed with a reason."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """How an operation ended."""

    ok: bool  # whether it is done; an `Outcome` itself is always true
    reason: str = ''  # why it failed; empty if and only if it is done

    def __post_init__(self) -> None:
        """Refuse a failure without a reason, and a reason without a failure."""
        if self.ok == bool(self.reason):
            raise ValueError(f'outcome: ok = {self.ok} with reason = {self.reason!r}')

    @classmethod
    def failed(cls, reason: str) -> 'Outcome':
        """Return a failure; `reason` must not be empty."""
        return cls(False, reason)

    @classmethod
    def from_reason(cls, reason: str) -> 'Outcome':
        """Return a failure if `reason` is not empty, else `DONE`."""
        return cls.failed(reason) if reason else DONE


DONE = Outcome(True)
"""The outcome of every operation that is done."""

OnOutcome = Callable[[Outcome], object]
"""Takes the outcome of an operation, once."""
