# SPDX-License-Identifier: Apache-2.0
"""
Carry a part through the cells of a pallet and back: `pallet.py [ROWS COLUMNS]`, 2 2 by default.

Each cycle fetches the part from where the one before has put it. With a feeder that brings the
next part, fetch from FEEDER each time. A pallet that is the same every day needs no script: see
`target_grid` in config/pick_place.yaml.

On a robot change the coordinates first: they are those of the simulated cell, and replace the
places that you taught.
"""

import sys

from ur5_pick_place.client import PickPlaceClient

FEEDER = (0.45, -0.20, 0.02)  # [m] in base_link, where the part lies first and last
CORNER, PITCH = (0.40, 0.10, 0.02), (0.08, 0.15)  # [m]; an open gripper is 118 mm wide along y
rows, columns = (int(word) for word in sys.argv[1:3] or (2, 2))
x, y, z = CORNER
cells = [(x + i * PITCH[0], y + j * PITCH[1], z) for i in range(rows) for j in range(columns)]

with PickPlaceClient() as cell:
    cell.init_gripper()
    cell.teach('home')
    fetch = FEEDER
    for place in (*cells, FEEDER):
        cell.teach('start', xyz=fetch)
        # Turned at last, so that the next run grips, and centres, the other two sides.
        cell.teach('target', xyz=place, yaw_deg=90 if place is FEEDER else 0)
        cell.plan()
        result = cell.run()
        print(f'{fetch} to {place}: placed in {result.duration:.1f} s')
        fetch = place
    cell.teach('start', xyz=FEEDER)
    cell.teach('target', xyz=CORNER)
