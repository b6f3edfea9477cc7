# SPDX-License-Identifier: Apache-2.0
"""Command-line options that choose the cell of a case, and where cases run."""

import argparse
import os
from functools import partial

from lab.cell import OpenCell
from lab.in_process import open_in_process
from lab.workers import Workers, cores

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
        f'(default: {_FACTOR:g})',
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
        from lab.cell_over_dds import open_nodes
    except ModuleNotFoundError as error:
        parser.error(
            f'--nodes requires ROS 2: {error}; run make setup or source your ROS installation'
        )
    return partial(open_nodes, real_time_factor=factor)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the option `--jobs`."""
    parser.add_argument(
        '--jobs',
        type=int,
        help='worker processes (default: one for each core, or 1 with --nodes, as nodes run in '
        'real time; 1 runs without Dask); DASK=tcp://scheduler:8786 in the environment uses the '
        'workers of that Dask cluster instead',
    )


def chosen_workers(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Workers:
    """Return where the cases run."""
    cluster = os.environ.get('DASK', '').strip()
    if cluster and given.jobs is not None:
        parser.error(f'--jobs {given.jobs} and DASK={cluster}: choose one of them')
    if cluster and given.nodes:
        parser.error(f'--nodes and DASK={cluster}: real nodes run on this machine only')
    jobs = given.jobs if given.jobs is not None else 1 if given.nodes else cores()
    if jobs < 1:
        parser.error(f'--jobs {jobs}: must be at least 1')
    return Workers(jobs, cluster)
