# SPDX-License-Identifier: Apache-2.0
"""The commands as executables: Ctrl-C ends them in silence, even while they load."""

import signal
from functools import partial
from typing import Any

from ur5_pick_place.terminal import run_main


def _run(module: str) -> Any:
    # Loading takes seconds on a busy PC. A command that has something to end in order installs
    # handlers of its own.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_main(module)


cell = partial(_run, 'demo.live_cell')
compare = partial(_run, 'demo.compare')
cycle_diagram = partial(_run, 'commands.cycle_diagram')
demo = partial(_run, 'demo.command')
fk = partial(_run, 'commands.fk')
ik = partial(_run, 'commands.ik')
move_to = partial(_run, 'commands.move_to')
preflight = partial(_run, 'commands.preflight')
report = partial(_run, 'report.command')
sim_controller = partial(_run, 'commands.sim_controller')
