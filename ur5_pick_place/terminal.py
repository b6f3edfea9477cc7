# SPDX-License-Identifier: Apache-2.0
"""What every command does alike at the terminal."""

import argparse
import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_NEGATIVE = re.compile(r'-\.?\d')


class Parser(argparse.ArgumentParser):
    """Takes -4e-1 and -0.3,0.4,0 for values, where argparse knows -0.4 alone for one."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        """Read the words; one that begins with a space is never an option."""
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args(
            [f' {word}' if _NEGATIVE.match(word) else word for word in words], namespace
        )


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """End as Unix tools do once nobody reads on, as in `ik … | head -3`."""
    try:
        try:
            yield
        finally:
            print(end='', flush=True)  # here, as nobody can catch what fails at the very end
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
