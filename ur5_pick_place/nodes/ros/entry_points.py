# SPDX-License-Identifier: Apache-2.0
"""The nodes as executables: `--help`, and a clean end on Ctrl-C even while they load."""

import ctypes
import gc
import importlib
import os
import signal
import sys
from functools import partial

from ur5_pick_place.nodes.ros.node_help import node_help
from ur5_pick_place.terminal import quiet_pipe

PARENT = 'UR5_PICK_PLACE_PARENT'
"""Environment variable: id of a parent process whose end, for any reason, ends the node."""

_PR_SET_PDEATHSIG = 1


def _run(name: str, module: str) -> None:
    if prepare_to_run(name):
        importlib.import_module(f'ur5_pick_place.nodes.{module}').main()


ik_service = partial(_run, 'ik_service', 'ik_service.node')
trajectory_planner = partial(_run, 'trajectory_planner', 'trajectory_planner.node')
pick_place = partial(_run, 'pick_place', 'pick_place.node')
sim_driver = partial(_run, 'sim_driver', 'sim.driver')
recorder = partial(_run, 'recorder', 'recorder.node')


@quiet_pipe()
def prepare_to_run(name: str) -> bool:
    """
    Prepare this process to run a node and return True; on `--help` print the help, return False.

    Until the node has its own handlers, SIGINT and SIGTERM end the process at once. If its parent
    is the one that `PARENT` names, it receives SIGINT when the parent ends.

    """
    arguments = sys.argv[1:]
    own = arguments[: arguments.index('--ros-args')] if '--ros-args' in arguments else arguments
    if not {'-h', '--help'}.isdisjoint(own):
        print(node_help(name))
        return False
    if os.environ.get(PARENT) == str(os.getppid()):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    # Loading takes a second, and compiled modules turn a KeyboardInterrupt into other errors.
    for number in (signal.SIGINT, signal.SIGTERM):  # until the node installs its own handlers
        signal.signal(number, lambda *_: os._exit(0))
    gc.disable()  # while the modules load, all of which stay: `run_node` enables it
    return True
