# SPDX-License-Identifier: Apache-2.0
"""
The driver's io_and_status_controller: pins, and services that reply before they take effect.

One request is served at a time. A valid request is answered at the first poll of the service,
50 ms later, and "true" only means sent: pins change one cycle after the reply. The robot may be
faster, but guarantees no more. Only set_payload is answered after the robot has the payload.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import setitem

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.physics.arm import CYCLE
from ur5_pick_place.sim.robot import Robot, RobotMode

DIGITAL_PINS = 18  # inputs and outputs alike, as `set_io` and `io_states` count them
TOOL_PINS = (16, 17)
GRIPPER_PIN, BLOW_OFF_PIN = TOOL_PINS  # outputs: close the gripper, blow off a suction cup
PART_PRESENT_PIN = TOOL_PINS[0]  # an input

SET_DIGITAL_OUT = 1
SET_ANALOG_OUT = 3
SET_TOOL_VOLTAGE = 4

_POLL_PERIOD = 0.050  # [s]
_MOST_POLLS = 11  # after which a service gives up, and replies true all the same, as UR's does
_ROUND_TRIP = CYCLE  # [s] until the robot has a command
_ROUNDING = 1e-9  # [s]

_log = logging.getLogger(__name__)


@dataclass
class Pins:
    """All inputs and outputs; the last two digital ones of each are the tool's."""

    digital_in: list[bool] = field(default_factory=lambda: [False] * DIGITAL_PINS)
    digital_out: list[bool] = field(default_factory=lambda: [False] * DIGITAL_PINS)
    analog_out: list[float] = field(default_factory=lambda: [0.0, 0.0])  # fraction of the range
    analog_domain: list[int] = field(default_factory=lambda: [1, 1])  # 0 current, 1 voltage


class Request:
    """A service call in progress; `reply` is None until it is answered."""

    def __init__(
        self, act: Callable[[], object] | None, confirmed: bool = False, polls: int = 1
    ) -> None:
        self.reply: bool | None = None
        self._act = act  # None: refused without a command to the robot
        self._confirmed = confirmed  # answered only after the robot has acted
        self._polls = polls  # polls of the service until the hardware has taken the command
        self._next_poll = math.inf
        self._sent = False

    def serve(self, now: float, send: Callable[[Callable[[], object]], None]) -> None:
        """Process one cycle at `now` [s]."""
        if self._act is None:
            self.reply = False
        elif self._next_poll == math.inf:
            self._next_poll = now + self._polls * _POLL_PERIOD
        elif now >= self._next_poll - _ROUNDING:
            if not self._sent:
                send(self._act)
                self._next_poll += _POLL_PERIOD
            if self._sent or not self._confirmed:
                self.reply = True
            self._sent = True


class IoController:
    """
    Pins and status services of one robot.

    `rated_payload`: the largest mass that the robot takes as its payload [kg]. `has_force_sensor`:
    whether the tool flange has a sensor of force and torque, as that of an e-Series has.
    """

    def __init__(
        self, robot: Robot, rated_payload: float = math.inf, has_force_sensor: bool = False
    ) -> None:
        self._rated_payload, self._has_force_sensor = rated_payload, has_force_sensor
        self.pins = Pins()
        self.active = True
        self.slow = False  # `set_io` is taken only at the last poll of the service, 0.55 s later
        self.has_no_effect = False  # or ignored; the service replies true all the same
        self._robot = robot
        self._queue: deque[Request] = deque()
        self._under_way: deque[tuple[float, Callable[[], object]]] = deque()
        self._powered = robot.tool_voltage > 0

    def update(self, now: float) -> None:
        """Run one cycle, at `now` [s]."""
        while self._under_way and self._under_way[0][0] <= now + _ROUNDING:
            self._under_way.popleft()[1]()
        powered = self._robot.tool_voltage > 0
        is_off = self._robot.mode < RobotMode.POWER_ON
        if is_off or (self._powered and not powered):
            for pin in TOOL_PINS:
                self.pins.digital_out[pin] = False
        self._powered = powered
        if self._queue:
            head = self._queue[0]
            head.serve(now, lambda act: self._under_way.append((now + _ROUND_TRIP, act)))
            if head.reply is not None:
                self._queue.popleft()

    def set_io(self, fun: int, pin: int, state: float) -> Request:
        """Set a digital or analog output or the tool voltage, as ur_msgs/SetIO."""
        act: Callable[[], object] | None = None
        if fun == SET_DIGITAL_OUT and 0 <= pin < DIGITAL_PINS:
            act = partial(setitem, self.pins.digital_out, pin, bool(state))
        elif fun == SET_ANALOG_OUT and pin in (0, 1) and 0.0 <= state <= 1.0:
            act = partial(setitem, self.pins.analog_out, pin, state)
        elif fun == SET_TOOL_VOLTAGE and state in (0.0, 12.0, 24.0):
            act = partial(setattr, self._robot, 'tool_voltage', int(state))
        if act is not None and self.has_no_effect:
            act = _nothing
        return self._request(act, polls=_MOST_POLLS if self.slow or self.has_no_effect else 1)

    def switch_input(self, pin: int, level: bool) -> None:
        """
        Switch an input of the control box at once, as a button or a sensor does.

        Raises `InvalidInput`: it is no such input; those of the tool belong to the gripper.
        """
        last = DIGITAL_PINS - len(TOOL_PINS) - 1
        if not 0 <= pin <= last:
            raise InvalidInput(f'input {pin}: must be 0 to {last}')
        self.pins.digital_in[pin] = level

    def set_analog_output(self, pin: int, domain: int, state: float) -> Request:
        """Set an analog output and whether it is a current (0) or a voltage (1)."""

        def act() -> None:
            self.pins.analog_out[pin], self.pins.analog_domain[pin] = state, domain

        valid = pin in (0, 1) and domain in (0, 1) and 0.0 <= state <= 1.0
        return self._request(act if valid else None)

    def set_speed_slider(self, fraction: float) -> Request:
        """Move the speed slider, 0.01 to 1."""
        act = partial(setattr, self._robot, 'slider', fraction)
        return self._request(act if 0.01 <= fraction <= 1.0 else None)

    def set_payload(
        self,
        mass: float,
        centre_of_gravity: Sequence[float],
        inertia: Sequence[float] = (0.0,) * 6,
    ) -> Request:
        """
        Set the payload.

        `mass` [kg]. `centre_of_gravity`: in tool0 [m]. `inertia`: xx, yy, zz, xy, xz, yz about
        that centre [kg m2].
        """
        act = partial(setattr, self._robot, 'payload', (mass, tuple(centre_of_gravity)))
        problem = ''
        if not np.isfinite([mass, *centre_of_gravity, *inertia]).all():
            problem = 'must be finite numbers'
        elif not 0.0 <= mass <= self._rated_payload:
            problem = f'mass must lie in 0 to {self._rated_payload:g} kg'
        elif not _is_inertia(inertia):
            problem = 'inertia must be positive semidefinite'
        if problem:
            given = f'{mass} kg at {centre_of_gravity} m, {inertia} kg m2'
            _log.error('set_payload %s: %s', given, problem)
        return self._request(None if problem else act, confirmed=True)

    def resend_robot_program(self) -> Request:
        """Start External Control again."""
        return self._request(self._robot.play)

    def hand_back_control(self) -> Request:
        """End External Control."""
        return self._request(self._robot.stop)

    def zero_ftsensor(self) -> Request:
        """Zero the sensor of force and torque, which is not simulated; a CB3 robot has none."""
        return self._request(_nothing if self._has_force_sensor else None)

    def _request(
        self, act: Callable[[], object] | None, confirmed: bool = False, polls: int = 1
    ) -> Request:
        request = Request(act if self.active else None, confirmed, polls)
        self._queue.append(request)
        return request


def _is_inertia(inertia: Sequence[float]) -> bool:
    """Return whether xx, yy, zz, xy, xz, yz are positive semidefinite, rounding apart."""
    xx, yy, zz, xy, xz, yz = inertia
    smallest = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]).min()
    return bool(smallest >= -1e-9 * max(map(abs, inertia)))


def _nothing() -> None:
    """Change nothing that is simulated."""
