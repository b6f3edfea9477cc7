# SPDX-License-Identifier: Apache-2.0
"""Injects and clears the faults of the simulated cell."""

import difflib
import logging

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FAULTS, GRIPPER_FAULTS, Fault, Undo

_log = logging.getLogger(__name__)


class FaultInjector:
    """The faults of one driver."""

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
