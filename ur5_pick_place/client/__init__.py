# SPDX-License-Identifier: Apache-2.0
"""
The cell from a script or a notebook.

Every method blocks until its outcome is known and raises an error of `ur5_pick_place.errors` with
the reason that the node gave.
"""

from ur5_pick_place.client.pick_place_client import PickPlaceClient
from ur5_pick_place.client.results import PlanReport, RunResult, Solutions

__all__ = ['PickPlaceClient', 'PlanReport', 'RunResult', 'Solutions']
