# SPDX-License-Identifier: Apache-2.0
"""
Pick a part up, put it down, and carry it back, so that the script may be run again.

Run `make cell` in one terminal and `.venv/bin/python examples/pick_and_place.py` in another. The
part must lie at the first place.

On a robot change the coordinates first: they are those of the simulated cell, and replace the
places that you taught.
"""

from ur5_pick_place.client import PickPlaceClient

HERE = {'xyz': (0.45, -0.20, 0.02), 'yaw_deg': 0}  # the TCP, tool down, in base_link
THERE = {'xyz': (0.40, 0.25, 0.02), 'yaw_deg': 30}
BACK = {**HERE, 'yaw_deg': 90}  # turned: the next run grips, and so centres, the other two sides

with PickPlaceClient() as cell:  # waits up to 30 s for the nodes
    cell.init_gripper()
    cell.teach('home')  # where the arm is now
    for start, target in ((HERE, THERE), (THERE, BACK)):
        cell.teach('start', **start)
        cell.teach('target', **target)
        print(cell.plan())
        print(cell.run(on_event=print))  # Ctrl-C stops the arm
    cell.teach('start', **HERE)  # as they were
    cell.teach('target', **THERE)
