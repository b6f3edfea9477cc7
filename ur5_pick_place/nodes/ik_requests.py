# SPDX-License-Identifier: Apache-2.0
"""What an IK or FK request means for this arm, and MoveIt's code for each way it can be wrong."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import Constraints, MoveItErrorCodes, PositionIKRequest, RobotState
from moveit_msgs.srv import GetPositionFK
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput, KinematicsError
from ur5_pick_place.kinematics import (
    BRANCHES,
    HOME,
    Model,
    Solution,
    branch_index,
    explain,
    forward,
    solutions_near,
)
from ur5_pick_place.nodes.conversions import (
    joints_from_state,
    matrix_to_pose,
    pose_to_matrix,
)
from ur5_pick_place.nodes.frames import Frames

if TYPE_CHECKING:
    from ur5_pick_place.planning.collision import CollisionModel

Array = NDArray[np.float64]
Result = TypeVar('Result')

_MAX_LINKS = 64
_MAX_NAMES = 256  # in a robot state or in constraints; a cell's joints are a few dozen at most


class Refusal(KinematicsError):
    """
    A request that gets no solution.

    Attributes
    ----------
    code : int
        One of MoveItErrorCodes.

    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Answer(NamedTuple):
    """
    The solutions that a request allows, nearest first, and why each other branch is out.

    Attributes
    ----------
    solutions : list of Solution
    missing : dict of str to str
        Reason by branch.
    code : int
        MoveIt's code if there is no solution: the farthest that any branch came.

    """

    solutions: list[Solution]
    missing: dict[str, str]
    code: int


class IkRequests:
    """
    Turns requests into calls of the kinematics.

    Parameters
    ----------
    model : Model
    frames : Frames
    joint_names : sequence of str
        With the prefix, in controller order.
    groups : sequence of str
        Planning groups that mean this arm; empty always does.
    present_joints : callable
        Returns the measured joints (6,) [rad] or None.
    collisions : CollisionModel or None
        None where collisions cannot be checked.

    """

    def __init__(
        self,
        model: Model,
        frames: Frames,
        joint_names: Sequence[str],
        groups: Sequence[str],
        present_joints: Callable[[], Array | None],
        collisions: 'CollisionModel | None',
    ) -> None:
        self._model, self._frames, self._names = model, frames, list(joint_names)
        self._groups, self._present, self._collisions = list(groups), present_joints, collisions

    def solve(self, request: PositionIKRequest) -> Answer:
        """Answer an IK request; raises `Refusal` if it is wrong."""
        self._check_kind(request)
        allowed = _allowed_branches(request.constraints)
        low, high = self._limits(request.constraints)
        seed = self._seed(request.robot_state)
        pose = self._tool_pose(request)
        near = solutions_near(self._model, pose, seed, (low, high))
        reasons = {m.branch: m.text for m in explain(self._model, pose, float(seed[5]))}
        code = MoveItErrorCodes.NO_IK_SOLUTION
        for branch in BRANCHES:
            if branch not in reasons and all(s.branch != branch for s in near):
                reasons[branch] = 'outside the joint limits or constraints'
                code = MoveItErrorCodes.GOAL_CONSTRAINTS_VIOLATED
        for solution in near if request.avoid_collisions else ():
            contact = self._collisions.check(solution.q)
            if contact:
                reasons[solution.branch] = f'in collision: {contact}'
                code = MoveItErrorCodes.GOAL_IN_COLLISION
        solutions = [s for s in near if s.branch in allowed and s.branch not in reasons]
        missing = {b: reasons[b] for b in BRANCHES if b in allowed and b in reasons}
        return Answer(solutions, missing, code)

    def poses(self, request: GetPositionFK.Request) -> list[PoseStamped]:
        """Give the pose of each link that an FK request names; raises `Refusal` if it is wrong."""
        if len(request.fk_link_names) > _MAX_LINKS:
            raise Refusal(
                MoveItErrorCodes.INVALID_LINK_NAME,
                f'{len(request.fk_link_names)} links: must be at most {_MAX_LINKS}',
            )
        T_frame_base = np.linalg.inv(self._T_base_frame(request.header.frame_id))
        q = self._joints(request.robot_state)
        if q is None:
            q = self._present()
        if q is None:
            raise Refusal(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                'robot_state is empty and no joint_states were heard: give the joints',
            )
        T_frame_tool = T_frame_base @ forward(self._model, q)
        poses = []
        for link in request.fk_link_names or ['']:
            stamped = PoseStamped(pose=matrix_to_pose(T_frame_tool @ self._T_tool_link(link)))
            stamped.header.frame_id = request.header.frame_id or 'base_link'
            poses.append(stamped)
        return poses

    def _check_kind(self, request: PositionIKRequest) -> None:
        if request.group_name and request.group_name not in self._groups:
            raise Refusal(
                MoveItErrorCodes.INVALID_GROUP_NAME,
                f'group {request.group_name!r} is unknown: use {", ".join(self._groups)} or none',
            )
        if request.ik_link_names or request.pose_stamped_vector:
            raise Refusal(
                MoveItErrorCodes.INVALID_LINK_NAME,
                'this arm has one tip: use ik_link_name and pose_stamped, not the lists',
            )
        if request.avoid_collisions and self._collisions is None:
            raise Refusal(
                MoveItErrorCodes.COLLISION_CHECKING_UNAVAILABLE,
                'collisions cannot be checked, coal is not installed: set avoid_collisions false',
            )

    def _seed(self, state: RobotState) -> Array:
        """Give the joints to be near to: the request's, else where the arm is, else home."""
        q = self._joints(state)
        if q is None:
            q = self._present()
        return np.asarray(HOME) if q is None else q

    def _joints(self, state: RobotState) -> Array | None:
        names, positions = state.joint_state.name, state.joint_state.position
        if not names and not positions:
            return None
        if len(names) != len(positions) or len(names) > _MAX_NAMES:
            raise Refusal(
                MoveItErrorCodes.INVALID_ROBOT_STATE,
                f'robot_state has {len(names)} joint names and {len(positions)} positions: must '
                f'be as many, at most {_MAX_NAMES}',
            )
        if len(set(names)) != len(names):
            raise Refusal(MoveItErrorCodes.INVALID_ROBOT_STATE, 'robot_state names a joint twice')
        return _or_refuse(
            MoveItErrorCodes.INVALID_ROBOT_STATE,
            lambda: joints_from_state(state.joint_state, self._names),
        )

    def _limits(self, constraints: Constraints) -> tuple[Array, Array]:
        """Give the model's limits, narrowed by the request's joint constraints."""
        low, high = self._model.q_min.copy(), self._model.q_max.copy()
        code = MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS
        if len(constraints.joint_constraints) > _MAX_NAMES:
            raise Refusal(code, f'more than {_MAX_NAMES} joint constraints')
        for c in constraints.joint_constraints:
            if c.joint_name not in self._names:
                raise Refusal(code, f'joint {c.joint_name!r} is unknown: {", ".join(self._names)}')
            if not np.isfinite([c.position, c.tolerance_above, c.tolerance_below]).all() or (
                min(c.tolerance_above, c.tolerance_below) < 0.0
            ):
                raise Refusal(
                    code,
                    f'constraint on {c.joint_name}: position {c.position} +{c.tolerance_above} '
                    f'-{c.tolerance_below} rad: must be finite, tolerances not negative',
                )
            joint = self._names.index(c.joint_name)
            low[joint] = max(low[joint], c.position - c.tolerance_below)
            high[joint] = min(high[joint], c.position + c.tolerance_above)
        return low, high

    def _tool_pose(self, request: PositionIKRequest) -> Array:
        T_base_frame = self._T_base_frame(request.pose_stamped.header.frame_id)
        T_tool_link = self._T_tool_link(request.ik_link_name)
        T_frame_link = _or_refuse(
            MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS,
            lambda: pose_to_matrix(request.pose_stamped.pose),
        )
        return np.asarray(T_base_frame @ T_frame_link @ np.linalg.inv(T_tool_link))

    def _T_base_frame(self, frame_id: str) -> Array:
        return _or_refuse(
            MoveItErrorCodes.FRAME_TRANSFORM_FAILURE, lambda: self._frames.T_base_frame(frame_id)
        )

    def _T_tool_link(self, link: str) -> Array:
        return _or_refuse(
            MoveItErrorCodes.INVALID_LINK_NAME, lambda: self._frames.T_tool_link(link)
        )


def _allowed_branches(constraints: Constraints) -> tuple[str, ...]:
    """Give the branch that the constraints name, or all; other kinds of constraint are refused."""
    code = MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS
    for kind in ('position', 'orientation', 'visibility'):
        if getattr(constraints, f'{kind}_constraints'):
            raise Refusal(code, f'{kind} constraints are not known here: only joint constraints')
    if not constraints.name:
        return BRANCHES
    _or_refuse(code, lambda: branch_index(constraints.name))
    return (constraints.name,)


def _or_refuse(code: int, compute: Callable[[], Result]) -> Result:
    try:
        return compute()
    except InvalidInput as error:
        raise Refusal(code, str(error)) from error
