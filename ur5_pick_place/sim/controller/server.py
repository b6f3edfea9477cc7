# SPDX-License-Identifier: Apache-2.0
"""The controller and its ports, run in one thread at the pace of a robot."""

import gc
import logging
import sys
from pathlib import Path
from time import perf_counter

from ur5_pick_place.sim.controller.cell_port import CellPort
from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.dashboard import DashboardServer
from ur5_pick_place.sim.controller.network import Network, Port, swallow
from ur5_pick_place.sim.controller.primary import PrimaryServer
from ur5_pick_place.sim.controller.rtde import RtdeServer
from ur5_pick_place.sim.controller.sample import Sample
from ur5_pick_place.sim.controller.script_port import interpreter_port

_TOOL_LINE = 54321  # at which a URCap offers the serial line of the tool; nothing is wired to it
_SWITCH_INTERVAL = 0.0005  # [s] after which the compiler's thread gives way to the cycle
_LATE = 0.02  # [s] behind its time at which a cycle counts as late
# [s] behind its time at which the robot's clock waits for the PC: cycles that are made up for come
# at once, and programs give a client up that is silent for 20 ms.
_GIVE_UP = 0.01
_REPORT_PERIOD = 10.0  # [s]
_REPORT = (
    'this PC is too slow or too busy: %d cycles late by more than %.0f ms in the last %.0f s, at '
    'most %.0f ms'
)
_LOCKSTEP_WAIT = 1.0  # [s] for a client to read, before its packets are dropped
_LOCKSTEP_BUFFER = 1 << 14  # [bytes] that the clock may be ahead of a client

_log = logging.getLogger(__name__)


class Server:
    """
    A controller behind its ports.

    `offset` is added to the ports' numbers. `rtf`: how fast the robot's clock runs.
    `is_lockstep`: the clock waits for clients that have not read a packet of a stream yet;
    nothing is dropped for a client that reads within a second. One that does not is waited for
    again when it has caught up.
    `programs`: folder of what the dashboard loads.
    Raises `InvalidInput`: a port is taken.
    """

    def __init__(
        self,
        controller: Controller,
        host: str = '127.0.0.1',
        offset: int = 0,
        rtf: float = 1.0,
        is_lockstep: bool = False,
        programs: Path | None = None,
    ) -> None:
        self.controller = controller
        self._period, self._is_lockstep = controller.step_time / rtf, is_lockstep
        self._rtde = RtdeServer(controller, offset)
        self._primary = PrimaryServer(controller, offset)
        self.ports: dict[str, Port] = {
            'dashboard': DashboardServer(controller, offset, programs).port,
            **self._primary.ports,
            'RTDE': self._rtde.port,
            'cell': CellPort(controller, offset).port,
        }
        if not controller.personality.is_cb3:
            self.ports['interpreter'] = interpreter_port(controller, offset)
            self.ports['tool RS-485'] = Port(_TOOL_LINE + offset, swallow)
        send_buffer = _LOCKSTEP_BUFFER if is_lockstep else None
        self.network = Network(host, list(self.ports.values()), send_buffer)

    def run(self) -> None:
        sys.setswitchinterval(_SWITCH_INTERVAL)
        gc.freeze()  # what stays for ever is not looked through again
        late, latest = 0, 0.0
        due = report_due = perf_counter()
        while True:
            self.cycle()
            due += self._period
            now = perf_counter()
            if now - due > _LATE:
                late, latest = late + 1, max(latest, now - due)
            if now - due > _GIVE_UP:
                due = now
            if now > report_due:
                if late:
                    _log.warning(_REPORT, late, 1e3 * _LATE, _REPORT_PERIOD, 1e3 * latest)
                late, latest, report_due = 0, 0.0, now + _REPORT_PERIOD
            self.network.serve(due)

    def cycle(self) -> None:
        self.controller.cycle()
        sample = Sample(self.controller)
        self._rtde.publish(sample)
        self._primary.publish(sample)
        until = perf_counter() + _LOCKSTEP_WAIT
        while self.network.flush() and self._is_lockstep:
            self.network.serve(perf_counter() + 0.001)
            if perf_counter() > until:
                self.network.give_up()

    def close(self) -> None:
        self.controller.stop()
        self.network.close()
