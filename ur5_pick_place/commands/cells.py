# SPDX-License-Identifier: Apache-2.0
"""The choice between a cell in this process and the real nodes, for the long measurements."""

import argparse
from functools import partial

from ur5_pick_place.rig.cell import OpenCell, open_rig


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the options `--nodes` and `--rtf`."""
    parser.add_argument(
        '--nodes', action='store_true', help='through the real nodes, each a process, over DDS'
    )
    parser.add_argument(
        '--rtf',
        type=float,
        default=2.0,
        help='with --nodes: simulated seconds per second, at most 3; 1 if the machine has other '
        'work (default: %(default)s)',
    )


def cell_opener(parser: argparse.ArgumentParser, given: argparse.Namespace) -> OpenCell:
    """Return what opens the cell that was asked for; without ROS there is only this process."""
    if not given.nodes:
        return open_rig
    if not 0.1 <= given.rtf <= 3.0:
        parser.error(f'--rtf {given.rtf}: must be 0.1 to 3')
    try:
        from ur5_pick_place.nodes.nodes_cell import open_nodes
    except ModuleNotFoundError as error:
        parser.error(f'--nodes needs ROS 2: {error}; run make setup, or source your installation')
    return partial(open_nodes, real_time_factor=given.rtf)
