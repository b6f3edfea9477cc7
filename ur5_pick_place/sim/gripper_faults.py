# SPDX-License-Identifier: Apache-2.0
"""The faults of grippers other than the digital one, by gripper and name; see `faults`."""

from collections.abc import Callable
from functools import partial

from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FAULTS, Fault, Undo
from ur5_pick_place.sim.grippers import ACTION, DIGITAL, VACUUM


def _cup_leaks(driver: Driver) -> Undo:
    driver.arm.set_leak(True)
    return partial(driver.arm.set_leak, False)


def _jammed(driver: Driver) -> Undo:
    driver.arm.set_jam(True)
    return partial(driver.arm.set_jam, False)


def _server(flag: str) -> Callable[[Driver], Undo]:
    def inject(driver: Driver) -> Undo:
        setattr(driver.gripper_server, flag, True)
        return partial(setattr, driver.gripper_server, flag, False)

    return inject


GRIPPER_FAULTS: dict[str, dict[str, Fault]] = {
    DIGITAL: {},
    VACUUM: {
        'cup_leaks': Fault('the lip is damaged: no vacuum, and a held cube falls', _cup_leaks),
    },
    ACTION: {
        'gripper_jammed': Fault('the fingers do not move: goals stall where they are', _jammed),
        'gripper_gone': Fault("the gripper's action server is missing", _server('is_absent')),
        'gripper_silent': Fault("the gripper's goals are not answered", _server('is_silent')),
        'gripper_rejects': Fault("the gripper's goals are rejected", _server('rejects')),
        'gripper_aborts': Fault("the gripper's goals are aborted", _server('aborts')),
        'gripper_never_ends': Fault("the gripper's goals do not end", _server('never_ends')),
        'gripper_nan': Fault('the gripper reports NaN as its position', _server('is_nan')),
        'gripper_wrong_object': Fault(
            'the gripper reports an object where there is none, and none where there is one',
            _server('is_wrong'),
        ),
        'gripper_joint_silent': Fault(
            "the gripper's joint is not on joint_states", _server('is_joint_silent')
        ),
    },
}
"""Faults by gripper and name."""


ALL_FAULTS = FAULTS | {
    name: fault for faults in GRIPPER_FAULTS.values() for name, fault in faults.items()
}
"""The faults of every gripper, and those of any cell, by name."""


def faults_of(gripper: str) -> dict[str, Fault]:
    """Return the faults of a cell with this gripper."""
    return FAULTS | GRIPPER_FAULTS[gripper]
