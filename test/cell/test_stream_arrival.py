# SPDX-License-Identifier: Apache-2.0
"""
Jogs and closed loops whose messages arrive up to two cycles late, by chance.

On either generation of the trajectory controller and at either rate the commanded joints stay
within the limits on acceleration.

"""

from functools import partial

import numpy as np
import pytest
from lab.in_process import InProcessCell
from lab.in_process_ports import ControllerPort

from ur5_pick_place.control.loops.jog_velocity import JointVelocity
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import loop_of, plan_roll_out
from ur5_pick_place.demo.spots import default_spots
from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.kinematics import HOME, forward
from ur5_pick_place.outcome import DONE
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.sim.controllers.controller_manager import SCALED

LATE = 2  # cycles at most
GENERATIONS = pytest.mark.parametrize('generation', ['restart', 'splice'])
RATES = pytest.mark.parametrize('ur_type', ['ur5', 'ur5e'])  # 125 and 500 Hz
SPEED = 1.0  # [rad/s]


def ready_cell(generation, ur_type='ur5'):
    cell = InProcessCell(
        {'trajectory_replacement': generation, 'ur_type': ur_type, 'arrival_jitter': LATE}
    )
    cell.teach(*default_spots(ur_type))
    return cell


def commands_of(cell):
    """Return the list to which every command of the controller is added from now on."""
    sent = []

    def look():
        tracking = cell.driver.trajectory[SCALED].tracking
        if tracking is not None:
            sent.append(tracking.output)

    cell.on_step = look
    return sent


def largest_share(cell, sent):
    """Return the largest acceleration in commands as a fraction of the joints' limits."""
    acceleration = np.diff(np.array(sent), 2, axis=0) / cell.driver.period**2
    return (np.abs(acceleration) / cell.planner.limits.qdd).max()


def jog(cell):
    """Turn the first joint to and fro, and return the commands."""
    sent = commands_of(cell)
    for turn in (SPEED, -SPEED):
        for _ in range(20):
            cell.jog(JointVelocity(turn * np.eye(6)[0]))
            cell.wait(0.02)
    cell.wait(0.8)
    assert np.ptp(sent, axis=0)[0] > 0.1
    return sent


@GENERATIONS
@RATES
def test_a_jog_keeps_its_limits_however_late_its_messages_are(generation, ur_type):
    cell = ready_cell(generation, ur_type)
    sent = jog(cell)
    assert largest_share(cell, sent) < 1.0
    assert cell.manager.motion_state == 'ready'


@GENERATIONS
@RATES
@pytest.mark.parametrize(
    'method', ['resolved_rate', pytest.param('gradient', marks=pytest.mark.drill)]
)
def test_a_closed_loop_keeps_its_limits_however_late_its_messages_are(
    generation, ur_type, method
):
    """Also where some of them are lost."""
    cell, ends, settings = ready_cell(generation, ur_type), [], LoopSettings()
    planner, T_goal = cell.station.planner, forward(cell.model, HOME)
    T_goal[:3, 3] += [-0.05, 0.08, -0.04]
    plan = plan_roll_out(planner, method, HOME, T_goal, Scaling(), settings)
    make = partial(loop_of, planner, method, plan.trajectory, settings)
    cell.driver.link.to_driver.loss = 0.1
    sent = commands_of(cell)
    cell.manager.start_loop(make, plan.trajectory, ends.append)
    cell.until(lambda: bool(ends), 20.0, 'the end of the loop')
    assert ends == [DONE]
    assert largest_share(cell, sent) < 1.0
    assert np.linalg.norm(forward(cell.model, cell.q)[:3, 3] - T_goal[:3, 3]) < 0.3e-3


def test_a_stream_would_step_on_a_controller_that_splices(monkeypatch):
    monkeypatch.setattr(ControllerPort, 'why_no_stream', '')
    cell = ready_cell('splice')
    assert largest_share(cell, jog(cell)) > 10.0


def test_a_controller_that_refuses_to_restart_gets_no_stream_but_motions(monkeypatch):
    monkeypatch.setattr(ControllerPort, 'why_no_stream', 'it splices and refuses y = false (z)')
    cell, ends = ready_cell('splice'), []
    planner, T_goal = cell.station.planner, forward(cell.model, HOME)
    T_goal[2, 3] -= 0.05
    motions = cell.controller.motions
    with pytest.raises(ExecutionError, match=r'motion refused: .*refuses y = false \(z\)'):
        cell.jog(JointVelocity(np.eye(6)[0]))
    plan = plan_roll_out(planner, 'resolved_rate', HOME, T_goal, Scaling(), LoopSettings())
    make = partial(loop_of, planner, 'resolved_rate', plan.trajectory, LoopSettings())
    with pytest.raises(ExecutionError, match=r'motion refused: .*refuses y = false \(z\)'):
        cell.manager.start_loop(make, plan.trajectory, ends.append)
    cell.wait(0.2)
    assert cell.controller.motions == motions and cell.manager.motion_state == 'ready'
    cell.manager.start(planner.ptp(HOME, HOME + 0.1).trajectory, ends.append)
    cell.until(lambda: bool(ends), 10.0, 'the end of the motion')
    assert ends == [DONE]
