# SPDX-License-Identifier: Apache-2.0
"""What a MoveIt planning request means for this arm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import Pose, Transform, Vector3
from moveit_msgs.msg import Constraints, MotionPlanRequest, PositionConstraint, RobotState
from moveit_msgs.srv import GetCartesianPath
from numpy.typing import NDArray

from ur5_pick_place.control.gradient import Gradient
from ur5_pick_place.control.loop_settings import LoopSettings
from ur5_pick_place.control.loops import plan_roll_out
from ur5_pick_place.control.resolved_rate import ResolvedRate
from ur5_pick_place.errors import IncompletePath, InvalidInput, InvalidRobotState, UnknownLink
from ur5_pick_place.kinematics import BRANCHES, branch_index, classify, forward
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.nodes.cell import GroupSettings
from ur5_pick_place.nodes.conversions import (
    joints_from_state,
    pose_to_matrix,
    transform_to_matrix,
)
from ur5_pick_place.nodes.distro import speed_limited_link
from ur5_pick_place.nodes.frames import Frames
from ur5_pick_place.planning.moves import ARC_KINDS, Move
from ur5_pick_place.planning.planner import MotionPlanner, Pace, PlannedMotion
from ur5_pick_place.planning.reach import JumpThresholds, look_along
from ur5_pick_place.settings import Settings, setting

PTP, LIN, CIRC = 'PTP', 'LIN', 'CIRC'
# The closed-loop methods by their planner_id.
_METHODS = {'RESOLVED_RATE': ResolvedRate.name, 'JACOBIAN_TRANSPOSE': Gradient.name}
PLANNER_IDS = (PTP, LIN, CIRC, *_METHODS)
_MAX_WAYPOINTS = 1000
_MAX_STEP = 0.01  # [m]; coarser steps than this could miss a singularity


@dataclass(frozen=True)
class CartesianSettings(Settings):
    """What compute_cartesian_path does with a path that ends early."""

    allow_partial_cartesian: bool = setting(
        False,
        'answer a path that cannot be followed to its end with the part up to there, its fraction '
        'and SUCCESS, as MoveIt does; false: all or nothing',
    )


class PlanRequests:
    """
    Turns requests into calls of a `MotionPlanner`.

    Parameters
    ----------
    planner : MotionPlanner
    frames : Frames
    joint_names : sequence of str
        With the prefix, in controller order.
    groups : GroupSettings
    settings : CartesianSettings
    loops : LoopSettings
    present_joints : callable
        Returns the measured joints (6,) [rad] or None.
    warn : callable
        Takes a line for the log.

    """

    def __init__(
        self,
        planner: MotionPlanner,
        frames: Frames,
        joint_names: Sequence[str],
        groups: GroupSettings,
        settings: CartesianSettings,
        loops: LoopSettings,
        present_joints: Callable[[], NDArray[np.float64] | None],
        warn: Callable[[str], object],
    ) -> None:
        self._planner, self._frames, self._names = planner, frames, list(joint_names)
        self._groups, self._settings, self._loops = groups, settings, loops
        self._present, self._warn = present_joints, warn

    def motion_plan(self, request: MotionPlanRequest) -> PlannedMotion:
        """Plan what GetMotionPlan asks; raises this package's errors."""
        self._groups.check_group(request.group_name)
        if not request.goal_constraints:
            raise InvalidInput('goal_constraints is empty: give joint, or position + orientation')
        q_start = self.start_joints(request.start_state)
        pace = self._pace(request)
        goal = request.goal_constraints[0]
        planner_id = self._planner_id(request.planner_id)
        if planner_id != CIRC:
            _refuse_path_constraints(request.path_constraints)
        if planner_id != PTP:
            arc = request.path_constraints if planner_id == CIRC else None
            method = _METHODS.get(planner_id, '')
            return self._cartesian(q_start, goal, arc, pace, method)
        if goal.joint_constraints:
            return self._planner.ptp(q_start, self._joint_goal(goal, q_start), pace)
        return self._planner.ptp_to_pose(q_start, self._pose_goal(goal), pace, goal.name)

    def cartesian_path(
        self, request: GetCartesianPath.Request
    ) -> tuple[PlannedMotion, IncompletePath | None]:
        """
        Plan what GetCartesianPath asks, with the reason why it is only a part of that, if so.

        Raises this package's errors, for a part too unless `allow_partial_cartesian` is set.

        """
        self._groups.check_group(request.group_name)
        _refuse_path_constraints(request.path_constraints)
        if not 1 <= len(request.waypoints) <= _MAX_WAYPOINTS:
            raise InvalidInput(
                f'{len(request.waypoints)} waypoints: must be 1 to {_MAX_WAYPOINTS}'
            )
        if not 0.0 <= request.max_step < np.inf:
            raise InvalidInput(f'max_step = {request.max_step} m: must be 0 (default) or positive')
        T_base_frame = self._frames.T_base_frame(request.header.frame_id)
        T_tool_link = self._frames.T_tool_link(request.link_name)
        T_link_tool = inverse_transform(T_tool_link)
        waypoints = [T_base_frame @ pose_to_matrix(p) @ T_link_tool for p in request.waypoints]
        pace = self._pace(request)
        jumps = JumpThresholds(
            request.jump_threshold,
            request.revolute_jump_threshold,
            request.prismatic_jump_threshold,
        )
        step = min(request.max_step or 0.002, _MAX_STEP)
        q_start, planner = self.start_joints(request.start_state), self._planner
        reach = look_along(
            planner.model, planner.collision, q_start, waypoints, step, T_tool_link, jumps
        )
        if reach.end and not (self._settings.allow_partial_cartesian and reach.end.fraction > 0.0):
            raise reach.end
        moves = [Move(T) for T in reach.T_waypoints]
        return planner.chain(q_start, moves, pace, step, T_tool_link), reach.end

    def start_joints(self, state: RobotState) -> NDArray[np.float64]:
        """Return the joints (6,) [rad] of a start state; the arm's own if it is empty."""
        if state.joint_state.name or state.joint_state.position:
            return joints_from_state(state.joint_state, self._names)
        present = self._present()
        if present is None:
            raise InvalidRobotState('no start state given and no joint_states heard yet')
        return present

    def _pace(self, request: MotionPlanRequest | GetCartesianPath.Request) -> Pace:
        """Return how fast a request wants to be; Humble's GetCartesianPath cannot say."""
        link = speed_limited_link(request)
        return Pace(
            getattr(request, 'max_velocity_scaling_factor', 0.0),
            getattr(request, 'max_acceleration_scaling_factor', 0.0),
            getattr(request, 'max_cartesian_speed', 0.0),
            self._frames.T_tool_link(link)[:3, 3] if link else None,
        )

    def _planner_id(self, planner_id: str) -> str:
        wanted = planner_id.upper()
        if wanted in PLANNER_IDS:
            return wanted
        self._warn(f'planner_id {planner_id!r} is not one of {", ".join(PLANNER_IDS)}: using PTP')
        return PTP

    def _cartesian(
        self,
        q_start: NDArray[np.float64],
        goal: Constraints,
        arc: Constraints | None,
        pace: Pace,
        method: str,
    ) -> PlannedMotion:
        """
        Plan a line, or an arc by a help point, of the link that the constraints name.

        With a `method` it is the roll-out of a closed loop, which leads the tool itself.

        """
        branch = BRANCHES[int(classify(self._planner.model, q_start))]
        if goal.name and goal.name != branch:
            raise InvalidInput(
                f'a line or arc stays on its branch: the start is on {branch}, the goal asks '
                f'for {goal.name}; change branch with PTP first'
            )
        if goal.joint_constraints:
            link = ''
            T_goal = forward(self._planner.model, self._joint_goal(goal, q_start))
        else:
            T_goal = self._pose_goal(goal)
            link = goal.position_constraints[0].link_name
        if method:
            return plan_roll_out(self._planner, method, q_start, T_goal, pace, self._loops)
        move = Move(T_goal)
        if arc is not None:
            move = Move(T_goal, help_point=self._help_point(arc), kind=arc.name)
            link = arc.position_constraints[0].link_name
        T_tool_link = self._frames.T_tool_link(link)
        return self._planner.chain(q_start, [move], pace, T_tool_link=T_tool_link)

    def _help_point(self, arc: Constraints) -> NDArray[np.float64]:
        """Return the help point (3,) of an arc in base [m]."""
        if arc.name not in ARC_KINDS or len(arc.position_constraints) != 1:
            raise InvalidInput(
                f'CIRC with {len(arc.position_constraints)} path position constraints named '
                f'{arc.name!r}: give path_constraints the name {" or ".join(ARC_KINDS)} and one '
                'position constraint with the point in its primitive_poses'
            )
        offset = arc.position_constraints[0].target_point_offset
        if offset != Vector3():
            raise InvalidInput(
                f'help point with target_point_offset ({offset.x}, {offset.y}, {offset.z}) m: '
                'must be 0, for the arc gives no orientation there; give where the link passes'
            )
        return self._centre(arc.position_constraints[0])

    def _joint_goal(self, goal: Constraints, q_start: NDArray[np.float64]) -> NDArray[np.float64]:
        q_goal = q_start.copy()
        names = [constraint.joint_name for constraint in goal.joint_constraints]
        if len(set(names)) < len(names):
            raise InvalidInput(f'{len(names)} joint constraints name a joint twice')
        for constraint in goal.joint_constraints:
            if constraint.joint_name not in self._names:
                raise InvalidInput(
                    f'joint {constraint.joint_name!r} is unknown: {", ".join(self._names)}'
                )
            if not np.isfinite(constraint.position):
                raise InvalidInput(f'goal of {constraint.joint_name} is {constraint.position}')
            q_goal[self._names.index(constraint.joint_name)] = constraint.position
        if goal.name:
            wanted, own = branch_index(goal.name), int(classify(self._planner.model, q_goal))
            if wanted != own:
                raise InvalidInput(
                    f'the joint goal is on {BRANCHES[own]}, its name asks for {goal.name}: leave '
                    'the name empty, or give joints on that branch'
                )
        return q_goal

    def _pose_goal(self, goal: Constraints) -> NDArray[np.float64]:
        """Return T_base_tool (4, 4) of a position and an orientation constraint of one link."""
        if not goal.position_constraints or not goal.orientation_constraints:
            raise InvalidInput(
                'a pose goal needs a position constraint and an orientation constraint'
            )
        position, orientation = goal.position_constraints[0], goal.orientation_constraints[0]
        T_tool_link = self._frames.T_tool_link(position.link_name)
        turned_link = orientation.link_name or position.link_name
        if not np.array_equal(self._frames.T_tool_link(turned_link), T_tool_link):
            raise UnknownLink(
                f'the orientation constraint is of {turned_link!r}, the position constraint of '
                f'{position.link_name!r}: name one link in both; empty = tool0'
            )
        turned = pose_to_matrix(Pose(orientation=orientation.orientation))
        T = self._frames.T_base_frame(orientation.header.frame_id) @ turned
        T[:3, 3] = self._centre(position)
        T_link_point = transform_to_matrix(Transform(translation=position.target_point_offset))
        return T @ inverse_transform(T_tool_link @ T_link_point)

    def _centre(self, position: PositionConstraint) -> NDArray[np.float64]:
        """Return the centre (3,) in base of a position constraint's first region [m]."""
        poses = position.constraint_region.primitive_poses
        if not poses:
            raise InvalidInput('position constraint has no primitive_poses: give its centre there')
        centre = pose_to_matrix(Pose(position=poses[0].position))
        return (self._frames.T_base_frame(position.header.frame_id) @ centre)[:3, 3]


def _refuse_path_constraints(constraints: Constraints) -> None:
    for kind in ('joint', 'position', 'orientation', 'visibility'):
        if n := len(getattr(constraints, f'{kind}_constraints')):
            raise InvalidInput(
                f'path_constraints holds {n} {kind} constraints: only CIRC knows one, its help '
                'point; leave it empty'
            )
