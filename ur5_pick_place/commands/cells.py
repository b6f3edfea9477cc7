# SPDX-License-Identifier: Apache-2.0
"""The choice between a cell in this process and the real nodes, for the long measurements."""

import argparse

from ur5_pick_place.rig.cell import OpenCell, open_rig


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the option `--nodes`."""
    parser.add_argument(
        '--nodes', action='store_true', help='through the real nodes, each a process, over DDS'
    )


def cell_opener(parser: argparse.ArgumentParser, given: argparse.Namespace) -> OpenCell:
    """Return what opens the cell that was asked for; without ROS there is only this process."""
    if not given.nodes:
        return open_rig
    try:
        from ur5_pick_place.nodes.nodes_cell import open_nodes
    except ModuleNotFoundError as error:
        parser.error(f'--nodes needs ROS 2: {error}; run make setup, or source your installation')
    return open_nodes
