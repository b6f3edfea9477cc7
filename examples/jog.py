# SPDX-License-Identifier: Apache-2.0
"""Jog the arm: the TCP up and down, one joint to and fro; then return to where it was."""

from ur5_pick_place.client import PickPlaceClient

with PickPlaceClient() as cell:
    before = cell.joints
    print(cell.tcp[:3, 3])
    cell.jog((0.0, 0.0, 0.05, 0.0, 0.0, 0.0), seconds=1.0)  # [m/s], [rad/s] in base_link
    print(cell.tcp[:3, 3])
    cell.jog((0.0, 0.0, -0.05, 0.0, 0.0, 0.0), seconds=1.0)
    cell.jog(joints=(0.0, 0.0, 0.0, 0.0, 0.0, 0.2), seconds=1.0)  # [rad/s]
    cell.jog(joints=(0.0, 0.0, 0.0, 0.0, 0.0, -0.2), seconds=1.0)
    print(cell.tcp[:3, 3])
    cell.move_to(joints=before)  # a jog ends about where its velocities lead, not exactly there
