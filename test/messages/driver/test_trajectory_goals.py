# SPDX-License-Identifier: Apache-2.0
"""What a trajectory controller of the driver is sent, and what is made of its feedback."""

from types import SimpleNamespace

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from fake_graph import Graph
from rclpy.action import ActionServer
from stop_cell import turn
from trajectory_msgs.msg import JointTrajectory

from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.kinematics import HOME, JOINT_NAMES
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.nodes.driver.controller_goals import PASSTHROUGH
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.driver.trajectory_controller import TrajectoryController
from ur5_pick_place.nodes.messages.conversions import duration_to_msg

SCALED = 'scaled_joint_trajectory_controller'
NAMES = [f'left_{name}' for name in JOINT_NAMES]
MOTION = turn(2.0, 3.0)


class Bench:
    """A client of a controller, and that controller's server with one report of its feedback."""

    def __init__(self, graph: Graph, controller: str = SCALED) -> None:
        self.graph, self.other_driver = graph, SimpleNamespace(problem='', has_another=False)
        node = graph.begin('driver')
        self.server = ActionServer(
            node, FollowJointTrajectory, f'{controller}/follow_joint_trajectory', self._execute
        )
        self.controller = TrajectoryController(
            SimpleNamespace(
                node=graph.node,
                joint_names=NAMES,
                robot=SimpleNamespace(controller=controller),
                model=SimpleNamespace(cycle=CYCLE),
            ),
            ControllerManager(graph.node),
            TrackingSettings(),
            self.other_driver,
        )
        self.held: list[JointTrajectory] = []
        node.create_subscription(
            JointTrajectory, f'{controller}/joint_trajectory', self.held.append, 1
        )
        self.requests: list[FollowJointTrajectory.Goal] = []
        self.times: list[tuple[float, float]] = []
        graph.until(lambda: not self.controller.why_unavailable)

    def _execute(self, goal) -> FollowJointTrajectory.Result:
        self.requests.append(goal.request)
        goal.publish_feedback(self.feedback)
        goal.succeed()
        return FollowJointTrajectory.Result()

    def on_feedback(self, _goal, stamp: float, t: float) -> None:
        self.times.append((stamp, t))

    def on_answer(self, *_: object) -> None:
        pass

    on_result = on_answer

    def heard(self, t: float, reported: float, names=NAMES) -> float:
        """Return the time in the motion that is heard of a controller that is at `t` [s]."""
        self.feedback = FollowJointTrajectory.Feedback(joint_names=names)
        self.feedback.header.stamp.sec = 7
        q = MOTION.sample(t)[0]
        self.feedback.desired.positions = [q[NAMES.index(n)] for n in names if n in NAMES]
        self.feedback.desired.time_from_start = duration_to_msg(reported)
        self.times.clear()
        self.controller.send(
            SimpleNamespace(
                id=bytes(15) + bytes([round(9 * t)]),
                trajectory=MOTION,
                prepared=self.controller.prepare(MOTION),
                begin=0.0,
            ),
            self,
        )
        self.graph.until(lambda: self.times)
        ((stamp, at),) = self.times
        assert stamp == 7.0
        return at


def test_the_time_is_that_of_the_desired_joints_also_if_humble_reports_the_next_point(graph):
    bench = Bench(graph)
    for t in (0.2, 1.111, 1.5, 2.9):
        assert bench.heard(t, t) == pytest.approx(t, abs=1e-6)
    for t, names in ((0.5, NAMES), (1.3, NAMES[::-1])):
        following = MOTION.t[np.searchsorted(MOTION.t, t)]
        assert bench.heard(t, following, names) == pytest.approx(t, abs=1e-4)
    for t, names in ((1.0, NAMES[:5]), (1.8, ['finger', *NAMES[:5]])):
        assert bench.heard(t, t + 0.05, names) == pytest.approx(t + 0.05), 'of other joints'


@pytest.mark.parametrize(('controller', 'n'), [(PASSTHROUGH, 0), (SCALED, 6)])
def test_a_goal_for_the_passthrough_controller_has_no_tolerances(graph, controller, n):
    bench = Bench(graph, controller)
    bench.heard(1.0, 1.0)
    (request,) = bench.requests
    assert (len(request.path_tolerance), len(request.goal_tolerance)) == (n, n)


def test_a_hold_is_sent_to_one_driver_and_not_beside_another(graph):
    """Its joints may be of the other arm."""
    bench = Bench(graph)

    def hold(seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            bench.controller.hold(HOME)
            graph.spin(0.05)

    bench.other_driver.has_another = True
    hold(0.5)
    assert not bench.held
    bench.other_driver.has_another = False
    hold(0.5)
    np.testing.assert_allclose(bench.held[0].points[0].positions, HOME)
