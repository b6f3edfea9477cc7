# SPDX-License-Identifier: Apache-2.0
"""The driver's trajectory controller: goals, streams, and what keeps it from taking them."""

import math
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory
from unique_identifier_msgs.msg import UUID

from ur5_pick_place.control.controller import Goal, GoalListener
from ur5_pick_place.control.loops.splicing import gap_form, has_gap, next_segment
from ur5_pick_place.control.loops.stream import TrajectorySegment
from ur5_pick_place.control.motion_monitor import TrackingSettings
from ur5_pick_place.errors import one_line
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.driver.controller_goals import PASSTHROUGH, ControllerGoals
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.driver.driver_link import GOAL
from ur5_pick_place.nodes.driver.one_driver import OneDriver
from ur5_pick_place.nodes.messages.conversions import (
    duration_to_msg,
    time_to_msg,
    to_seconds,
    trajectory_to_msg,
)
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.planning.paths.trajectory import Trajectory, hold_trajectory

_SHOWN_GOALS = 10  # that wait for a slow recorder
_LINK = 0.0005  # [s] from here to the driver

_STATUS = {
    GoalStatus.STATUS_ABORTED: 'aborted',
    GoalStatus.STATUS_CANCELED: 'canceled by another client',
}

SPLICES = 'allow_trajectory_replacement'
"""Parameter of joint_trajectory_controller after 6.9; older ones do not have it."""

# [s, steady clock] between two readings, as someone else may set it; a reply is lost if the
# server does not know this client yet.
_PERIOD = 0.5


class Replacement:
    """
    Keeps the controller from joining a new trajectory to the running one.

    joint_trajectory_controller after 6.9 does so by default: it starts a trajectory whose stamp
    has passed at its first point, as if it were new, so that each message of a stream is a step of
    the arm by as many cycles as its arrival was predicted wrong. With the parameter set to false,
    and in older versions, a trajectory begins at its stamp, whenever it arrives.

    - `why_no_stream`: why the controller cannot follow a stream; empty if it can
    """

    def __init__(self, node: Node, controller: str) -> None:
        self._node, self._controller = node, controller
        get: Client[Any, Any] = node.create_client(
            GetParameters, f'{controller}/get_parameters'
        )
        change: Client[Any, Any] = node.create_client(
            SetParameters, f'{controller}/set_parameters'
        )
        self._get, self._set = RepeatedCall(get, _PERIOD), RepeatedCall(change, _PERIOD)
        self._waiting = (
            f'jogs and closed loops wait for {get.srv_name} to report {SPLICES}: check that '
            'the driver is running and the parameter "controller"'
        )
        self._was_set, self.why_no_stream = False, self._waiting

    def update(self) -> None:
        """Read the parameter if it is time to; to be called repeatedly."""
        if not self._get.is_there:
            self._forget()
            return
        request = GetParameters.Request(names=[SPLICES])
        if self._get.send_if_due(request, self._on_value, _PERIOD):
            self._set.forget()

    def _forget(self) -> None:
        """Begin anew: a controller that is loaded again has the value of its file."""
        self._get.forget()
        self._set.forget()
        self._was_set, self.why_no_stream = False, self._waiting

    def _on_value(self, reply: GetParameters.Response) -> None:
        splices = any(
            value.type == ParameterType.PARAMETER_BOOL and value.bool_value
            for value in reply.values
        )
        if not splices:
            self.why_no_stream, self._was_set = '', False
        elif self._was_set:
            self._refuse('it still reads true after it was set')
        else:
            value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=False)
            request = SetParameters.Request(parameters=[Parameter(name=SPLICES, value=value)])
            self._set.send(request, self._on_set)

    def _on_set(self, reply: SetParameters.Response) -> None:
        if not (reply.results and reply.results[0].successful):
            self._refuse(one_line(reply.results[0].reason) if reply.results else '')
            return
        self._node.get_logger().info(
            f'{self._controller}: set {SPLICES} to false; jogs and closed loops need it'
        )
        self._was_set = True
        self._get.forget()  # to read it again at once

    def _refuse(self, reason: str) -> None:
        self._was_set = False
        why = (
            f'{self._controller} joins each trajectory of a jog or closed loop to the last one '
            f'with a step, and refuses {SPLICES} = false ({reason or "no reason given"}): set it '
            'to false in the parameter file of the controllers'
        )
        if why != self.why_no_stream:
            self._node.get_logger().error(why)
        self.why_no_stream = why


class TrajectoryController(ControllerGoals):
    """The driver's trajectory controller, its action and topic, as `controller.Controller`."""

    def __init__(
        self,
        cell: Cell,
        controllers: ControllerManager,
        tracking: TrackingSettings,
        driver: OneDriver,
    ) -> None:
        super().__init__(cell, controllers)
        self._driver, self._cycle = driver, cell.model.cycle
        node, controller = cell.node, cell.robot.controller
        self._name = f'{controller}/follow_joint_trajectory'
        self._tracking = tracking
        self._has_tolerances = controller != PASSTHROUGH
        self._client: ActionClient[Any, Any, Any] = ActionClient(
            node,
            FollowJointTrajectory,
            self._name,
            goal_service_qos_profile=GOAL,
        )
        self._topic = node.create_publisher(JointTrajectory, f'{controller}/joint_trajectory', 1)
        # A bag does not record the goals of an action, so that each is published here too.
        self._sent_goal = node.create_publisher(
            JointTrajectory, '~/sent_goal', _SHOWN_GOALS
        )
        self._replacement = Replacement(node, controller)
        self._clock = node.get_clock()

    @property
    def why_unavailable(self) -> str:
        self._replacement.update()
        if self._client.server_is_ready():
            return ''
        return (
            f'action server {self._name} is not there: check that the driver is running and '
            'the parameter "controller"'
        )

    @property
    def why_no_stream(self) -> str:
        return self._replacement.why_no_stream

    @property
    def conflict(self) -> str:
        return self._driver.problem

    def prepare(self, trajectory: Trajectory) -> JointTrajectory:
        return trajectory_to_msg(trajectory, self._joint_names)

    def may_replace(self, points: Array, stamp: float) -> bool:
        splices = bool(self._replacement.why_no_stream)
        return not splices or has_gap(points, self._arrival(stamp), self._cycle)

    def send(self, goal: Goal, listener: GoalListener) -> None:
        trajectory = goal.prepared
        if goal.begin > 0.0:
            trajectory = self._begun(goal.segment, goal.replaced)
        request = FollowJointTrajectory.Goal(trajectory=trajectory)
        # Passthrough has no path tolerance, and takes a velocity tolerance of 0 literally: any
        # motion left at the end would abort the goal. Our own monitor proves the arrival.
        if self._has_tolerances:
            request.path_tolerance = self._tolerances(self._tracking.path_tolerance)
            request.goal_tolerance = self._tolerances(self._tracking.goal_tolerance)
        request.goal_time_tolerance = duration_to_msg(self._tracking.goal_time)
        # With the manager's lock held, 10 ms for 1,000 points: a stop waits for that here, and is
        # obeyed meanwhile by pick_place, which cancels by itself.
        reply = self._client.send_goal_async(
            request,
            lambda message: self._report_feedback(goal, message.feedback, listener),
            UUID(uuid=list(goal.id)),
        )
        reply.add_done_callback(lambda future: _report_answer(goal, future.result(), listener))
        if self._sent_goal.get_subscription_count():
            self._sent_goal.publish(request.trajectory)

    def follow(self, segment: TrajectorySegment) -> None:
        self._topic.publish(self._begun(segment))

    def hold(self, q: Array) -> None:
        if self._driver.has_another:
            return  # the joints may be another arm's, and this one would jump to them
        self._topic.publish(trajectory_to_msg(hold_trajectory(q), self._joint_names))

    def _begun(
        self, segment: TrajectorySegment, replaced: Array | None = None
    ) -> JointTrajectory:
        """Return the message of a motion that began at a stamp; `replaced` as in `Goal`."""
        arrival = self._arrival(segment.stamp)
        trajectory, passed = segment.trajectory, 0.0
        if replaced is not None and self._replacement.why_no_stream:  # it splices
            stamp, passed = gap_form(segment, replaced, arrival, self._cycle)
        else:
            trajectory, stamp = next_segment(segment, arrival)
        message = trajectory_to_msg(trajectory, self._joint_names, passed)
        message.header.stamp = time_to_msg(stamp)
        return message

    def _arrival(self, stamp: float) -> float:
        """Return the first cycle [s] that may take what is sent now; `stamp` is that of one."""
        # The controller's cycles are in step with the stamps of joint_states.
        wait = self._clock.now().nanoseconds * 1e-9 + _LINK - stamp
        return stamp + self._cycle * math.ceil(wait / self._cycle)

    def _report_feedback(
        self, goal: Goal, feedback: FollowJointTrajectory.Feedback, listener: GoalListener
    ) -> None:
        t, positions = to_seconds(feedback.desired.time_from_start), feedback.desired.positions
        # Humble's controller gives the time of the next point: a motion that brakes from there
        # would step ahead by up to the distance of two points.
        names = list(feedback.joint_names)
        if len(positions) == len(names) and sorted(names) == sorted(self._joint_names):
            q = np.array(positions)[[names.index(name) for name in self._joint_names]]
            t = goal.trajectory.time_near(t, q)
        listener.on_feedback(goal, to_seconds(feedback.header.stamp), t)

    def _tolerances(self, position: float) -> list[JointTolerance]:
        return [JointTolerance(name=n, position=position) for n in self._joint_names]


def _report_answer(goal: Goal, handle: Any, listener: GoalListener) -> None:
    listener.on_answer(goal, handle.accepted)
    if handle.accepted:
        handle.get_result_async().add_done_callback(
            lambda future: _report_result(goal, future.result(), listener)
        )


def _report_result(goal: Goal, reply: Any, listener: GoalListener) -> None:
    # A canceled goal also carries error code 0: success needs both status and code.
    if reply.status == GoalStatus.STATUS_SUCCEEDED and reply.result.error_code == 0:
        listener.on_result(goal, DONE)
        return
    what = _STATUS.get(reply.status, f'ended with status {reply.status}')
    why = one_line(reply.result.error_string) or 'no reason given'
    reason = f'goal {what} (code {reply.result.error_code}: {why})'
    listener.on_result(goal, Outcome.failed(reason))
