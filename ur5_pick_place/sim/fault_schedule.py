# SPDX-License-Identifier: Apache-2.0
"""
A schedule of faults, read from a YAML file: a list of entries.

    - fault: protective_stop     # one of `sim.faults.FAULTS`
      motion: 3                  # counted from the third trajectory goal; absent: from the start
      at: 0.5                    # [s] simulated, default 0
      for: 6.0                   # [s] simulated; absent: until it is cleared

"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ur5_pick_place.config_files import read_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.settings import check_setting, setting
from ur5_pick_place.sim.faults import FAULTS


@dataclass(frozen=True)
class Planned:
    """
    A scheduled fault.

    Attributes
    ----------
    fault : str
        Name of the fault.
    at : float
        Simulated time of the injection [s].
    duration : float or None
        Simulated time until it is cleared [s]; None never clears it.
    motion : int or None
        Trajectory goal, counted from 1, from whose start `at` counts; None: the driver's start.

    """

    fault: str
    at: float = 0.0
    duration: float | None = None
    motion: int | None = None


_KEYS = {
    'fault': setting(None, 'name', kind=str),
    'at': setting(0.0, 'when it begins', unit='s', low=0.0),
    'for': setting(None, 'how long it lasts', unit='s', low=CYCLE, kind=float),
    'motion': setting(None, 'goal whose start `at` counts from', low=1, kind=int),
}


def load_schedule(path: str | Path) -> tuple[Planned, ...]:
    """
    Return the schedule in a file.

    Raises
    ------
    InvalidInput
        The file cannot be read, or an entry has an unknown fault, an unknown key or a bad time.

    """
    data = read_yaml(path, 'faults file')
    if not isinstance(data, list):
        raise InvalidInput(f'faults file {path}: must be a list, each of {", ".join(_KEYS)}')
    try:
        return tuple(_planned(f'entry {i + 1}', entry) for i, entry in enumerate(data))
    except InvalidInput as error:
        raise InvalidInput(f'faults file {path}: {error}') from error


def _planned(where: str, entry: Any) -> Planned:
    if not isinstance(entry, Mapping) or 'fault' not in entry:
        raise InvalidInput(f'{where} = {entry!r}: must be a mapping that names its `fault`')
    for key in entry:
        if key not in _KEYS:
            raise InvalidInput(f'{where}: unknown key {key!r}; known are: {", ".join(_KEYS)}')
    values = {
        key: check_setting(f'{where}: {key}', entry.get(key, f.default), f.default, f.metadata)
        for key, f in _KEYS.items()
    }
    check_fault(values['fault'])
    return Planned(values['fault'], values['at'], values['for'], values['motion'])


def check_fault(name: str) -> None:
    """Raise `InvalidInput` unless there is a fault of that name."""
    if name not in FAULTS:
        near = difflib.get_close_matches(str(name), FAULTS, n=1)
        hint = f'did you mean {near[0]}?' if near else f'known are: {", ".join(FAULTS)}'
        raise InvalidInput(f'unknown fault {name!r}; {hint}')
