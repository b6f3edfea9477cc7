# SPDX-License-Identifier: Apache-2.0
"""Stop a run halfway, see why it stopped, rearm, and bring the part back."""

from ur5_pick_place.client import PickPlaceClient
from ur5_pick_place.errors import ExecutionError

START = (0.45, -0.20, 0.02)  # [m] in base_link
JUST_ABOVE = (0.45, -0.20, 0.03)  # for the part to be 10 mm over the table


def stop_halfway(event: dict[str, object]) -> None:
    """Stop the arm while it carries the part; a person would press Ctrl-C."""
    if event.get('stage') == 'transfer':
        cell.stop()  # returns once the arm is at rest


with PickPlaceClient() as cell:
    cell.init_gripper()
    cell.teach('home')
    cell.teach('start', xyz=START)
    cell.teach('target', xyz=(0.40, 0.25, 0.02), yaw_deg=30)
    cell.plan()
    try:
        cell.run(on_event=stop_halfway)
    except ExecutionError as error:
        print(f'ended early: {error}')
    print(cell.state)  # nothing moves until rearm
    cell.rearm()
    cell.go_home()  # planned from where the arm is, with what it holds
    cell.move_to(xyz=JUST_ABOVE, yaw_deg=90)  # turned: fingers then centre the other two sides
    cell.open_gripper()
    cell.go_home()  # straight up first, as the part stands between the fingers
    print(cell.state)
