# SPDX-License-Identifier: Apache-2.0
"""A folder of records that holds the newest ones: each appears complete or not at all."""

import contextlib
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

from ur5_pick_place.config_files import locked
from ur5_pick_place.errors import ExecutionError

SUFFIX = '.mcap'
_PREFIX = 'record-'
_UNFINISHED = '.unfinished'
# A record that a user has renamed is not one of ours any more.
_WRITTEN = re.compile(
    rf'{_PREFIX}\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{{3}}Z-\w+{re.escape(SUFFIX)}', re.ASCII
)
_TICK = timedelta(milliseconds=1)  # between two names
_TIMEOUT = 10.0  # [s] for a recorder of another cell


class RecordFolder:
    """
    Keeps at most `max_files` records of together at most `max_bytes`.

    Only the records that this class has written are ever removed, the oldest first, and only once
    a newer one is complete on disk.

    `path`: created when the first record is written.

    - `warning`: which files the last `add` was to remove and could not; empty if none
    """

    def __init__(self, path: Path, max_files: int, max_bytes: int) -> None:
        self._path, self._max_files, self._max_bytes = path, max_files, max_bytes
        self.warning = ''

    def add(self, label: str, write: Callable[[BinaryIO], None]) -> Path:
        """
        Write a record and return its path.

        `label`: for its name, such as `stop`. `write`: writes the content to a binary file.

        Raises `ExecutionError`: the folder cannot be written, the disk is full, or another
        recorder does not finish writing; older records are all there.
        """
        self.warning = ''
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            with locked(self._path, _TIMEOUT) as folder:
                self._remove_remains()
                record = self._unused_path(label)
                unfinished = record.with_name(f'.{record.name}{_UNFINISHED}')
                try:
                    _write_durably(unfinished, write)
                    os.rename(unfinished, record)
                except BaseException:
                    with contextlib.suppress(OSError):
                        unfinished.unlink(missing_ok=True)
                    raise
                os.fsync(folder)
                self._remove_oldest(record)
        except BlockingIOError as error:
            raise ExecutionError(
                f'no record was written to {self._path}: another recorder has been writing for '
                f'{_TIMEOUT:.0f} s; older records were kept: wait until it has finished, or give '
                'each recorder its own records_folder'
            ) from error
        except OSError as error:
            raise ExecutionError(
                f'no record was written to {self._path}: {error}; older records were kept: free '
                'some space, or set records_folder to a folder that can be written'
            ) from error
        return record

    def _remove_remains(self) -> None:
        """Remove what a recorder left that was killed while it wrote."""
        for path in self._path.glob(f'.{_PREFIX}*{SUFFIX}{_UNFINISHED}'):
            self._remove(path)

    def _remove(self, path: Path) -> bool:
        """Remove a file; return whether it is gone, and else say so in `warning`."""
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            known = f'{self.warning}; ' if self.warning else ''
            self.warning = f'{known}{path} cannot be removed ({error.strerror}): remove it'
            return False
        return True

    def _unused_path(self, label: str) -> Path:
        """
        Return a path that no record has yet.

        Its name is the present UTC time, plus 1 ms for each name that is taken.
        """
        time = datetime.now(timezone.utc)
        while True:
            stamp = time.strftime('%Y-%m-%dT%H-%M-%S.%f')[:-3] + 'Z'
            path = self._path / f'{_PREFIX}{stamp}-{label}{SUFFIX}'
            if not path.exists():
                return path
            time += _TICK

    def _remove_oldest(self, newest: Path) -> None:
        records = []
        for path in self._path.glob(f'{_PREFIX}*{SUFFIX}'):
            if not _WRITTEN.fullmatch(path.name):
                continue
            if path != newest and path.is_file() and not path.is_symlink():
                with contextlib.suppress(FileNotFoundError):  # someone has just removed it
                    status = path.stat()
                    records.append((status.st_mtime_ns, path.name, status.st_size))
        count = 1 + len(records)
        size = newest.stat().st_size + sum(record[2] for record in records)
        for _, name, freed in sorted(records):
            if count <= self._max_files and size <= self._max_bytes:
                break
            if self._remove(self._path / name):
                count, size = count - 1, size - freed


def _write_durably(path: Path, write: Callable[[BinaryIO], None]) -> None:
    with path.open('xb') as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
