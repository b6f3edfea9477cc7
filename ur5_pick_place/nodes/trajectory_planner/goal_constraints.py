# SPDX-License-Identifier: Apache-2.0
"""Interpret one entry of MoveIt's goal constraints for this arm, or refuse it with a reason."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import Pose, Quaternion, Transform, Vector3
from moveit_msgs.msg import Constraints, OrientationConstraint, PositionConstraint
from shape_msgs.msg import SolidPrimitive
from std_msgs.msg import Header

from ur5_pick_place.errors import InvalidInput, JointLimitViolation, UnknownLink
from ur5_pick_place.kinematics import BRANCHES, branch_index, classify
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages.conversions import (
    pose_to_matrix,
    read_joint_constraints,
    to_seconds,
    transform_to_matrix,
)
from ur5_pick_place.nodes.tf.frames import ArmPose
from ur5_pick_place.planning.goal_region import PoseRegion, is_wide
from ur5_pick_place.planning.paths.moves import ARC_KINDS

_ROUNDING = 1e-6  # [rad] by which joints may miss a goal without tolerance
# Shapes that contain their centre, with their number of dimensions; a prism may be hollow there.
_REGIONS = {
    SolidPrimitive.BOX: ('box', 3),
    SolidPrimitive.SPHERE: ('sphere', 1),
    SolidPrimitive.CYLINDER: ('cylinder', 2),
    SolidPrimitive.CONE: ('cone', 2),
}
_NO_ORIENTATION = Quaternion(x=0.0, y=0.0, z=0.0, w=0.0)


@dataclass(frozen=True)
class PlanningGoal:
    """Where a motion is to end."""

    # (6,) nominal joints [rad]; None if the goal is a pose, with or without bounds on joints
    q: Array | None
    region: PoseRegion | None  # the nominal pose and those within its tolerances
    link: str  # the link that the pose was given for
    # (4, 4) the point of the link that the pose was given for: its `target_point_offset`
    T_link_point: Array
    branch: str  # empty for any
    # (6,) bounds on the joints at the end [rad]; infinite where there are none
    q_low: Array
    q_high: Array

    @property
    def is_wide(self) -> bool:
        """Whether another goal within the tolerances may be reached on another way."""
        return self.region.is_wide if self.region else is_wide(self.q_low, self.q_high)

    def check_end(self, q: Array, names: Sequence[str], slack: float) -> None:
        """Refuse a motion that ends at joints (6,) [rad] outside the bounds."""
        outside = (q < self.q_low - slack) | (q > self.q_high + slack)
        if outside.any():
            joint = int(outside.argmax())
            raise JointLimitViolation(
                f'the motion would end with {names[joint]} at {q[joint]:.4f} rad, the goal '
                f'requires {self.q_low[joint]:.4f} to {self.q_high[joint]:.4f} rad: a line or arc '
                'keeps its branch and turn; change these with PTP first'
            )


class GoalConstraints:
    def __init__(self, cell: Cell) -> None:
        self._model, self._frames, self._names = cell.model, cell.frames, list(cell.joint_names)

    def read(self, goal: Constraints, q_start: Array, arm: ArmPose) -> PlanningGoal:
        """
        Return the goal, for an arm that starts at joints (6,) [rad].

        Joints that it does not name stay at `q_start`, unless it contains a pose too.

        Raises `InvalidInput`: it is malformed or not supported; the subclass identifies the
        reason.
        """
        if n := len(goal.visibility_constraints):
            raise InvalidInput(
                f'goal holds {n} visibility constraints: not supported, leave them out'
            )
        q, low, high = self._joints(goal, q_start)
        link, T_link_point, region = '', np.eye(4), None
        if goal.position_constraints or goal.orientation_constraints or q is None:
            link, T_link_point, region = self._pose(goal, arm)
        if goal.name:
            branch_index(goal.name)
        if region is not None:
            return PlanningGoal(None, region, link, T_link_point, goal.name, low, high)
        assert q is not None
        free = np.isinf(low)
        low[free], high[free] = q[free] - _ROUNDING, q[free] + _ROUNDING
        return PlanningGoal(q, None, link, T_link_point, goal.name, low, high)

    def arc_point(self, arc: Constraints, arm: ArmPose) -> Array:
        """Return the via or centre point (3,) of an arc in base [m]; errors as `read`."""
        others = {
            kind: len(getattr(arc, f'{kind}_constraints'))
            for kind in ('joint', 'orientation', 'visibility')
        }
        if arc.name not in ARC_KINDS or len(arc.position_constraints) != 1 or any(others.values()):
            more = ''.join(f' and {n} {kind}' for kind, n in others.items() if n)
            raise InvalidInput(
                f'CIRC with {len(arc.position_constraints)} position{more} path constraints named '
                f'{arc.name!r}: give path_constraints the name {" or ".join(ARC_KINDS)} and one '
                'position constraint with the point in its primitive_poses, nothing else'
            )
        offset = arc.position_constraints[0].target_point_offset
        if offset != Vector3():
            raise InvalidInput(
                f'arc point with target_point_offset ({offset.x}, {offset.y}, {offset.z}) m: '
                'must be 0, as the arc defines no orientation there; give the point of the link'
            )
        centre, _, _ = self._region(arc.position_constraints[0], arm)
        return np.asarray(centre[:3, 3])

    def T_tool_guided(self, arc: Constraints, goal: PlanningGoal) -> Array:
        """
        Return the pose (4, 4) in tool0 of the point that follows an arc; call `arc_point` first.

        It is the point that a pose goal is for, or the link of the arc if the goal is joints.

        Raises `UnknownLink`: the arc is for another link than the pose goal, or for an unknown
        one.
        """
        link = arc.position_constraints[0].link_name
        if goal.region is None:
            return self._frames.T_tool_link(link)
        T_tool_link = self._frames.T_tool_link(goal.link)
        if link and not np.array_equal(self._frames.T_tool_link(link), T_tool_link):
            raise UnknownLink(
                f'the arc point is of {link!r}, the goal of {(goal.link or "tool0")!r}: name one '
                "link in both, or leave the arc point's link_name empty"
            )
        return T_tool_link @ goal.T_link_point

    def _joints(self, goal: Constraints, q_start: Array) -> tuple[Array | None, Array, Array]:
        """Return the joints (6,) [rad] of the goal, or None, and the bounds of all joints."""
        q, low, high = q_start.copy(), np.full(6, -np.inf), np.full(6, np.inf)
        names = [constraint.joint_name for constraint in goal.joint_constraints]
        if len(set(names)) < len(names):
            raise InvalidInput(f'{len(names)} joint constraints name a joint twice')
        given = read_joint_constraints(goal.joint_constraints, self._names)
        for joint, position, lowest, highest in given:
            q[joint] = position
            low[joint] = min(lowest, position - _ROUNDING)
            high[joint] = max(highest, position + _ROUNDING)
            least, most = self._model.q_min[joint], self._model.q_max[joint]
            if low[joint] <= most and high[joint] >= least:  # else the gate refuses the joint
                low[joint], high[joint] = max(low[joint], least), min(high[joint], most)
                q[joint] = np.clip(q[joint], low[joint], high[joint])
        return (q if names else None), low, high

    def check_branch(self, q: Array, branch: str) -> None:
        """Refuse nominal joints (6,) [rad] that are not on the branch, if there is one."""
        own = BRANCHES[int(classify(self._model, q))]
        if branch and branch != own:
            raise InvalidInput(
                f'the joint goal is on {own}, its name requires {branch}: leave the name empty, '
                'or give joints on that branch'
            )

    def _pose(self, goal: Constraints, arm: ArmPose) -> tuple[str, Array, PoseRegion]:
        """Return link, T_link_point (4, 4) and the region of position and orientation."""
        positions, orientations = goal.position_constraints, goal.orientation_constraints
        if len(positions) != 1 or len(orientations) != 1:
            raise InvalidInput(
                f'goal with {len(positions)} position and {len(orientations)} orientation '
                'constraints: a pose goal needs one position constraint and one orientation '
                'constraint; a position or an orientation alone is not supported; give further '
                'poses as further goal_constraints'
            )
        position, orientation = positions[0], orientations[0]
        _check_orientation(orientation)
        T_tool_link = self._frames.T_tool_link(position.link_name)
        turned_link = orientation.link_name or position.link_name
        if not np.array_equal(self._frames.T_tool_link(turned_link), T_tool_link):
            raise UnknownLink(
                f'the orientation constraint is of {turned_link!r}, the position constraint of '
                f'{position.link_name!r}: name one link in both; empty = tool0'
            )
        turned = pose_to_matrix(Pose(orientation=orientation.orientation))
        T = self._T_base_frame(orientation.header, arm) @ turned
        T_link_point = transform_to_matrix(Transform(translation=position.target_point_offset))
        T_point_tool = inverse_transform(T_tool_link @ T_link_point)
        is_vector = orientation.parameterization == OrientationConstraint.ROTATION_VECTOR
        turns = np.array([getattr(orientation, f'absolute_{a}_axis_tolerance') for a in 'xyz'])
        region = PoseRegion(
            *self._region(position, arm), T[:3, :3], turns, is_vector, T_point_tool
        )
        return position.link_name, T_link_point, region

    def _region(
        self, position: PositionConstraint, arm: ArmPose
    ) -> tuple[Array, str, tuple[float, ...]]:
        """Return pose (4, 4) in base, kind and size of a position constraint's region [m]."""
        region = position.constraint_region
        if len(region.primitive_poses) != 1 or len(region.primitives) > 1 or region.meshes:
            raise InvalidInput(
                f'position constraint with {len(region.primitives)} primitives, '
                f'{len(region.primitive_poses)} primitive_poses and {len(region.meshes)} meshes: '
                'give one region, with its centre in primitive_poses, and further ones as further '
                'goal_constraints'
            )
        kind, size, centre = '', tuple[float, ...](), region.primitive_poses[0]
        for shape in region.primitives:
            kind, count = _REGIONS.get(shape.type, ('', 0))
            size = tuple(float(v) for v in shape.dimensions)
            if not kind or len(size) != count or not all(0.0 <= v < np.inf for v in size):
                raise InvalidInput(
                    f'position constraint in a region of type {shape.type} and dimensions '
                    f'{list(shape.dimensions)} m: must be a box, sphere, cylinder or cone of '
                    'finite size'
                )
        if kind in ('', 'sphere') or centre.orientation == _NO_ORIENTATION:
            centre = Pose(position=centre.position)  # its orientation means nothing, or none
        return self._T_base_frame(position.header, arm) @ pose_to_matrix(centre), kind, size

    def _T_base_frame(self, header: Header, arm: ArmPose) -> Array:
        return self._frames.T_base_frame(header.frame_id, arm, stamp=to_seconds(header.stamp))


def _check_orientation(constraint: OrientationConstraint) -> None:
    for axis in 'xyz':
        tolerance = getattr(constraint, f'absolute_{axis}_axis_tolerance')
        if not 0.0 <= tolerance < np.inf:
            raise InvalidInput(
                f'absolute_{axis}_axis_tolerance is {tolerance} rad: must be finite, 0 or '
                'more'
            )


def refuse_path_constraints(constraints: Constraints, own_branch: str) -> None:
    """
    Refuse path constraints, except the name of the branch that a Cartesian path keeps anyway.

    `constraints`: not the via or centre point of an arc. `own_branch`: the branch of the start of
    a Cartesian path; empty for a joint motion, which may leave it.
    """
    for kind in ('joint', 'position', 'orientation', 'visibility'):
        if n := len(getattr(constraints, f'{kind}_constraints')):
            raise InvalidInput(
                f'path_constraints holds {n} {kind} constraints: only CIRC uses one, its via or '
                'centre point; leave it empty'
            )
    name = constraints.name
    if name in ('', own_branch):
        return
    if own_branch:
        raise InvalidInput(
            f'path_constraints is named {name!r}: the path stays on {own_branch}, the branch of '
            'its start; leave the name empty, or change the branch with PTP first'
        )
    raise InvalidInput(
        f'path_constraints is named {name!r}: a joint motion may change its branch on the way; '
        'leave the name empty, or name the branch of the end in goal_constraints'
    )
