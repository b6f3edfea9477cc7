# SPDX-License-Identifier: Apache-2.0
"""What tells one robot from another on its ports: type, series, software version, sizes."""

from dataclasses import dataclass

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.sim.dashboard import VERSIONS
from ur5_pick_place.sim.physics.arm import load_arm

SERIES = 'cb3', 'e'
_SOFTWARE = {True: (106339, 'Jun 20 2022'), False: (1214702, 'Mar 10 2025')}  # build, date


@dataclass(frozen=True)
class Personality:
    ur_type: str
    is_cb3: bool
    step_time: float  # [s] of a cycle
    version: tuple[int, int, int, int]
    date: str  # of the software
    type_code: int
    model: Model


def personality(ur_type: str, series: str | None = None) -> Personality:
    """
    Return the robot of a type; `series` must be that of the type, which is the default.

    Raises `InvalidInput`: the type is not of that series.
    """
    arm = load_arm(ur_type)
    is_cb3 = arm.polyscope == '3'
    own = 'cb3' if is_cb3 else 'e'
    if series not in (None, own):
        raise InvalidInput(f'series {series}: a {ur_type} is sold with series {own} alone')
    build, date = _SOFTWARE[is_cb3]
    return Personality(
        ur_type=ur_type,
        is_cb3=is_cb3,
        step_time=arm.cycle,
        version=(*VERSIONS[arm.polyscope], build),
        date=date,
        type_code=arm.code,
        model=load_model(ur_type),
    )
