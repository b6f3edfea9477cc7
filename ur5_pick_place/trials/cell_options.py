# SPDX-License-Identifier: Apache-2.0
"""Command-line options that choose between a cell in this process and the real nodes."""

import argparse
from functools import partial

from ur5_pick_place.trials.cell import OpenCell
from ur5_pick_place.trials.in_process import open_in_process

_FACTOR = 2.0  # simulated seconds per second


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the options `--nodes` and `--rtf`."""
    parser.add_argument(
        '--nodes', action='store_true', help='use the real nodes, one process each, over DDS'
    )
    parser.add_argument(
        '--rtf',
        type=float,
        help='with --nodes: simulated seconds per wall second, at most 3; use 1 on a busy machine '
        f'(default: {_FACTOR})',
    )


def cell_opener(parser: argparse.ArgumentParser, given: argparse.Namespace) -> OpenCell:
    """Return the function that opens the chosen cell; without ROS only a cell in this process."""
    if not given.nodes:
        if given.rtf is not None:
            parser.error('--rtf requires --nodes: a cell in this process runs as fast as possible')
        return open_in_process
    factor = _FACTOR if given.rtf is None else given.rtf
    if not 0.1 <= factor <= 3.0:
        parser.error(f'--rtf {factor}: must be within 0.1 to 3')
    try:
        from ur5_pick_place.trials.over_dds import open_nodes
    except ModuleNotFoundError as error:
        parser.error(
            f'--nodes requires ROS 2: {error}; run make setup or source your ROS installation'
        )
    return partial(open_nodes, real_time_factor=factor)
