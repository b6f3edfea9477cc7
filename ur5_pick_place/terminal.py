# SPDX-License-Identifier: Apache-2.0
"""What every command does alike at the terminal."""

import argparse
import re
import sys
from collections.abc import Sequence
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
