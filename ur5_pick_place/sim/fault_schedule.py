# SPDX-License-Identifier: Apache-2.0
"""
A schedule of faults, read from a YAML file: a list of entries.

    - fault: protective_stop     # one of `sim.faults.FAULTS` or the gripper's
      motion: 3                  # counted from the third trajectory goal; absent: from the start
      at: 0.5                    # [s] simulated, default 0
      for: 6.0                   # [s] simulated; absent: until it is cleared

"""

import difflib
from dataclasses import dataclass
from pathlib import Path

from ur5_pick_place.config_files import load_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.settings import REQUIRED, Settings, setting
from ur5_pick_place.sim.gripper_faults import ALL_FAULTS


@dataclass(frozen=True)
class Planned(Settings):
    """A scheduled fault."""

    fault: str = setting(REQUIRED, 'name', kind=str)
    at: float = setting(0.0, 'simulated time of the injection', unit='s', low=0.0)
    duration: float | None = setting(
        None,
        'simulated time until it is cleared; without it, it is never cleared',
        unit='s',
        low=CYCLE,
        kind=float,
        key='for',
    )
    motion: int | None = setting(
        None,
        "trajectory goal from whose start `at` counts; without it, from the driver's start",
        low=1,
        kind=int,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fault(self.fault)


def load_schedule(path: str | Path) -> tuple[Planned, ...]:
    """
    Return the schedule in a file.

    Raises
    ------
    InvalidInput
        The file cannot be read, or an entry has an unknown fault, an unknown key or a bad time.

    """
    return load_yaml(path, 'faults file', lambda data: Planned.from_list(data, 'faults'))


def check_fault(name: str) -> None:
    """Raise `InvalidInput` unless there is a fault of that name."""
    if name not in ALL_FAULTS:
        near = difflib.get_close_matches(str(name), ALL_FAULTS, n=1)
        hint = f'did you mean {near[0]}?' if near else f'known are: {", ".join(ALL_FAULTS)}'
        raise InvalidInput(f'unknown fault {name!r}; {hint}')
