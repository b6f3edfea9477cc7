# SPDX-License-Identifier: Apache-2.0
"""The executable `cockpit`."""

import sys

from ur5_pick_place.nodes.ros.entry_points import prepare_to_run

_OPTIONAL = {'viser', 'trimesh', 'websockets', 'msgspec'}


def main() -> None:
    """Run the cockpit; `--help` describes it."""
    if not prepare_to_run('cockpit'):
        return
    try:
        from ur5_pick_place.cockpit.node import main as run
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        print(
            f'refused to start: the cockpit needs viser ({error}): pip install viser==1.1.1',
            file=sys.stderr,
        )
        sys.exit(2)
    run()
