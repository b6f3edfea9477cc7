# SPDX-License-Identifier: Apache-2.0
"""The nodes as executables: `--help`, and a clean end on Ctrl-C even while they load."""

import ast
import ctypes
import gc
import importlib.util
import os
import signal
import sys
from functools import partial
from pathlib import Path

from ur5_pick_place.terminal import ending_signals, quiet_pipe, run_main

PARENT = 'UR5_PICK_PLACE_PARENT'
"""Environment variable: id of a parent process whose end, for any reason, ends the node."""

_PR_SET_PDEATHSIG = 1


_SIMULATED = 'robot_sim.yaml -p use_sim_time:=true'
# The module of each node, and the file and parameters of an example.
_NODES = {
    'ik_service': ('nodes.ik_service.node', _SIMULATED),
    'trajectory_planner': ('nodes.trajectory_planner.node', _SIMULATED),
    'pick_place': ('nodes.pick_place.node', _SIMULATED),
    'sim_driver': ('nodes.sim.driver', 'sim_driver.yaml'),
    'recorder': ('nodes.recorder.node', 'recorder.yaml'),
    'cockpit': ('cockpit.node', 'robot_sim.yaml -p robot:=sim'),
}


def _run(name: str) -> None:
    if prepare_to_run(name):
        run_main(_NODES[name][0])


ik_service = partial(_run, 'ik_service')
trajectory_planner = partial(_run, 'trajectory_planner')
pick_place = partial(_run, 'pick_place')
sim_driver = partial(_run, 'sim_driver')
recorder = partial(_run, 'recorder')
cockpit = partial(_run, 'cockpit')


def node_help(name: str) -> str:
    """Return what `--help` of a node prints: its module's text, its parameters, an example."""
    from ur5_pick_place.config_files import share_directory  # loads PyYAML

    module, file = _NODES[name]
    found = importlib.util.find_spec(f'ur5_pick_place.{module}')
    assert found and found.origin
    about = ast.get_docstring(ast.parse(Path(found.origin).read_text(encoding='utf-8')))
    parameters = (share_directory() / f'config/{name}.yaml').read_text(encoding='utf-8')
    return f"""usage: {name} [--help] [--ros-args ...]

{about}

Parameters, besides those in config/robot_*.yaml (ros2 param describe explains each):

{parameters.partition('ros__parameters:')[2].strip(chr(10))}

Example:
  ros2 run ur5_pick_place {name} --ros-args --params-file config/{file}
  (without ROS .venv/bin/{name} ...; all nodes of a cell: make demo, or
  ros2 launch ur5_pick_place pick_place.launch.py)"""


@quiet_pipe()
def prepare_to_run(name: str) -> bool:
    """
    Prepare this process to run a node and return True; on `--help` print the help, return False.

    Until the node has its own handlers, SIGINT, SIGTERM and SIGHUP end the process at once. If its
    parent is the one that `PARENT` names, it receives SIGINT when the parent ends.
    """
    arguments = sys.argv[1:]
    own = arguments[: arguments.index('--ros-args')] if '--ros-args' in arguments else arguments
    if not {'-h', '--help'}.isdisjoint(own):
        print(node_help(name))
        return False
    if os.environ.get(PARENT) == str(os.getppid()):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    # Loading takes a second, and compiled modules turn a KeyboardInterrupt into other errors.
    for number in ending_signals(signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    gc.disable()  # while the modules load, all of which stay: `run_node` enables it
    return True
