# SPDX-License-Identifier: Apache-2.0
"""
Pick a part up and put it down.

Run `make cell` in one terminal and `.venv/bin/python examples/pick_and_place.py` in another. The
part must lie at start. After a run it does not: take it back, on the simulated cell by the button
Put part at start in the page's tab Simulation.

On a robot change the coordinates first: they are those of the simulated cell, and replace the
places that you taught.

"""

from ur5_pick_place.client import PickPlaceClient

with PickPlaceClient() as cell:  # waits up to 30 s for the nodes
    cell.init_gripper()
    cell.teach('home')  # where the arm is now
    cell.teach('start', xyz=(0.45, -0.20, 0.02), yaw_deg=0)  # the TCP, tool down, in base_link
    cell.teach('target', xyz=(0.40, 0.25, 0.02), yaw_deg=30)
    print(cell.plan())
    result = cell.run(on_event=print)  # Ctrl-C stops the arm
    print(f'{result.placed} placed in {result.duration:.1f} s')
