# SPDX-License-Identifier: Apache-2.0
"""
Whatever a person, a fault or an object does to the cell, in any order.

No motion after a stop before it is rearmed, a held part stays held, the first reason is kept, and
in the end the cell can be recovered. Hypothesis shrinks an order that fails. UR5_ORDERS=200 asks
for more orders.
"""

import contextlib
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lab.fault_matrix import MUST_STOP, START, TARGET
from lab.in_process import InProcessCell

from ur5_pick_place.control.motion_state import MotionState, parse_motion_state
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError
from ur5_pick_place.planning.scene.shapes import Cuboid
from ur5_pick_place.planning.scene.world import PlacedShape, SceneObject
from ur5_pick_place.sim.physics.world import upright

# The emergency stop takes the tool's power, which drops the part; the driver does not come back.
FAULTS = sorted(set(MUST_STOP) - {'emergency_stop', 'driver_killed'})
RECOGNISED = 0.7  # [s] from a fault to its stop; a running controller may be silent for 0.5 s
COMES_TO_REST = 1.5  # [s] from a stop until the arm is at rest
REST = 0.01  # [rad]
BUTTONS = ('unlock_protective_stop', 'brake_release', 'play')
STOP = 'stop requested'


class AnyOrder(RuleBasedStateMachine):
    """A cell that runs cycles while all else happens to it."""

    @initialize(under_way=st.floats(0.0, 9.0))
    def open(self, under_way):
        """Begin with a cycle that has run for some time."""
        self.cell = InProcessCell({})
        self.cell.teach(START, TARGET)
        self.cell.put_part(START)
        self.free = self.cell.planner.scene
        self.fault, self.fault_at, self.began = '', 0.0, 0.0
        self.reasons, self.since, self.rest = ('', ''), 0.0, None
        self.held = False
        self.cell.on_step = self.look
        self.run()
        self.cell.wait(under_way)

    # -- what is observed at every step ----------------------------------------------------------

    @property
    def stopped(self):
        """Why planner and task are stopped; empty texts if they are not."""
        state, reason = parse_motion_state(self.cell.manager.motion_state)
        return reason if state is MotionState.STOPPED else '', self.cell.stop_reason

    def look(self):
        cell, reasons = self.cell, self.stopped
        if any(reasons) and not any(self.reasons):
            self.since, self.rest, self.held = cell.time, None, cell.holds_part
        for before, now in zip(self.reasons, reasons, strict=True):
            assert before in ('', now), 'the first reason is kept'
        self.reasons = reasons
        if not any(reasons):
            self.held = False
        elif cell.time > self.since + COMES_TO_REST:
            self.rest = cell.q if self.rest is None else self.rest
            assert np.abs(cell.q - self.rest).max() < REST, f'moves after a stop: {reasons}'
        assert cell.holds_part or not self.held, f'dropped after a stop: {reasons}'

    @invariant()
    def a_fault_has_stopped_the_cell_for_its_reason(self):
        """Silence of io_states ends jobs alone."""
        since = self.fault_at
        if self.fault == 'io_states_silent':
            since = max(since, self.began) if self.cell.is_busy else np.inf
        if self.fault and self.cell.time > since + RECOGNISED:
            found = [why for why in self.stopped if re.search(MUST_STOP[self.fault], why)]
            assert found, f'{self.fault}: {self.stopped}'

    def refused_if_stopped(self, request):
        """Make a request, which may not be accepted while the cell is stopped or in freedrive."""
        must_refuse = any(self.stopped) or self.cell.station.machine.is_in_freedrive
        try:
            request()
        except Ur5PickPlaceError:
            return
        assert not must_refuse, 'accepted while stopped or in freedrive'
        self.began = self.cell.time

    # -- what happens ----------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0]))
    def wait(self, seconds):
        self.cell.wait(seconds)

    @rule()
    def run(self):
        machine, poses = self.cell.station.machine, self.cell.poses
        if not any(self.stopped) and machine.plan is None:
            with contextlib.suppress(Ur5PickPlaceError):
                machine.make_plan(poses)
        self.refused_if_stopped(lambda: machine.start_run(poses))

    @rule(job=st.sampled_from(['go_home', 'open_gripper', 'init_gripper']))
    def start(self, job):
        self.refused_if_stopped(lambda: self.cell.start(job))

    @rule()
    def pause(self):
        with contextlib.suppress(Ur5PickPlaceError):
            self.cell.station.machine.pause()

    @rule()
    def resume(self):
        with contextlib.suppress(Ur5PickPlaceError):
            self.cell.station.machine.resume()

    @rule()
    def stop(self):
        before = self.stopped
        self.cell.stop()
        self.cell.station.machine.is_in_freedrive = False  # as the task node does
        assert self.stopped == tuple(reason or STOP for reason in before)
        if not any(before):
            self.fault = ''  # which may be latched too late to be the reason
        self.look()

    @rule()
    def rearm(self):
        if self.cell.rearm().ok:
            self.fault, self.reasons = '', ('', '')
            assert not any(self.stopped)
            self.look()

    @rule(name=st.sampled_from(FAULTS))
    def inject(self, name):
        """Inject a fault into a cell that neither has one nor is stopped."""
        if self.fault or any(self.stopped):
            return
        with contextlib.suppress(InvalidInput):
            self.cell.inject(name)
            self.fault, self.fault_at = name, self.cell.time

    @rule()
    def clear(self):
        """Clear a fault once it has been noticed, as a person does."""
        if not self.fault and self.cell.clear():
            for button in BUTTONS:
                self.cell.press(button)

    @rule(is_on=st.booleans())
    def freedrive(self, is_on):
        machine = self.cell.station.machine
        if not is_on or not (any(self.stopped) or machine.job_name or self.cell.manager.is_moving):
            machine.is_in_freedrive = self.cell.manager.status.is_in_freedrive = is_on

    @rule(x=st.floats(0.3, 0.55), y=st.floats(-0.3, 0.3), height=st.floats(0.05, 0.5))
    def put_object(self, x, y, height):
        box = PlacedShape(Cuboid((0.08, 0.08, height)), upright(x, y, height / 2, 0.0))
        world = self.free.world.with_object(SceneObject('box', np.eye(4), (box,)))
        self.cell.planner.set_scene(replace(self.free, world=world))
        self.cell.manager.stop_if_blocked()
        self.look()

    @rule()
    def take_object_away(self):
        self.cell.planner.set_scene(self.free)

    def teardown(self):
        """Recover the cell as a person does."""
        cell = getattr(self, 'cell', None)
        if cell is None:
            return
        self.take_object_away()
        self.freedrive(False)
        self.stop()
        cell.until(cell.clear, 10.0, 'the faults to be cleared')
        for button in BUTTONS:
            cell.until(lambda b=button: cell.press(b), 30.0, button)
        cell.until(lambda: cell.rearm().ok, 10.0, 'the cell to be rearmed')
        self.fault, self.reasons = '', ('', '')
        cell.wait(0.1)
        cell.start('go_home')
        cell.until(lambda: not cell.is_busy, 60.0, 'go_home')
        assert not cell.stop_reason, cell.stop_reason


TestAnyOrder = pytest.mark.timeout(3600)(pytest.mark.drill(AnyOrder.TestCase))
TestAnyOrder.settings = settings(
    max_examples=int(os.environ.get('UR5_ORDERS', '30')),
    stateful_step_count=20,
    derandomize='UR5_ORDERS' not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
