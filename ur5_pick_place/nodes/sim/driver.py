# SPDX-License-Identifier: Apache-2.0
"""
The simulated cell as a node, with the interface of the UR driver (Kilted 4.8) and any UR type.

The world and its driver run in one thread at 125 Hz (CB3) or 500 Hz (e-Series) of simulated time,
`real_time_factor` times as fast as real time if the machine keeps up; otherwise simulated time
slows down, and nothing else changes. Clients with `use_sim_time` work up to a factor of about 3 on
two cores, open and closed loop alike; beyond it they lose cycles.

For simulations only, under `sim_driver/`: `part_pose` (where the cube really is), `finger_states`
(travel of the two fingers), `place_part` (puts the cube at a pose), `feed_part` (brings the next
of `parts` cubes; `part_pose` and `place_part` refer to the latest one, `part_poses` has all),
`switch_input` (ur_msgs/SetIO: a button or sensor at input `pin`, 0 to 15), `protective_stop`, and
for every fault of `sim.faults` that its gripper can have a service `faults/<name>` (true injects,
false clears) beside `clear_faults`.

With `gripper: action` the cell also has `robotiq_gripper_controller/gripper_cmd`, of the type
`gripper_action_type`, and the gripper's joint on `joint_states`, as a Robotiq's node has.

Deviations from the driver:

- The motor currents in `joint_states.effort` are those of motors without friction.
- Every joint ends hard at 360 degrees either way; wrist 3 of a real ur3 or ur3e turns endlessly.
- With link latency, the clock, feedback and replies of services and actions are not delayed.
- A pin changes one cycle after `set_io` has answered; on the robot often before.
- `set_io` rejects analog output 2; the driver passes it on, and it changes the tool voltage.
- `speed_scaling_input` is not subscribed to: the driver overwrites it every cycle.
- `/tf` comes from this node (20.8 Hz; the driver's robot_state_publisher 20 Hz) and there is no
  `robot_description`. There are no tcp_pose and force_torque broadcasters, and no force
  mode, URScript or controller loading interfaces.
- The robot has one program, External Control. It runs from the start, as with `headless_mode`,
  unless `program_running` is false; `play` and `resend_robot_program` both start it.
- The dashboard has only the services whose types exist in every distribution, as PolyScope 3, 5
  or X answers them; safety status, reports and program files are absent.
- `forward_velocity_controller` is not slowed by the speed slider.
- A pause freezes the arm within its servo lag; the robot takes a moment longer.
- Feedback, results and timeouts use simulated time; in the driver a 20 Hz wall timer sends them.
"""

import logging
import os
import threading
import time
import traceback
from dataclasses import dataclass

from ur5_pick_place.nodes.cell.robot_settings import config_file
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.nodes.sim.actions import (
    GRIPPER_ACTION,
    ActionFace,
    GripperActions,
    TrajectoryServer,
)
from ur5_pick_place.nodes.sim.publishers import Publishers
from ur5_pick_place.nodes.sim.services import Services, serve_dashboard, serve_simulation
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.sim.controllers.controller_manager import (
    IO_AND_STATUS,
    PASSTHROUGH,
    SCALED,
    UNSCALED,
)
from ur5_pick_place.sim.driver import Driver, DriverSettings
from ur5_pick_place.sim.grippers import ACTION
from ur5_pick_place.sim.physics.scene_boxes import load_boxes, load_table_height
from ur5_pick_place.sim.physics.world import CellSettings, World
from ur5_pick_place.sim.robot import ContactSettings

_MONITOR_PERIOD = 0.05  # [s], the driver's action_monitor_rate
_END = 1.0  # [s] of wall-clock time within which a cycle ends on any machine
# Servers that no other node may offer. One service stands for the whole dashboard, one for all of
# `sim_driver/`: every simulated driver offers these.
_SERVED = (
    *('controller_manager/list_controllers', 'controller_manager/switch_controller'),
    *(f'{IO_AND_STATUS}/set_{what}' for what in ('io', 'analog_output', 'payload')),
    *(f'{IO_AND_STATUS}/{name}' for name in ('set_speed_slider', 'zero_ftsensor')),
    *(f'{IO_AND_STATUS}/{name}' for name in ('resend_robot_program', 'hand_back_control')),
    *(f'{name}/query_state' for name in (SCALED, UNSCALED)),
    *(
        f'{name}/follow_joint_trajectory/_action/send_goal'
        for name in (SCALED, UNSCALED, PASSTHROUGH)
    ),
    *('dashboard_client/play', 'sim_driver/clear_faults'),
)
_KILLED = 137  # exit code that a shell reports for SIGKILL
_CATCH_UP = 0.02  # [s] of wall-clock time that may be made good in a burst


@dataclass(frozen=True)
class SimDriverSettings(Settings):
    """What the node adds to the driver."""

    real_time_factor: float = setting(
        1.0, 'simulated seconds per wall second; clients keep up to about 3', low=0.05, high=5.0
    )
    publish_tf: bool = setting(True, 'publish the frames of the arm')
    scene_file: str = setting(
        '', 'scene file whose boxes are solid here, as for the planner, at its height; empty: none'
    )


class SimDriver(SerialNode):
    """World and driver, in a thread of their own, which holds the node's lock in each cycle."""

    def __init__(self) -> None:
        super().__init__('sim_driver')
        # Made before all else, as a signal may have it destroyed at any time.
        self._actions: list[ActionFace] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        cell, driver_settings, contact, own = declare_settings(
            self, CellSettings, DriverSettings, ContactSettings, SimDriverSettings
        )
        grips = [f'{GRIPPER_ACTION}/_action/send_goal'] if cell.gripper == ACTION else []
        refuse_if_served(self, [*_SERVED, *grips])
        scene = own.scene_file and config_file(own.scene_file)
        boxes = load_boxes(scene) if scene else ()
        world = World(cell, None, boxes, load_table_height(scene) if scene else 0.0)
        self._driver = driver = Driver(world, driver_settings, contact)
        self._period = world.cycle / own.real_time_factor
        self._topics = Publishers(self, driver, own.publish_tf)
        self._driver_services = Services(self, driver)
        serve_dashboard(self, driver)
        serve_simulation(self, driver)
        self._actions += [TrajectoryServer(self, driver, name) for name in driver.trajectory]
        self._gripper: GripperActions | None = None
        if driver.gripper_server:
            self._gripper = GripperActions(self, driver)
            self._actions.append(self._gripper)
        # The simulation wakes the executor with this: a Future must be completed from there.
        self._wake = self.create_guard_condition(self._monitor)
        self._arrival = self.create_guard_condition(self._deliver)
        self.context.on_shutdown(self._stop.set)
        self._thread.start()

    def destroy_node(self) -> None:
        """Stop simulating and serving goals, then the node."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_END)
        for face in self._actions:
            face.destroy()
        super().destroy_node()

    def _deliver(self) -> None:
        self._driver.link.to_driver.advance(self._driver.time)

    def _monitor(self) -> None:
        self._driver_services.monitor()
        for face in self._actions:
            face.monitor()

    def _run(self) -> None:
        try:
            self._cycle_until_stopped()
        except Exception:
            if self.context.ok():  # else publishing failed because of the shutdown
                text = traceback.format_exc()
                self.get_logger().fatal(f'the simulation has failed\n{text}')
                self.context.try_shutdown()

    def _cycle_until_stopped(self) -> None:
        due = time.monotonic()
        monitor_due = 0.0
        while not self._stop.is_set():
            time.sleep(max(0.0, due - time.monotonic()))
            with self.lock:
                self._driver.cycle()
            if self._driver.link.killed:
                os._exit(_KILLED)  # without a clean end: clients observe silence only
            self._topics.publish()
            if self._gripper:
                self._gripper.publish()
            if not self._driver.link.to_driver.is_empty:
                self._arrival.trigger()
            if self._driver.time >= monitor_due:
                monitor_due += _MONITOR_PERIOD
                self._wake.trigger()
            due = max(due + self._period, time.monotonic() - _CATCH_UP)


def main() -> None:
    """Run the node until it is shut down."""
    logging.basicConfig(level=logging.WARNING, format='[%(levelname)s] [%(name)s]: %(message)s')
    run_node(SimDriver)


if __name__ == '__main__':
    main()
