# SPDX-License-Identifier: Apache-2.0
"""`preflight`: check whether this cell is ready to move; one line per check, with a remedy."""

import argparse
import sys

from rclpy.utilities import remove_ros_args

from ur5_pick_place.client.preflight import collect
from ur5_pick_place.task.preflight import check_all, report_lines, verdict
from ur5_pick_place.terminal import Parser, command

_PLAIN, _COLOURS = {True: '', False: ''}, {True: '\x1b[32m', False: '\x1b[31m'}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog='preflight',
        description='Check whether a cell is ready to move: network, nodes, settings, clock, '
        'joints, robot, controller, speed slider, calibration, TCP, tool voltage, gripper pins, '
        'scene, states. It moves and changes nothing and takes at most ten seconds.',
        epilog='Exit code: 0 if all is well, 1 if a check failed, 2 if the input is '
        'invalid. Example: preflight --namespace cell_b',
    )
    parser.add_argument('--namespace', default='', help="of the cell's nodes; default: none")
    return parser


@command('preflight')
def main() -> int:
    """Run the command and give its exit code."""
    arguments = _parser().parse_args(remove_ros_args(sys.argv)[1:])
    checks = check_all(collect(arguments.namespace))
    for line in report_lines(checks, _COLOURS if sys.stdout.isatty() else _PLAIN):
        print(line)
    print(verdict(checks))
    return 0 if all(check.is_ok for check in checks) else 1
