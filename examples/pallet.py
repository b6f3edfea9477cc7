# SPDX-License-Identifier: Apache-2.0
"""
Carry a part through the cells of a pallet: `pallet.py [ROWS COLUMNS]`, 2 2 by default.

Each cycle fetches the part from where the one before has put it. With a feeder that brings the
next part, leave out the last line. A pallet that is the same every day needs no
script: see `target_grid` in config/pick_place.yaml.

On a robot change the coordinates first: they are those of the simulated cell, and replace the
places that you taught.
"""

import sys

from ur5_pick_place.client import PickPlaceClient

FEEDER = (0.45, -0.20, 0.02)  # [m] in base_link, where the first part lies
CORNER, PITCH = (0.40, 0.10, 0.02), (0.08, 0.15)  # [m]; an open gripper is 118 mm wide along y
rows, columns = (int(word) for word in sys.argv[1:3] or (2, 2))

with PickPlaceClient() as cell:
    cell.init_gripper()
    cell.teach('home')
    fetch = FEEDER
    for row in range(rows):
        for column in range(columns):
            x, y, z = CORNER
            place = (x + row * PITCH[0], y + column * PITCH[1], z)
            cell.teach('start', xyz=fetch)
            cell.teach('target', xyz=place)
            cell.plan()
            result = cell.run()
            print(f'row {row}, column {column}: placed in {result.duration:.1f} s')
            fetch = place
