# SPDX-License-Identifier: Apache-2.0
"""Injects and clears faults: on request, and by a schedule in simulated time."""

import logging
from collections.abc import Sequence

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.fault_schedule import Planned, check_fault
from ur5_pick_place.sim.faults import Undo
from ur5_pick_place.sim.gripper_faults import faults_of

_ROUNDING = 1e-9  # [s]

_log = logging.getLogger(__name__)


class FaultInjector:
    """
    The faults of one driver.

    Parameters
    ----------
    driver : Driver
    schedule : sequence of Planned
        Scheduled faults.

    """

    def __init__(self, driver: Driver, schedule: Sequence[Planned] = ()) -> None:
        self._driver = driver
        self.known = faults_of(driver.gripper)
        """The faults that this cell can have, by name."""
        self._undo: dict[str, list[Undo]] = {}
        self._to_come = list(schedule)
        self._to_end: list[tuple[float, str]] = []
        self._motions: list[float] = []  # start time of each trajectory goal [s]

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the faults that were injected and not cleared, oldest first."""
        return tuple(self._undo)

    def inject(self, name: str) -> str:
        """
        Inject a fault, again if it is active already; return its description.

        Raises
        ------
        InvalidInput
            The fault is unknown, or the state of the cell does not allow it.

        """
        check_fault(name)
        if name not in self.known:
            raise InvalidInput(f'{name}: not a fault of gripper: {self._driver.gripper}')
        fault = self.known[name]
        undo = fault.inject(self._driver)
        self._undo.setdefault(name, []).append(undo)
        _log.warning('%.3f s: %s: %s', self._driver.time, name, fault.text)
        return fault.text

    def clear(self, name: str) -> str:
        """
        Clear all injections of a fault, the latest first; return a message.

        Raises
        ------
        InvalidInput
            The fault is unknown, or the robot does not allow clearing it yet.

        """
        check_fault(name)
        if name not in self._undo:
            return f'{name} was not injected'
        while self._undo[name]:
            self._undo[name][-1]()
            self._undo[name].pop()
        del self._undo[name]
        self._to_end = [(end, other) for end, other in self._to_end if other != name]
        _log.warning('%.3f s: %s cleared', self._driver.time, name)
        return f'{name} cleared'

    def clear_all(self) -> str:
        """
        Clear all faults; return a message.

        Raises
        ------
        InvalidInput
            Names the faults that the robot does not allow to be cleared yet, and why.

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

    def tick(self) -> None:
        """Execute the schedule; call this after every cycle of the driver."""
        now = self._driver.time
        begun = sum(c.goals_started for c in self._driver.trajectory.values())
        self._motions += [now] * (begun - len(self._motions))
        for planned in [p for p in self._to_come if self._is_due(p, now)]:
            self._to_come.remove(planned)
            self._begin(planned, now)
        for end, name in [e for e in self._to_end if e[0] <= now + _ROUNDING]:
            try:
                self.clear(name)
            except InvalidInput:
                _log.debug('%s was due to end at %.3f s: retrying', name, end)

    def _is_due(self, planned: Planned, now: float) -> bool:
        if planned.motion is None:
            start = 0.0
        elif planned.motion <= len(self._motions):
            start = self._motions[planned.motion - 1]
        else:
            return False
        return start + planned.at <= now + _ROUNDING

    def _begin(self, planned: Planned, now: float) -> None:
        try:
            self.inject(planned.fault)
        except InvalidInput as error:
            _log.error('%.3f s: %s was not injected: %s', now, planned.fault, error)
        else:
            if planned.duration is not None:
                self._to_end.append((now + planned.duration, planned.fault))
