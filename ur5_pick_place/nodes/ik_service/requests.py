# SPDX-License-Identifier: Apache-2.0
"""Interpret IK and FK requests for this arm, with one kind of error for each kind of fault."""

import contextlib
import functools
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from geometry_msgs.msg import PoseStamped
from moveit_msgs.msg import Constraints, PositionIKRequest, RobotState
from moveit_msgs.srv import GetPositionFK

from ur5_pick_place.errors import (
    CollisionCheckUnavailable,
    InCollision,
    InvalidInput,
    InvalidRobotState,
    JointLimitViolation,
    KinematicsError,
    NoSolution,
    TimedOut,
    UnknownLink,
)
from ur5_pick_place.kinematics import (
    BRANCHES,
    HOME,
    Solution,
    branch_index,
    explain,
    link_pose,
    solutions_near,
)
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.cell.robot_settings import GroupSettings
from ur5_pick_place.nodes.messages.conversions import (
    joints_of_request,
    matrix_to_pose,
    pose_to_matrix,
    read_joint_constraints,
    to_seconds,
)
from ur5_pick_place.nodes.tf.frames import PATIENCE, ArmPose
from ur5_pick_place.planning.limits import in_degrees

if TYPE_CHECKING:
    from ur5_pick_place.planning.collision.collision import CollisionModel


_MAX_LINKS = 64
_MAX_CONSTRAINTS = 64
_MAX_WAIT = 10.0  # [s]
_OUTSIDE = 'outside the joint limits or constraints'
_TOUCHES = 'in collision: '


class Answer(NamedTuple):
    """The solutions that satisfy a request."""

    solutions: list[Solution]  # nearest first; at least one
    # returns why each other branch is missing, and which have more than one solution; computed on
    # demand
    reasons: Callable[[], str]

    def one_per_branch(self) -> list[Solution]:
        """Return the nearest solution of each branch, the nearest branch first."""
        nearest: dict[str, Solution] = {}
        for solution in self.solutions:
            nearest.setdefault(solution.branch, solution)
        return list(nearest.values())


class _Scene(NamedTuple):
    """What a request is checked against; see `IkRequests.set_scene`."""

    attached: Collection[str]
    collisions: 'CollisionModel | None'
    refusal: str


class IkRequests:
    """
    Turns requests into calls of the kinematics.

    `recent_joints`: returns the measured joints (6,) [rad], or None without recent joint_states.
    `collisions`: none where collisions cannot be checked.
    """

    def __init__(
        self,
        cell: Cell,
        groups: GroupSettings,
        recent_joints: Callable[[], Array | None],
        collisions: 'CollisionModel | None',
    ) -> None:
        self._model, self._frames, self._names = cell.model, cell.frames, list(cell.joint_names)
        self._groups, self._recent_joints = groups, recent_joints
        self._scene = _Scene((), collisions, '')

    def set_scene(
        self, attached: Collection[str], collisions: 'CollisionModel | None', refusal: str
    ) -> None:
        """
        Answer requests in another scene from now on.

        `attached`: the ids of what is attached, which a robot state may contain. `collisions`:
        none where collisions cannot be checked. `refusal`: why collision checks are refused; empty
        if they are not.
        """
        self._scene = _Scene(attached, collisions, refusal)  # at once, for requests meanwhile

    async def wait_for_frame(self, request: PositionIKRequest) -> None:
        """
        Wait until TF knows the request's frame, at most for its timeout.

        A stamped one is waited for in any case, as it may be newer than TF. Nothing else takes
        time: a solution takes less than a millisecond, and without joints the seed is home. The
        wait is limited to `_MAX_WAIT`.

        Raises `InvalidInput`: the timeout is negative; `TimedOut`: TF does not know the frame by
        then.
        """
        header, timeout = request.pose_stamped.header, to_seconds(request.timeout)
        if timeout < 0.0:
            raise InvalidInput(f'timeout = {timeout:g} s: must be 0 (do not wait) or more')
        stamp = to_seconds(header.stamp)
        if timeout:
            await self._frames.wait_for(header.frame_id, min(timeout, _MAX_WAIT), stamp)
        elif stamp:
            with contextlib.suppress(TimedOut):  # the frame's own error follows
                await self._frames.wait_for(header.frame_id, PATIENCE, stamp)

    def solve(self, request: PositionIKRequest) -> Answer:
        """
        Return the solutions of an IK request.

        Raises `InvalidInput`: the request is invalid; the subclass identifies the reason;
        `CollisionCheckUnavailable`: it requests a collision check that is not available;
        `NoSolution, JointLimitViolation, InCollision`: it has no solution; the kind is that of the
        branch that came closest.
        """
        self._check_kind(request)
        allowed = _allowed_branches(request.constraints)
        limits = self._limits(request.constraints)
        q = self._joints(request.robot_state)
        seed = np.asarray(HOME) if q is None else q
        pose = self._tool_pose(request, q)
        free = solutions_near(self._model, pose, seed, limits)
        contacts: dict[str, str] = {}
        if len(allowed) < len(BRANCHES):
            free = [s for s in free if s.branch in allowed]
        if request.avoid_collisions:
            free, contacts = self._without_contacts(free)

        def missing() -> dict[str, str]:
            found = explain(self._model, pose, float(seed[5]), seed)
            unsolved = {m.branch: m.text for m in found}
            out = [b for b in allowed if all(s.branch != b for s in free)]
            return {b: contacts.get(b) or unsolved.get(b, _OUTSIDE) for b in out}

        if not free:
            raise _failure(missing())

        def reasons() -> str:
            return '; '.join(filter(None, (_listed(missing()), _several_solutions(free))))

        return Answer(free, reasons)

    def _without_contacts(
        self, solutions: list[Solution]
    ) -> tuple[list[Solution], dict[str, str]]:
        """Return the solutions without collision, and by branch what the others collide with."""
        _, collisions, refusal = self._scene
        if collisions is None:
            raise CollisionCheckUnavailable(
                'collisions cannot be checked, coal is not installed: set avoid_collisions false'
            )
        if refusal:
            raise CollisionCheckUnavailable(refusal)
        found = [(s, collisions.check(s.q)) for s in solutions]
        free = [s for s, contact in found if not contact]
        return free, {s.branch: f'{_TOUCHES}{contact}' for s, contact in found if contact}

    def poses(self, request: GetPositionFK.Request) -> list[PoseStamped]:
        """
        Return the pose of each link that an FK request names.

        Raises `InvalidInput`: the request is invalid; the subclass identifies the reason.
        """
        if len(request.fk_link_names) > _MAX_LINKS:
            raise UnknownLink(f'{len(request.fk_link_names)} links: must be at most {_MAX_LINKS}')
        arm = self._arm(self._joints(request.robot_state))
        header = request.header
        T_base_frame = self._frames.T_base_frame(
            header.frame_id, arm, stamp=to_seconds(header.stamp)
        )
        T_frame_base = np.linalg.inv(T_base_frame)
        poses = []
        for link in request.fk_link_names or ['']:
            T_frame_link = T_frame_base @ self._frames.T_base_link(link, arm)
            stamped = PoseStamped(pose=matrix_to_pose(T_frame_link))
            stamped.header.frame_id = request.header.frame_id or f'{self._frames.prefix}base_link'
            poses.append(stamped)
        return poses

    def _check_kind(self, request: PositionIKRequest) -> None:
        self._groups.check_group(request.group_name)
        if request.ik_link_names or request.pose_stamped_vector:
            raise UnknownLink(
                'this arm has one tip: use ik_link_name and pose_stamped, not the lists'
            )

    def _joints(self, state: RobotState) -> Array | None:
        """Return the joints (6,) [rad] of a request, else those of the arm, None if unknown."""
        q = joints_of_request(state, self._names, self._recent_joints, self._scene.attached)
        if q is not None and (question := in_degrees(q)):
            joint = int(np.abs(q).argmax())
            raise InvalidRobotState(
                f'{self._names[joint]} is {q[joint]:g} rad: must be at most two turns{question}'
            )
        return q

    def _arm(self, q: Array | None) -> ArmPose:
        """Return a function for the pose of links, which raises if the joints are unknown."""
        return _unknown_arm_pose if q is None else functools.partial(link_pose, self._model, q)

    def _limits(self, constraints: Constraints) -> tuple[Array, Array] | None:
        """Return the model's limits, narrowed by the joint constraints, None if there are none."""
        if not constraints.joint_constraints:
            return None
        low, high = self._model.q_min.copy(), self._model.q_max.copy()
        if len(constraints.joint_constraints) > _MAX_CONSTRAINTS:
            raise InvalidInput(
                f'{len(constraints.joint_constraints)} joint constraints: must be at most '
                f'{_MAX_CONSTRAINTS}'
            )
        given = read_joint_constraints(constraints.joint_constraints, self._names)
        for joint, position, least, most in given:
            if question := in_degrees(np.array([position])):
                raise InvalidInput(
                    f'constraint on {self._names[joint]}: position {position:g} rad: must be at '
                    f'most two turns{question}'
                )
            low[joint], high[joint] = max(low[joint], least), min(high[joint], most)
        return low, high

    def _tool_pose(self, request: PositionIKRequest, q: Array | None) -> Array:
        header = request.pose_stamped.header
        stamp = to_seconds(header.stamp)
        T_base_frame = self._frames.T_base_frame(
            header.frame_id, self._arm(q), waits=not stamp, stamp=stamp
        )
        T_link_tool = self._frames.T_link_tool(request.ik_link_name)
        return np.asarray(T_base_frame @ pose_to_matrix(request.pose_stamped.pose) @ T_link_tool)


def _unknown_arm_pose(_link: str) -> Array:
    raise InvalidRobotState(
        'robot_state is empty and there are no recent joint_states: give the joints, or check '
        'that the driver is running'
    )


def _allowed_branches(constraints: Constraints) -> tuple[str, ...]:
    """Return the branch that the constraints name, or all; refuse other kinds of constraint."""
    for kind, given in (
        ('position', constraints.position_constraints),
        ('orientation', constraints.orientation_constraints),
        ('visibility', constraints.visibility_constraints),
    ):
        if given:
            raise InvalidInput(f'{kind} constraints are not supported: use joint constraints only')
    return (BRANCHES[branch_index(constraints.name)],) if constraints.name else BRANCHES


def _failure(missing: dict[str, str]) -> KinematicsError:
    """Return the error of a request without solutions: that of the branch that came closest."""
    reasons = missing.values()
    if any(reason.startswith(_TOUCHES) for reason in reasons):
        return InCollision(_listed(missing))
    return (JointLimitViolation if _OUTSIDE in reasons else NoSolution)(_listed(missing))


def _several_solutions(solutions: list[Solution]) -> str:
    """Return which branches have more than one solution, as a calibrated arm's may, as text."""
    branches = [s.branch for s in solutions]
    return '; '.join(
        f'{branch}: {branches.count(branch)} solutions, near a singularity of the calibrated arm; '
        'the one nearest to the seed is returned'
        for branch in dict.fromkeys(branches)
        if branches.count(branch) > 1
    )


def _listed(missing: dict[str, str]) -> str:
    return '; '.join(f'{branch}: {reason}' for branch, reason in missing.items())
