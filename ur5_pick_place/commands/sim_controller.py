# SPDX-License-Identifier: Apache-2.0
"""
The simulated cell behind a UR controller's own ports, until Ctrl-C; needs no ROS and no Docker.

UR's driver, ur_rtde, UR's RTDE library and scripts connect to it as to a robot. It stands at the
demo's home with released brakes, under remote control.
"""

import argparse
import contextlib
import io
import logging
import sys

from ur5_pick_place.commands.arguments import add_mounting, add_ur_type
from ur5_pick_place.config_files import user_path
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.controller.controller import Controller
from ur5_pick_place.sim.controller.personality import SERIES, personality
from ur5_pick_place.sim.controller.server import Server
from ur5_pick_place.sim.grippers import DIGITAL, VACUUM
from ur5_pick_place.sim.physics.world import CellSettings
from ur5_pick_place.terminal import (
    Ended,
    Parser,
    command,
    number_within,
    reading,
    signals_raised,
)

_HOST = '127.0.0.1'
_RTF = (0.01, 100.0)
_OFFSETS = (-29000, 11000)


@command('sim_controller')
def main(argv: list[str] | None = None) -> int:
    """Run until Ctrl-C; give the exit code: 0, or 2 if a port is taken or an option wrong."""
    given = _parser().parse_args(argv)
    given.ur_type = given.ur_type or ('ur5e' if given.series == 'e' else 'ur5')
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    logging.basicConfig(format='sim_controller: %(message)s')
    with contextlib.suppress(Ended), signals_raised():
        _run(given)
    return 0


def _run(given: argparse.Namespace) -> None:
    robot = personality(given.ur_type, given.series)
    settings = CellSettings(
        ur_type=given.ur_type, gripper=given.gripper, mounting=str(given.mounting)
    )
    controller = Controller(robot, given.cold, given.allow_hosts, settings)
    if given.programs and not given.programs.is_dir():
        raise InvalidInput(f'--programs {given.programs}: must be a folder')
    server = Server(
        controller, given.host, given.port_offset, given.rtf, given.lockstep, given.programs
    )
    try:
        version = '.'.join(map(str, robot.version[:3]))
        print(f'{robot.ur_type}, PolyScope {version}, {1.0 / robot.step_time:.0f} Hz:')
        for name, port in server.ports.items():
            print(f'  {given.host}:{port.number}  {name}')
        print('ready; Ctrl-C ends it')
        server.run()
    finally:
        server.close()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog='sim_controller',
        description=__doc__,
        epilog='Example: sim_controller --ur-type ur5e --gripper vacuum',
    )
    add_ur_type(parser)
    parser.set_defaults(ur_type=None)
    parser.add_argument(
        '--series',
        choices=SERIES,
        help='must be that of the type, which is the default; e without a type is a ur5e',
    )
    add_mounting(parser)
    parser.add_argument(
        '--host',
        type=_address,
        default=_HOST,
        metavar='ADDRESS',
        help='address to listen at (default: %(default)s, this machine alone). Whoever reaches '
        'it can run programs on the simulated robot',
    )
    offset = number_within(*_OFFSETS, int)
    added = 'added to every port (default: 0)'
    parser.add_argument('--port-offset', type=offset, default=0, metavar='N', help=added)
    parser.add_argument(
        '--rtf',
        type=number_within(*_RTF),
        default=1.0,
        help="seconds of the robot's clock per second (default: 1)",
    )
    parser.add_argument(
        '--gripper',
        choices=(DIGITAL, VACUUM),
        default=DIGITAL,
        help='fingers on tool output 0, or a suction cup on both (default: %(default)s)',
    )
    parser.add_argument(
        '--cold', action='store_true', help='as after the power switch: off, local control'
    )
    parser.add_argument(
        '--lockstep',
        action='store_true',
        help='for tests: the clock waits for clients that have not read a packet yet',
    )
    parser.add_argument(
        '--programs',
        type=reading(user_path),
        metavar='FOLDER',
        help="programs for the dashboard: 'load x.urp' finds FOLDER/x.urp or FOLDER/x.script",
    )
    parser.add_argument(
        '--allow-hosts',
        action='store_true',
        help='programs may open sockets to other machines, not to this one alone',
    )
    return parser


def _address(text: str) -> str:
    if not text.strip():  # an unset variable; sockets take it for all addresses
        raise argparse.ArgumentTypeError('is empty: must be an address; 0.0.0.0 means all')
    return text
