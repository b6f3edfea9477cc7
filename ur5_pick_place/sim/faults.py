# SPDX-License-Identifier: Apache-2.0
"""
The faults of the simulated cell by name, each as the real robot shows it to its clients.

A fault has a description and a function that injects it; that function returns another one that
clears the fault. Clearing does what a person in the cell would do, and no more: after a stop the
program stays paused until it is played, and a part that fell stays where it is.
"""

import difflib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controllers.controller_manager import STRICT
from ur5_pick_place.sim.dashboard import Answer
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.gripper_server import GripperFault
from ur5_pick_place.sim.grippers import ACTION, DIGITAL, VACUUM
from ur5_pick_place.sim.io_controller import GRIPPER_PIN
from ur5_pick_place.sim.link import Channel, Frozen, Jumping, dropped, not_a_number
from ur5_pick_place.sim.physics.cell import PART_SIZE
from ur5_pick_place.sim.robot import Program
from ur5_pick_place.sim.wiring import Bouncing, Late

LATENCY = 0.1  # [s] each way, as on a poor wireless link
LOSS = 0.2  # fraction of the best-effort messages, as on a poor wireless link

_ASIDE = np.array([-0.25, -0.5, PART_SIZE / 2])  # [m] on a corner of the table
_SHIFT = 0.010  # [m]
_UNMOVED = 0.001  # [m] within which the cube is where it was placed

Undo = Callable[[], Any]
"""Clears a fault; raises `InvalidInput` with the reason while the robot does not allow it."""


class Fault(NamedTuple):
    """`inject` raises `InvalidInput` with the reason if the cell does not allow it now."""

    text: str
    inject: Callable[[Driver], Undo]


def _protective_stop(driver: Driver) -> Undo:
    driver.robot.protective_stop()
    return lambda: _require_success(driver.dashboard.act('unlock_protective_stop'))


def _emergency_stop(driver: Driver) -> Undo:
    driver.robot.press_emergency_stop()
    return driver.robot.release_emergency_stop


def _safeguard_stop(driver: Driver) -> Undo:
    driver.robot.open_safeguard()
    return driver.robot.close_safeguard


def _program_stopped(driver: Driver) -> Undo:
    driver.dashboard.act('stop')
    return lambda: _require_success(driver.dashboard.act('play'))


def _program_paused(driver: Driver) -> Undo:
    _require_success(driver.dashboard.act('pause'))

    def resume() -> None:
        if driver.robot.program is Program.PAUSED:
            _require_success(driver.dashboard.act('play'))

    return resume


def _speed_slider_zero(driver: Driver) -> Undo:
    robot = driver.robot
    before, robot.slider = robot.slider, 0.0

    def push_back() -> None:
        if robot.slider == 0.0:
            robot.slider = before

    return push_back


def _output_stuck(driver: Driver) -> Undo:
    driver.wiring.stuck_output = driver.io.pins.digital_out[GRIPPER_PIN]
    return partial(setattr, driver.wiring, 'stuck_output', None)


def _part_present_stuck(driver: Driver) -> Undo:
    state = driver.world.hand.part_present and driver.robot.tool_voltage > 0
    return _add(driver.wiring.input_faults, lambda present, now: state)


def _part_slips(driver: Driver) -> Undo:
    driver.world.hand.make_slippery(True)
    return partial(driver.world.hand.make_slippery, False)


def _part_shifted(driver: Driver) -> Undo:
    if driver.world.hand.part_present:
        raise InvalidInput('the gripper holds the cube: it can only be shifted on the table')
    return _displace(driver, driver.world.T_world_part[:3, 3] + [_SHIFT, 0.0, 0.0])


def _controller_inactive(driver: Driver) -> Undo:
    name = driver.controllers.motion
    if not name:
        raise InvalidInput('no motion controller is active: nothing to deactivate')
    driver.controllers.switch([], [name], STRICT)

    def activate() -> None:
        if not driver.controllers.motion:
            driver.controllers.switch([name], [], STRICT)

    return activate


def _goals_rejected(driver: Driver) -> Undo:
    undo = [_set_flag(controller, 'rejecting') for controller in driver.trajectory.values()]
    return lambda: [clear() for clear in undo]


def _in_both_directions(what: str, value: float) -> Callable[[Driver], Undo]:
    def set_all(channels: tuple[Channel, ...], value: float) -> None:
        for channel in channels:
            setattr(channel, what, value)

    def inject(driver: Driver) -> Undo:
        channels = (driver.link.to_clients, driver.link.to_driver)
        set_all(channels, value)
        return partial(set_all, channels, 0.0)

    return inject


def _require_success(answer: Answer) -> None:
    if not answer.success:
        raise InvalidInput(answer.text)


def _add(faults: list[Any], fault: Any) -> Undo:
    faults.append(fault)
    return partial(faults.remove, fault)


def _set_flag(thing: object, flag: str) -> Undo:
    setattr(thing, flag, True)
    return partial(setattr, thing, flag, False)


def _displace(driver: Driver, to: Any) -> Undo:
    """
    Place the cube at x, y, z [m]; clearing moves it back only if it is still there.

    A cube that was taken out of the gripper is not put back: the fingers may have closed.
    """
    world = driver.world
    was_held = world.hand.part_present
    before = world.T_world_part
    yaw = math.atan2(before[1, 0], before[0, 0])
    world.place_part(to[0], to[1], yaw, to[2])

    def put_back() -> None:
        lies_there = np.linalg.norm((world.T_world_part[:3, 3] - to)[:2]) < _UNMOVED
        if lies_there and not was_held:
            x, y, z = before[:3, 3]
            world.place_part(x, y, yaw, z)

    return put_back


def _server(fault: GripperFault) -> Fault:
    def inject(driver: Driver) -> Undo:
        assert driver.gripper_server
        driver.gripper_server.faults.add(fault)
        return partial(driver.gripper_server.faults.discard, fault)

    return Fault(fault.value, inject)


FAULTS = {
    'protective_stop': Fault(
        'protective stop: the arm stops, the program is paused; can be unlocked after 5 s',
        _protective_stop,
    ),
    'emergency_stop': Fault(
        'emergency stop: the arm stops, arm and tool lose power, the program is paused',
        _emergency_stop,
    ),
    'safeguard_stop': Fault(
        'safeguard open: the arm stops, the program is paused', _safeguard_stop
    ),
    'program_stopped': Fault(
        'External Control stopped: motion controllers inactive, goals aborted', _program_stopped
    ),
    'program_paused': Fault('program paused: goals are frozen', _program_paused),
    'speed_slider_zero': Fault('speed slider at 0: goals wait', _speed_slider_zero),
    'joint_states_frozen': Fault(
        'joint_states repeat the same joints with new stamps',
        lambda driver: _add(driver.link.joint_faults, Frozen()),
    ),
    'joint_states_dropped': Fault(
        'no joint_states', lambda driver: _add(driver.link.joint_faults, dropped)
    ),
    'joint_states_jumping': Fault(
        'every 50th joint_states has the first joint 0.5 rad off',
        lambda driver: _add(driver.link.joint_faults, Jumping()),
    ),
    'joint_states_nan': Fault(
        'joint_states with NaN positions',
        lambda driver: _add(driver.link.joint_faults, not_a_number),
    ),
    'io_states_silent': Fault(
        'no io_states', lambda driver: _set_flag(driver.link, 'io_states_silent')
    ),
    'set_io_slow': Fault(
        'set_io replies and takes effect after 0.55 s',
        lambda driver: _set_flag(driver.io, 'slow'),
    ),
    'set_io_lying': Fault(
        'set_io replies true after 0.55 s without effect',
        lambda driver: _set_flag(driver.io, 'has_no_effect'),
    ),
    'set_io_absent': Fault(
        'service set_io is missing', lambda driver: _set_flag(driver.link, 'set_io_absent')
    ),
    'output_stuck': Fault(
        "the gripper's wire keeps its state, regardless of output 16 in io_states",
        _output_stuck,
    ),
    'part_present_stuck': Fault(
        'the part-present input (16) keeps its state', _part_present_stuck
    ),
    'part_present_bouncing': Fault(
        'the part-present input (16) bounces for 0.1 s after every change',
        lambda driver: _add(driver.wiring.input_faults, Bouncing()),
    ),
    'part_present_late': Fault(
        'the part-present input (16) is delayed by 0.5 s',
        lambda driver: _add(driver.wiring.input_faults, Late()),
    ),
    'part_slips': Fault('the pads are slippery: a held cube slides out', _part_slips),
    'part_missing': Fault(
        'the cube is moved to the corner of the table', lambda driver: _displace(driver, _ASIDE)
    ),
    'part_shifted': Fault('the cube is shifted by 10 mm along x', _part_shifted),
    'controller_inactive': Fault(
        'the motion controller is inactive while the program is running', _controller_inactive
    ),
    'goals_rejected': Fault('every trajectory goal is rejected', _goals_rejected),
    'action_server_gone': Fault(
        'action follow_joint_trajectory is missing; a running motion continues',
        lambda driver: _set_flag(driver.link, 'actions_absent'),
    ),
    'driver_killed': Fault(
        "the driver's process is killed",
        lambda driver: _set_flag(driver.link, 'killed'),
    ),
    'link_latency': Fault(
        'messages of the driver, goals, cancels, commands and io requests are delayed by 0.1 s',
        _in_both_directions('latency', LATENCY),
    ),
    'link_loss': Fault(
        '20 % of the best-effort messages between driver and clients are lost',
        _in_both_directions('loss', LOSS),
    ),
}
"""The faults of any cell, by name."""

GRIPPER_FAULTS: dict[str, dict[str, Fault]] = {
    DIGITAL: {},
    VACUUM: {
        'cup_leaks': Fault(
            'the lip is damaged: no vacuum, and a held cube falls',
            lambda driver: _set_flag(driver.world.hand, 'leaks'),
        ),
    },
    ACTION: {
        'gripper_jammed': Fault(
            'the fingers do not move: goals stall where they are',
            lambda driver: _set_flag(driver.world.hand, 'jams'),
        ),
    }
    | {f'gripper_{fault.name.lower()}': _server(fault) for fault in GripperFault},
}
"""Those of one gripper, by gripper and name."""


_log = logging.getLogger(__name__)


class FaultInjector:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.known = FAULTS | GRIPPER_FAULTS[driver.world.settings.gripper]
        """The faults that this cell can have, by name."""
        self._undo: dict[str, list[Undo]] = {}

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the faults that were injected and not cleared, oldest first."""
        return tuple(self._undo)

    def inject(self, name: str) -> str:
        """
        Inject a fault, again if it is active already; return its description.

        Raises `InvalidInput`: the fault is unknown, or the state of the cell does not allow it.
        """
        fault = self._known(name)
        undo = fault.inject(self._driver)
        self._undo.setdefault(name, []).append(undo)
        _log.warning('%.3f s: %s: %s', self._driver.time, name, fault.text)
        return fault.text

    def clear(self, name: str) -> str:
        """
        Clear all injections of a fault, the latest first; return a message.

        Raises `InvalidInput`: the fault is unknown, or the robot does not allow clearing it yet.
        """
        self._known(name)
        if name not in self._undo:
            return f'{name} was not injected'
        while self._undo[name]:
            self._undo[name][-1]()
            self._undo[name].pop()
        del self._undo[name]
        _log.warning('%.3f s: %s cleared', self._driver.time, name)
        return f'{name} cleared'

    def clear_all(self) -> str:
        """
        Clear all faults; return a message.

        Raises `InvalidInput`: names the faults that the robot does not allow to be cleared yet,
        and why.
        """
        left = []
        for name in reversed(self.active):
            try:
                self.clear(name)
            except InvalidInput as error:
                left.append(f'{name}: {error}')
        if left:
            raise InvalidInput('; '.join(left))
        return 'all faults cleared'

    def _known(self, name: str) -> Fault:
        if name in self.known:
            return self.known[name]
        near = difflib.get_close_matches(str(name), self.known, n=1)
        hint = f'did you mean {near[0]}?' if near else f'known are: {", ".join(self.known)}'
        raise InvalidInput(f'unknown fault {name!r}; {hint}')
