# SPDX-License-Identifier: Apache-2.0
"""Every joint solution of a pose by branch, and why the other branches have none."""

import numpy as np

from ur5_pick_place.client import PickPlaceClient

above = np.diag([1.0, -1.0, -1.0, 1.0])  # tool down
above[:3, 3] = 0.45, -0.20, 0.30  # [m] in base_link
far = above.copy()
far[0, 3] = 0.90  # beyond the reach of a UR5: every branch is missing

with PickPlaceClient() as cell:
    for title, pose in (('here', cell.tcp), ('above start', above), ('far out', far)):
        print(f'{title}, joints [rad]:\n{cell.solutions(pose, avoid_collisions=True)}\n')
