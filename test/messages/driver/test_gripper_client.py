# SPDX-License-Identifier: Apache-2.0
"""The client of a gripper's action against the simulated Robotiq's node, with ideal fingers."""

import math
import time
from types import SimpleNamespace

import pytest
import rclpy
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.driver.gripper_client import GripperClient, position_in
from ur5_pick_place.nodes.pick_place.settings import chosen_gripper
from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.sim.actions import GripperActions
from ur5_pick_place.outcome import DONE
from ur5_pick_place.sim.gripper_server import GripperFault, GripperServer
from ur5_pick_place.sim.grippers import GRIPPER_COMMAND, PARALLEL
from ur5_pick_place.sim.physics.hand import OPEN_GAP
from ur5_pick_place.task.grippers.action import ActionSettings
from ur5_pick_place.task.job import MoveGripper

CLOSE, OPEN = MoveGripper(0.8, 50.0, 1.0), MoveGripper(0.0, 50.0, 1.0)
STEP = 0.002  # [m] of the fingers in a tick; slow, as a busy PC takes 15 ticks for a cancel


class Fingers:
    """Fingers that go where they are told, unless a part of some width [m] is between them."""

    def __init__(self):
        self.gap, self.wanted, self.part = OPEN_GAP, OPEN_GAP, 0.0

    def move_to(self, gap):
        self.wanted = gap

    def tick(self):
        way = max(self.wanted, self.part) - self.gap
        self.gap += min(max(way, -STEP), STEP)


class Bench:
    """Client and server as nodes of one process; `replies` are those to the client's goals."""

    def __init__(self, graph, kind):
        self.graph, self.replies, self.fingers = graph, [], Fingers()
        ours = graph.node
        self.core = GripperServer(self.fingers, kind)
        self.driver = SimpleNamespace(time=0.0, gripper_server=self.core)
        self.server = GripperActions(graph.begin('theirs'), self.driver)
        settings = ActionSettings(gripper_action_type=kind)
        self.client = GripperClient(ours, settings, lambda: 0.008, 0.5)
        self.joints = ours.create_publisher(JointState, 'joint_states', 10)

    def send(self, command):
        self.client.send(command, self.replies.append)

    def until(self, condition, what, wall=10.0):
        end = time.monotonic() + wall
        while not condition():
            assert time.monotonic() < end, f'timed out waiting for {what}'
            self.driver.time += 0.02
            self.fingers.tick()
            self.core.update(self.driver.time, True)
            self.server.publish()
            self.server.monitor()
            self.graph.executor.spin_once(timeout_sec=0.01)

    def ended(self, command):
        """Send a goal; return the report of its end."""
        self.send(command)
        self.until(lambda: self.replies, 'the reply')
        assert self.replies.pop() == DONE
        self.until(lambda: (r := self.client.view().report) and r.ended, 'the end')
        return self.client.view().report


@pytest.fixture(params=[GRIPPER_COMMAND, PARALLEL])
def bench(graph, request):
    bench = Bench(graph, request.param)
    with graph.node.reader.running(print):
        bench.until(lambda: bench.client.view().is_there, 'the server')
        yield bench
    bench.server.destroy()


@pytest.mark.parametrize(
    ('given', 'said'),
    [
        ({'gripper': 'action', 'close_pin': 3}, 'close_pin is a parameter of gripper: digital'),
        ({'max_effort': 3.0}, 'max_effort is a parameter of gripper: action, and this is gripper'),
        ({'gripper': 'robotiq'}, "gripper = 'robotiq': must be one of digital, vacuum, action"),
    ],
)
def test_a_node_refuses_another_grippers_parameter_by_name(graph, given, said):
    overrides = [rclpy.Parameter(name, value=value) for name, value in given.items()]
    graph.nodes.append(rclpy.create_node('pick_place', parameter_overrides=overrides))
    with pytest.raises(InvalidInput, match=said):
        chosen_gripper(graph.nodes[-1])


def test_either_type_of_action_stalls_on_a_part_reaches_and_shows_its_joint(bench):
    bench.fingers.part = 0.045
    gripped = bench.ended(CLOSE)
    assert gripped.stalled and gripped.ended == 'succeeded'
    assert gripped.position == pytest.approx(25 / 68 * 0.8, abs=0.02) and gripped.target == 0.8
    bench.until(lambda: bench.client.view().is_still, 'the joint to rest')
    assert bench.client.view().position == pytest.approx(gripped.position, abs=0.01)
    bench.fingers.part = 0.0
    opened = bench.ended(OPEN)
    assert not opened.stalled and opened.position == pytest.approx(0.0, abs=0.01)
    for state in ({'position': []}, {'position': [float('nan')]}):
        bench.joints.publish(JointState(name=['robotiq_85_left_knuckle_joint'], **state))
    bench.joints.publish(JointState(name=['shoulder_pan_joint'], position=[1.0]))
    opened = bench.ended(OPEN)  # malformed states and those of the arm change nothing
    assert not opened.stalled and opened.position == pytest.approx(0.0, abs=0.01)


def test_a_joint_whose_name_contains_the_grippers_does_not_hide_it(bench):
    joint = 'robotiq_85_left_knuckle_joint'
    states = (
        JointState(name=[name], position=[x]) for name, x in ((joint, 0.3), (f'x{joint}', 0.7))
    )
    bench.client.on_joint_states(
        [TakenMessage(serialize_message(state), 0, 0, b'') for state in states]
    )
    assert bench.client.view().position == 0.3


@pytest.mark.parametrize(
    ('names', 'positions', 'position'),
    [
        (['spring', 'finger'], [0.1, 0.4], 0.4),
        ([], [0.4], 0.4),  # a result need not name its joints
        (['left_finger'], [0.4], 0.4),
        (['spring', 'finger'], [0.1], math.nan),
        ([], [], math.nan),
    ],
)
def test_the_position_in_a_result_is_that_of_our_joint_where_it_is_named(
    names, positions, position
):
    found = position_in(JointState(name=names, position=positions), 'finger')
    assert found == pytest.approx(position, nan_ok=True)


def test_a_goal_that_is_refused_or_has_no_server_is_answered(bench):
    bench.core.faults.add(GripperFault.REJECTS)
    bench.send(CLOSE)
    bench.until(lambda: bench.replies, 'the reply')
    assert 'gripper_cmd rejected the goal of position 0.8' in bench.replies.pop().reason
    bench.core.faults.add(GripperFault.GONE)
    bench.until(lambda: not bench.client.view().is_there, 'the server to go')
    bench.send(CLOSE)
    assert 'is not there' in bench.replies.pop().reason


def test_a_goal_accepted_after_its_timeout_is_canceled_and_stops_the_fingers(bench):
    bench.core.faults.add(GripperFault.SILENT)
    bench.send(CLOSE)
    begin = time.monotonic()
    bench.until(lambda: time.monotonic() > begin + 1.2, 'the time to be over')
    assert bench.replies == []
    bench.core.faults.clear()
    bench.until(lambda: bench.core.is_moving, 'the late goal')
    bench.until(lambda: not bench.core.is_moving, 'its cancellation')
    assert bench.fingers.gap > 0.03 and bench.client.view().report is None
    assert not bench.ended(OPEN).stalled
