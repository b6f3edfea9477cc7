# SPDX-License-Identifier: Apache-2.0
"""JSON files of long measurements."""

import contextlib
import itertools
import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ur5_pick_place.errors import InvalidInput


def keep_record(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """Write `content` and the time to a new `<name>-<UTC stamp>.json`; return its path."""
    now = datetime.now(timezone.utc)
    folder.mkdir(parents=True, exist_ok=True)
    record = {'time': now.isoformat(timespec='seconds'), **content}
    stem = f'{name}-{now:%Y%m%dT%H%M%SZ}'
    for number in itertools.count(2):
        path = folder / f'{stem}.json'
        with contextlib.suppress(FileExistsError), path.open('x', encoding='utf-8') as file:
            file.write(json.dumps(record, indent=2) + '\n')
            return path
        stem = f'{name}-{now:%Y%m%dT%H%M%SZ}-{number}'  # of another that ended in this second
    raise AssertionError('there are numbers for ever')


def check_folder(folder: Path) -> None:
    """Refuse, with `InvalidInput`, a folder in which nothing can be written."""
    paths = (folder, *folder.absolute().parents)
    existing = next(path for path in paths if os.path.lexists(path))  # a link to nothing too
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise InvalidInput(f'--out {folder}: {existing} is not a writable folder')
