# SPDX-License-Identifier: Apache-2.0
"""Stop a run halfway, see why it stopped, rearm and go home."""

import threading

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.errors import ExecutionError

with PickPlaceClient() as cell:
    cell.init_gripper()
    cell.teach('home')
    cell.teach('start', xyz=(0.45, -0.20, 0.02))
    cell.teach('target', xyz=(0.40, 0.25, 0.02), yaw_deg=30)
    cell.plan()
    timer = threading.Timer(2.0, cell.stop)  # a person would press Ctrl-C
    timer.start()
    try:
        cell.run()
    except ExecutionError as error:
        print(f'ended early: {error}')
    finally:
        timer.cancel()  # if the run ended by itself: its stop would interrupt go_home
    print(cell.state)  # nothing moves until rearm
    cell.stop()  # returns once the arm is at rest
    cell.rearm()
    cell.go_home()  # planned from where the arm is, with what it holds
    print(cell.state)
    # A part in the gripper stays there: hold it, then call cell.open_gripper().
