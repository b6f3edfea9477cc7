# SPDX-License-Identifier: Apache-2.0
"""Cases that workers can import: quick ones, and ones that kill their worker."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from lab.workers import Workers, run_cases


def run(folder: Path, item: str) -> str:
    """
    Return the item; leave a file of its name for each time that it ran.

    An item that says `once` or `always` kills its process; `sleeps` takes long.
    """
    times = len(list(folder.glob(f'{item}-*')))
    (folder / f'{item}-{times}').touch()
    if 'always' in item or ('once' in item and not times):
        time.sleep(0.5)  # the result before it has arrived
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(600 if 'sleeps' in item else 1 if 'slow' in item else 0):
        time.sleep(0.1)
    return item


@contextlib.contextmanager
def open_work(folder: Path) -> Iterator[Callable[[str], str]]:
    """Leave a file when the worker has closed what it keeps."""
    try:
        yield partial(run, folder)
    finally:
        (folder / f'closed {os.getpid()}').touch()


def lost(item: str, why: str) -> str:
    return f'{item} lost: {why}'


if __name__ == '__main__':
    long = ['sleeps', 'sleeps too']
    print(*run_cases(partial(open_work, Path(sys.argv[1])), long, lost, Workers(2)))
