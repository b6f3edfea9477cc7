# SPDX-License-Identifier: Apache-2.0
"""The built-ins for time, messages, load, tool, freedrive, force sensor, inverse kinematics."""

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import NO_TIME, Scheduler, Wait
from ur5_pick_place.sim.controller.script.values import (
    WORK,
    List,
    Pose,
    ScriptFault,
    Value,
    list_of,
    not_negative,
    number,
    text,
    to_str,
    transform,
    vector,
)

_INVERSE_WORK = 50  # loops that a solution takes as long as
_FINE = 1e-10  # [m, rad]


class System:
    def __init__(self, robot: Robot, threads: Scheduler) -> None:
        self._robot, self._threads = robot, threads

    def sync(self) -> Wait:
        self._threads.current.left = 0.0
        yield

    def sleep(self, t: Value) -> Wait:
        duration = number(t)
        while duration > NO_TIME:
            duration -= self._threads.take(duration)
            yield from self._threads.rest()

    def textmsg(self, s1: Value, s2: Value = '') -> None:
        self._robot.textmsg(to_str(s1) + to_str(s2))

    def popup(
        self, s: Value, title: Value = 'Popup', warning: Value = False, error: Value = False,
        blocking: Value = False,
    ) -> Wait:  # fmt: skip
        kind = 'error' if error else 'warning' if warning else 'message'
        self._robot.popup(to_str(s), to_str(title), kind)
        while blocking and self._robot.popup_open:
            yield

    def rtde_set_watchdog(
        self, variable_name: Value, min_frequency: Value, action: Value = 'pause'
    ) -> None:
        wanted = text(action).lower()
        if wanted not in ('pause', 'stop', 'ignore'):
            raise ScriptFault(f'rtde_set_watchdog: action {wanted!r}: pause, stop or ignore')
        self._robot.watchdog(text(variable_name), number(min_frequency), wanted)

    def protective_stop(self) -> None:
        self._robot.protective_stop()

    def set_target_payload(
        self, m: Value, cog: Value = None, inertia: Value = None, transition_time: Value = 0.0
    ) -> None:
        self._robot.payload = not_negative(m, 'm')
        if cog is not None:
            self._robot.payload_cog = vector(cog, 3)
        if inertia is not None:
            self._robot.payload_inertia = vector(inertia)

    set_payload = set_payload_mass = set_target_payload

    def set_payload_cog(self, CoG: Value) -> None:
        self._robot.payload_cog = vector(CoG, 3)

    def set_gravity(self, d: Value) -> None:
        self._robot.gravity = vector(d, 3)

    def set_tcp(self, pose: Value, tcp_name: Value = '') -> None:
        self._robot.tcp = transform(pose)

    def freedrive_mode(self, freeAxes: Value = None, feature: Value = None) -> None:
        if freeAxes is not None:
            vector(freeAxes)
        self._robot.is_free = True

    def end_freedrive_mode(self) -> None:
        self._robot.is_free = False

    teach_mode = freedrive_mode
    end_teach_mode = end_freedrive_mode

    def get_freedrive_status(self) -> int:
        return 0 if self._robot.is_free else 1

    def zero_ftsensor(self) -> None:
        self._robot.zero_wrench()

    def ft_rtde_input_enable(
        self, enable: Value, sensor_mass: Value = 0.0, sensor_measuring_offset: Value = None,
        sensor_cog: Value = None,
    ) -> None:  # fmt: skip
        self._robot.has_external_wrench = bool(enable)

    enable_external_ft_sensor = ft_rtde_input_enable

    def get_inverse_kin(
        self, x: Value, qnear: Value = None, maxPositionError: Value = _FINE,
        maxOrientationError: Value = _FINE, tcp: Value = None,
    ) -> List:  # fmt: skip
        q = self._solve(x, qnear, tcp)
        if q is None:
            raise ScriptFault(f'get_inverse_kin: no solution for {to_str(x)}')
        return list_of(q)

    def get_inverse_kin_has_solution(
        self, pose: Value, qnear: Value = None, maxPositionError: Value = _FINE,
        maxOrientationError: Value = _FINE, tcp: Value = None,
    ) -> bool:  # fmt: skip
        return self._solve(pose, qnear, tcp) is not None

    def is_within_safety_limits(self, pose: Value, qnear: Value = None) -> bool:
        q = self._solve(pose, qnear, None) if isinstance(pose, Pose) else vector(pose)
        low, high = self._robot.q_min, self._robot.q_max
        return q is not None and bool(np.all((q >= low) & (q <= high)))

    def _solve(self, x: Value, qnear: Value, tcp: Value) -> Array | None:
        near = self._robot.target_q if qnear is None else vector(qnear)
        offset = self._robot.tcp if tcp is None else transform(tcp)
        T = transform(x) @ inverse_transform(offset)
        WORK[0] += _INVERSE_WORK
        return self._robot.inverse(T, near)
