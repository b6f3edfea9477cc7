# SPDX-License-Identifier: Apache-2.0
"""ur_rtde, unmodified, on the simulated controller; the cell's physics are the judge."""

import time

import numpy as np
import pytest

rtde_control = pytest.importorskip('rtde_control', reason='ur-rtde: make bench installs it')
from rtde_io import RTDEIOInterface  # noqa: E402
from rtde_receive import RTDEReceiveInterface  # noqa: E402

pytest.importorskip('mujoco')
from ur5_pick_place.sim.controller.process import RunningController  # noqa: E402

pytestmark = pytest.mark.nodes
BOUND = 60.0  # [s] for anything to become true
DOWN = (0.0, np.pi, 0.0)  # rotation vector of a tool that points down
LENGTH = 0.145  # [m] from flange to fingertips


@pytest.fixture(params=['ur5', 'ur5e'])
def robot(request):
    with RunningController('--ur-type', request.param) as controller:
        yield controller


def wait_until(is_true):
    until = time.monotonic() + BOUND
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_it_grips_the_cube_and_lifts_it(robot):
    control = rtde_control.RTDEControlInterface(robot.host)
    io = RTDEIOInterface(robot.host)
    assert control.setTcp([0.0, 0.0, LENGTH, 0.0, 0.0, 0.0]) and control.setPayload(0.5, [0, 0, 0])
    x, y, z = robot.state()['part']
    above = [-x, -y, z + 0.1, *DOWN]  # the controller's base is turned by pi
    at = [-x, -y, z, *DOWN]
    assert control.moveJ_IK(above, 1.0, 1.0) and control.moveL(at, 0.2, 0.5)
    assert io.setToolDigitalOut(0, True)
    wait_until(lambda: robot.state()['holds_part'])
    assert control.moveL(above, 0.2, 0.5)
    assert robot.state()['part'][2] == pytest.approx(z + 0.1, abs=0.01)
    assert robot.state()['payload'] == 0.5


def test_speeds_servo_and_stops(robot):
    control = rtde_control.RTDEControlInterface(robot.host)
    receive = RTDEReceiveInterface(robot.host)
    q = np.array(robot.state()['q'])
    goal = q + [0.3, 0.1, -0.2, 0.1, 0.2, -0.3]
    assert control.moveJ(goal.tolist(), 1.0, 1.4)
    np.testing.assert_allclose(robot.state()['q'], goal, atol=2e-3)
    np.testing.assert_allclose(receive.getActualQ(), robot.state()['q'], atol=2e-3)
    assert control.speedJ([0.0, 0.0, 0.0, 0.0, 0.0, 0.2], 1.0)
    wait_until(lambda: receive.getActualQd()[5] == pytest.approx(0.2, abs=0.01))
    assert control.speedStop()
    wait_until(lambda: abs(receive.getActualQd()[5]) < 1e-3)
    q = np.array(robot.state()['q'])
    for k in range(50):
        assert control.servoJ((q + 0.001 * k).tolist(), 0.0, 0.0, 0.008, 0.1, 300.0)
        time.sleep(0.008)
    goal = (q + 0.05).tolist()

    def is_there():
        assert control.servoJ(goal, 0.0, 0.0, 0.008, 0.1, 300.0)
        return np.allclose(robot.state()['q'], goal, atol=2e-3)

    wait_until(is_there)
    assert control.servoStop()
    assert np.allclose(robot.state()['q'], goal, atol=5e-3)


def test_a_protective_stop_ends_the_script_and_it_is_uploaded_again(robot):
    control = rtde_control.RTDEControlInterface(robot.host)
    receive = RTDEReceiveInterface(robot.host)
    q = robot.state()['q']
    goal = [q[0] + 1.0, *q[1:]]
    assert control.moveJ(goal, 0.3, 0.5, True)
    wait_until(lambda: robot.state()['q'][0] > q[0] + 0.05)
    robot.tell('protective_stop')
    wait_until(receive.isProtectiveStopped)
    wait_until(lambda: max(map(abs, receive.getActualQd())) < 1e-3)
    assert robot.state()['q'][0] < q[0] + 0.9
    wait_until(lambda: not control.isProgramRunning())
    robot.tell('unlock')
    wait_until(lambda: not receive.isProtectiveStopped())
    assert control.reuploadScript()
    wait_until(control.isProgramRunning)
    assert control.moveJ(q, 1.0, 1.4)
    control.disconnect()
    assert control.reconnect()
    wait_until(control.isProgramRunning)
    assert control.moveJ(goal, 1.0, 1.4)
    assert robot.state()['q'][0] == pytest.approx(goal[0], abs=2e-3)
    control.stopScript()
    wait_until(lambda: not robot.state()['program'])
