# SPDX-License-Identifier: Apache-2.0
"""
Serve inverse and forward kinematics: all eight analytic branches, by name.

Services, with MoveIt's names and types:

- compute_ik: the solution nearest to a seed (moveit_msgs/srv/GetPositionIK)
- compute_ik_all: every branch at once; each joint is named `<branch>/<joint>`, best branch first,
  and the message gives the reasons of missing ones (same type)
- compute_fk: the pose of joints (moveit_msgs/srv/GetPositionFK)
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from moveit_msgs.msg import MoveItErrorCodes
from moveit_msgs.srv import GetPositionFK, GetPositionIK
from rclpy.qos import QoSProfile
from visualization_msgs.msg import MarkerArray

from ur5_pick_place.errors import CollisionCheckUnavailable, InvalidRobotState
from ur5_pick_place.kinematics import Model, Solution
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell, make_cell
from ur5_pick_place.nodes.cell.robot_settings import GroupSettings, RobotSettings
from ur5_pick_place.nodes.driver.joint_listener import JointListener, Joints
from ur5_pick_place.nodes.ik_service.requests import Answer, IkRequests
from ur5_pick_place.nodes.messages.conversions import fill_code, success
from ur5_pick_place.nodes.messages.lines import ghosts
from ur5_pick_place.nodes.messages.refusals import refusal
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.parameters import declare_settings
from ur5_pick_place.nodes.ros.process import refuse_if_served, run_node
from ur5_pick_place.nodes.ros.service_calls import wait_until
from ur5_pick_place.nodes.scene.planning_scene import SceneFollower
from ur5_pick_place.nodes.tf.frames import StampSettings
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.world import AttachedObject, World

if TYPE_CHECKING:
    from ur5_pick_place.planning.collision.collision import CollisionModel

# [s] between two polls of the joints, besides one for each request; each poll delays requests
_PERIOD = 0.02
_PRESENT = 2.0  # [s] of silence after which the arm's joints count as unknown
_READING = 5.0  # [s] at most, for a new scene to be in use
# ROS keeps 10 requests: of hundreds that a client sends at once the others would get no answer.
_MANY = QoSProfile(depth=5000)
_SERVED = ('compute_ik', 'compute_ik_all', 'compute_fk')


class IkService(SerialNode):
    """Serves IK and FK; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__('ik_service')
        robot, groups, stamps = declare_settings(
            self, RobotSettings, GroupSettings, StampSettings
        )
        cell = make_cell(self, robot, stamps)
        self._model, self._names, self._frames = cell.model, cell.joint_names, cell.frames
        self._q: Array | None = None
        self._bad_joints = ''
        self._received = 0.0  # steady clock [s]
        self._requests = IkRequests(
            cell, groups, self._recent_joints, self._follow_scene(cell)
        )
        self._listener = JointListener(
            self,
            self._names,
            self._on_joints,
            self._on_bad_joints,
            _PERIOD,
            with_velocities=False,
        )
        self._listener.record_in(self._frames.joints)
        self._markers = self.create_publisher(MarkerArray, 'ik_markers', 1)
        refuse_if_served(self, _SERVED)
        for name, fill in (('compute_ik', self._fill_best), ('compute_ik_all', self._fill_all)):
            answer = partial(self._answer, fill)
            self.create_service(GetPositionIK, name, answer, qos_profile=_MANY)
        self.create_service(GetPositionFK, 'compute_fk', self._fk, qos_profile=_MANY)

    def _follow_scene(self, cell: Cell) -> 'CollisionModel | None':
        """Return the collision model, or None, with a warning, where coal is missing."""
        make_model: Callable[[Model, Scene], CollisionModel] | None = None
        try:
            from ur5_pick_place.planning.collision.collision import collision_model
        except ImportError as error:
            self.get_logger().warning(f'avoid_collisions is switched off: {error}')
        else:
            make_model = collision_model

        def set_world(world: World, part: AttachedObject | None) -> None:
            scene = replace(cell.scene, world=world.with_attached(part) if part else world)
            model = make_model(cell.model, scene) if make_model else None
            self._requests.set_scene(scene.attached_ids, model, world.refusal)

        self._scene = SceneFollower(self, self._frames, set_world)
        return make_model(cell.model, cell.scene) if make_model else None

    def _on_joints(self, joints: Joints) -> None:
        self._q, self._bad_joints, self._received = joints.q, '', time.monotonic()

    def _on_bad_joints(self, problem: str) -> None:
        self._bad_joints, self._received = problem, time.monotonic()
        self.get_logger().warning(f'joint_states: {problem}', throttle_duration_sec=10.0)

    def _recent_joints(self) -> Array | None:
        self._listener.poll()
        if time.monotonic() - self._received >= _PRESENT:
            return None
        if self._bad_joints:
            raise InvalidRobotState(f'robot_state is empty, and {self._bad_joints}')
        return self._q

    async def _answer(
        self,
        fill: Callable[[GetPositionIK.Response, Answer], None],
        request: GetPositionIK.Request,
        response: GetPositionIK.Response,
    ) -> GetPositionIK.Response:
        try:
            wanted = request.ik_request
            await self._requests.wait_for_frame(wanted)
            if wanted.avoid_collisions or wanted.robot_state.attached_collision_objects:
                await self._wait_for_scene()
            answer = self._requests.solve(wanted)
        except Exception as error:
            response.error_code = refusal(self, error)
            return response
        fill(response, answer)
        if self._markers.get_subscription_count():
            self.begin(self._draw, answer.solutions)  # after the reply
        return response

    async def _wait_for_scene(self) -> None:
        """Wait until the scene received before this request is in use."""
        if not self._scene.is_current:
            await wait_until(self, lambda: self._scene.is_current, _READING)
            if not self._scene.is_current:
                raise CollisionCheckUnavailable(
                    f'the scene was not read within {_READING} s: try again, or simplify it'
                )

    def _fill_best(self, response: GetPositionIK.Response, answer: Answer) -> None:
        best = answer.solutions[0]
        _fill(response, best.q, self._names, best.branch)

    def _fill_all(self, response: GetPositionIK.Response, answer: Answer) -> None:
        solutions = answer.one_per_branch()
        names = [f'{s.branch}/{name}' for s in solutions for name in self._names]
        joints = np.concatenate([s.q for s in solutions])
        _fill(response, joints, names, answer.reasons())

    def _fk(
        self, request: GetPositionFK.Request, response: GetPositionFK.Response
    ) -> GetPositionFK.Response:
        try:
            response.pose_stamped = self._requests.poses(request)
        except Exception as error:
            response.error_code = refusal(self, error)
            return response
        now = self.get_clock().now().to_msg()
        for pose in response.pose_stamped:
            pose.header.stamp = now
        response.fk_link_names = list(request.fk_link_names) or [f'{self._frames.prefix}tool0']
        response.error_code = success()
        return response

    def _draw(self, solutions: list[Solution]) -> None:
        self._markers.publish(self._frames.prefixed(ghosts(self._model, solutions)))


def _fill(
    response: GetPositionIK.Response, q: Array, names: Sequence[str], message: str
) -> None:
    # In place: half the time of new messages.
    found = response.solution.joint_state
    found.name, found.position = names, q.tolist()
    fill_code(response.error_code, MoveItErrorCodes.SUCCESS, message)


def main() -> None:
    """Run the node until it is shut down."""
    run_node(IkService)
