# SPDX-License-Identifier: Apache-2.0
"""
The simulated cell that stays up until Ctrl-C, with its nodes and the cockpit.

Taught places outlive it, in `~/.ros/ur5_pick_place/`, by type and domain; those that nobody has
taught yet are taught as the demo's, and so are start and target if they are the same place.
"""

import argparse
import errno
import math
import os
import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ur5_pick_place.demo.configuration import CONFIG, CellSetup
from ur5_pick_place.demo.cycle_layout import layout, moves_of, read_cycle
from ur5_pick_place.demo.options import add_setup
from ur5_pick_place.demo.processes import NodeProcesses, begin_command, reserved, working_folder
from ur5_pick_place.demo.spots import Spot, SpotChecker, default_spots, spot_of
from ur5_pick_place.errors import ExecutionError, InvalidInput, Ur5PickPlaceError
from ur5_pick_place.kinematics.mounting import FLOOR
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.nodes.cell.node_list import poses_file
from ur5_pick_place.nodes.ros.distro import discovery
from ur5_pick_place.nodes.ros.environment import prepare_environment
from ur5_pick_place.planning.scene.scene_file import load_scene
from ur5_pick_place.sim.grippers import DIGITAL
from ur5_pick_place.sim.physics.cell import MAX_PARTS, PART_SIZE
from ur5_pick_place.task.places.file import PosesFile
from ur5_pick_place.task.places.names import HOME
from ur5_pick_place.task.places.poses import TaughtPose, coincide
from ur5_pick_place.terminal import Ended, Parser, command, number_within, signals_raised

_COCKPIT = 'cockpit'
_HOST = '127.0.0.1'
_PORTS = (0, 65535)
_ADDRESS = re.compile(r'http://\S+/\?token=\S+')
_TILTED = math.radians(10.0)  # of fingers that still grip the cube
_START_TIME = 60.0  # [s] for the cockpit to serve its page
_CHECK_PERIOD = 0.1  # [s] between two looks at the processes


@command('cell')
def main() -> int:
    """Run the cell until Ctrl-C; give the exit code."""
    given = _parser().parse_args()
    begin_command()
    try:
        with signals_raised():
            _run(given)
    except Ended:
        print('\ncell: ended with all its processes; taught places are kept', file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog='cell',
        description='Run the simulated cell with its page until Ctrl-C, on the ROS_DOMAIN_ID of '
        'the environment, else 0, on this machine alone. Prints the address of the page.',
        epilog='Example: cell --port 8061 --rtf 0.5',
    )
    add_setup(parser)
    port, parts = number_within(*_PORTS, int), number_within(1, MAX_PARTS, int)
    parser.add_argument('--port', type=port, default=8060, help='of the page (default: 8060)')
    cubes = f'cubes, 1 to {MAX_PARTS} (default: 1)'
    parser.add_argument('--parts', type=parts, default=1, help=cubes)
    return parser


def _run(given: argparse.Namespace) -> None:
    begin = time.monotonic()
    domain = prepare_environment()
    os.environ.update(discovery('LOCALHOST'))
    path, cycle = read_cycle(given.cycle, given.gripper)
    setup = CellSetup.read(given)
    spots = layout(cycle, setup)
    places = _poses_file(setup, domain)
    taught, remark = usable_places(PosesFile(places).poses)
    pick = next(iter(moves_of(cycle)), '')
    start = spots.get(pick, default_spots(setup)[0])
    if pick in taught:
        start, remark = spot_of_cube(taught[pick].T_base_tcp, setup)
    own = {'poses_file': str(places), 'cycle_file': str(path)}
    sim = {'real_time_factor': given.rtf, 'parts': given.parts, **start.parameters}
    missing = {n: spots.get(n) for n in (HOME, *spots) if n not in taught}
    _check_port(given.port)
    with reserved(domain) as is_free, working_folder() as folder:
        if not is_free:
            raise InvalidInput(
                f'another cell runs on ROS_DOMAIN_ID {domain}: end it, or set another '
                f'(ROS_DOMAIN_ID={(domain + 1) % 100} make cell)'
            )
        scene = setup.write_scene(folder)
        specs = setup.nodes(
            scene,
            {'pick_place': own, 'sim_driver': sim},
            cockpit={'host': _HOST, 'port': given.port},
            record=True,
        )
        with NodeProcesses(specs, domain, folder) as nodes:
            _prepare(scene, nodes, missing)
            if remark:
                print(f'cell: {remark}', file=sys.stderr)
            address = _wait_for_address(folder / f'{_COCKPIT}.log', nodes)
            print(_welcome(given.ur_type, domain, address, time.monotonic() - begin))
            for name, place in cycle.places.items():
                if place.from_frame:
                    print(f'Plan reads {name} from the TF frame {place.from_frame}: publish it.\n')
            _watch(nodes, folder)


def _poses_file(setup: CellSetup, domain: int) -> Path:
    """
    Return the file of taught places: one for each type, gripper, mounting and domain.

    Poses of one arm or tool mislead another, and two cells may run at the same time.
    """
    of_type = '' if setup.ur_type == 'ur5' else f'_{setup.ur_type}'
    of_gripper = '' if setup.gripper == DIGITAL else f'_{setup.gripper}'
    of_mounting = '' if setup.mounting == FLOOR else f'_{setup.mounting}'.replace(' ', '_')
    of_domain = f'_domain{domain}' if domain else ''
    return poses_file(CONFIG, 'sim', f'{of_type}{of_gripper}{of_mounting}{of_domain}')


def usable_places(taught: Mapping[str, TaughtPose]) -> tuple[dict[str, TaughtPose], str]:
    """Return the taught places, without start and target if they coincide, and a remark then."""
    pair = [taught[name] for name in ('start', 'target') if name in taught]
    if len(pair) < 2 or not coincide(*pair):
        return dict(taught), ''
    left = {name: pose for name, pose in taught.items() if name not in ('start', 'target')}
    return left, "start and target were the same place: both are taught anew, as the demo's"


def spot_of_cube(T_base_tcp: Array, setup: CellSetup) -> tuple[Spot, str]:
    """Return where the cube lies for a taught start, and a remark if that is not at start."""
    T = T_BASE_LINK_BASE @ T_base_tcp
    spot, height = spot_of(T, setup)
    try:
        SpotChecker(setup).check_spot('start', spot)
    except InvalidInput as error:
        spot = default_spots(setup)[0]
        return spot, f"the cube lies at the demo's start, {spot}, not at the taught one: {error}"
    T_wanted = spot.T_base_link_tcp(setup.scene)
    above = height - spot_of(T_wanted, setup)[1]
    tilt = math.acos(min(1.0, max(-1.0, float(T[:3, 2] @ T_wanted[:3, 2]))))
    if abs(above) <= PART_SIZE / 2 and tilt <= _TILTED:
        return spot, ''
    return spot, (
        f'the cube lies on the table at {spot}, not at start: that was taught '
        f'{1e3 * abs(above):.0f} mm {"above" if above > 0.0 else "below"} the grip height of a '
        f'cube on the table, and tilted by {math.degrees(tilt):.0f} deg'
    )


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            in_use = 'is in use, perhaps by another cell: end that, or'
            why = in_use if taken else f'cannot be used ({error.strerror}):'
            raise InvalidInput(
                f'port {port} {why} give another port '
                f'(make cell PORT={port + 1 if port < _PORTS[1] else port - 1})'
            ) from error


def _prepare(
    scene: Path, nodes: NodeProcesses, missing: Mapping[str, Spot | None]
) -> None:
    """Wait until the nodes are ready, and teach the places that are missing."""
    # Imported here so that rclpy loads while the nodes start.
    from ur5_pick_place.demo.simulated_cell import SimulatedCell

    with SimulatedCell(load_scene(scene), nodes.check) as cell:
        cell.wait_until_ready()
        for name, spot in missing.items():
            try:
                cell.teach_at(name, spot)
            except Ur5PickPlaceError as error:
                print(f'cell: {name} is not taught: {error}', file=sys.stderr)


def _wait_for_address(log: Path, nodes: NodeProcesses) -> str:
    """Return the address that the cockpit has printed."""
    deadline = time.monotonic() + _START_TIME
    while time.monotonic() < deadline:
        if found := _ADDRESS.search(log.read_text(encoding='utf-8', errors='replace')):
            return found[0]
        nodes.check()
        time.sleep(_CHECK_PERIOD)
    raise ExecutionError(f'the cockpit did not serve its page within {_START_TIME:.0f} s')


def _welcome(ur_type: str, domain: int, address: str, seconds: float) -> str:
    return f"""
Simulated cell with a {ur_type}, ready after {seconds:.1f} s. Its page:

  {address}

Try:
  1. Open the page; press Init gripper, Plan and Run.
  2. Drag target elsewhere, Plan, Run, and press Stop on the way; then Rearm and Go home.
  3. In the tab Simulation inject protective_stop while the arm moves.

Scripts see this cell with ROS_DOMAIN_ID={domain}, on this machine alone, such as
.venv/bin/python examples/jog.py in another terminal. Ctrl-C ends the cell.
"""


def _watch(nodes: NodeProcesses, folder: Path) -> None:
    """Report nodes that end, until none is left; the others stay, as they would on a robot."""
    known: dict[str, str] = {}
    while len(known) < len(nodes.pids):
        time.sleep(_CHECK_PERIOD)
        ended = nodes.ended
        for name in ended.keys() - known.keys():
            print(
                f'cell: {name} {ended[name]}; the others stay up, Ctrl-C ends them; its log: '
                f'{folder}/{name}.log',
                file=sys.stderr,
            )
        known = ended
    raise ExecutionError('every node has ended')
