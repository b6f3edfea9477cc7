# SPDX-License-Identifier: Apache-2.0
"""What tells one robot from another on its ports: type, series, software version, sizes."""

from dataclasses import dataclass

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.sim.dashboard import VERSIONS
from ur5_pick_place.sim.physics.arm import load_arm

CB3, E_SERIES = 'cb3', 'e'
SERIES = (CB3, E_SERIES)
_BUILD = {CB3: 106339, E_SERIES: 1214702}
_DATE = {CB3: 'Jun 20 2022', E_SERIES: 'Mar 10 2025'}
# Robot types of the primary interface, by a type's name without the e of its series.
TYPE_CODES = {
    'ur3': 3, 'ur5': 1, 'ur7': 1, 'ur10': 2, 'ur12': 2, 'ur16': 4,
    'ur8long': 6, 'ur15': 9, 'ur18': 5, 'ur20': 7, 'ur30': 8,
}  # fmt: skip


@dataclass(frozen=True)
class Personality:
    ur_type: str
    series: str  # one of SERIES
    step_time: float  # [s] of a cycle
    version: tuple[int, int, int, int]
    date: str  # of the software
    type_code: int
    model: Model
    payload: float  # rated [kg]

    @property
    def is_cb3(self) -> bool:
        return self.series == CB3


def personality(ur_type: str, series: str | None = None) -> Personality:
    """
    Return the robot of a type; `series` must be that of the type, which is the default.

    Raises `InvalidInput`: the type is not of that series.
    """
    arm = load_arm(ur_type)
    own = CB3 if arm.polyscope == '3' else E_SERIES
    if series not in (None, own):
        raise InvalidInput(f'series {series}: a {ur_type} is sold with series {own} alone')
    return Personality(
        ur_type=ur_type,
        series=own,
        step_time=arm.cycle,
        version=(*VERSIONS[arm.polyscope], _BUILD[own]),
        date=_DATE[own],
        type_code=TYPE_CODES[ur_type.removesuffix('e')],
        model=load_model(ur_type),
        payload=arm.payload,
    )
