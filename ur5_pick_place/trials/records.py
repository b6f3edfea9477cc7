# SPDX-License-Identifier: Apache-2.0
"""JSON files of long measurements."""

import contextlib
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


def keep_record(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """Write `content` and the time to `<name>-<UTC stamp>.json`; return its path."""
    now = datetime.now(timezone.utc)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f'{name}-{now:%Y%m%dT%H%M%SZ}.json'
    record = {'time': now.isoformat(timespec='seconds'), **content}
    path.write_text(json.dumps(record, indent=2) + '\n', encoding='utf-8')
    return path


@contextlib.contextmanager
def driver_silent() -> Iterator[None]:
    """Suppress the log of the simulated driver."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
