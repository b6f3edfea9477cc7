# SPDX-License-Identifier: Apache-2.0
"""One arm with its limits and its load, in one scene: what every motion is checked against."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ur5_pick_place.errors import GateRefusal
from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning import gate
from ur5_pick_place.planning.collision.collision import collision_model
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.limits import Limits, MotionSettings, in_degrees, motion_limits
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.scaling import Scaling
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Part, Scene
from ur5_pick_place.planning.scene.world import World

_Arm = TypeVar('_Arm', bound='ArmInScene')


class ArmInScene:
    """
    An arm in a scene, with what its gripper holds; checks any motion of it.

    Parameters
    ----------
    scene : Scene
        Table, boxes and tool; replace it with `set_scene`.
    dynamics : Dynamics, optional
        The arm with its load; torques are not checked if not given.

    """

    def __init__(
        self,
        model: Model,
        settings: MotionSettings,
        scene: Scene,
        dynamics: Dynamics | None = None,
    ) -> None:
        self.model, self.dynamics, self._empty = model, dynamics, dynamics
        self.carried: Load | None = None
        self._part: Part | None = None
        self.before_check: Callable[[], object] = lambda: None
        """Called before a motion is checked, to bring the scene up to date."""
        self.settings = settings
        self.limits = motion_limits(model, settings)
        self.set_scene(scene)

    # -- the scene -----------------------------------------------------------------------------

    def set_scene(self, scene: Scene) -> None:
        """Plan and check in another scene from now on; the carried part stays in the gripper."""
        self._given, part = scene, self._part or scene.part
        scene = replace(scene, part=part, carried=self.carried is not None and part is not None)
        collision = collision_model(self.model, scene)
        dynamics = self._empty
        if dynamics is not None:
            loads = [thing.load for thing in scene.world.attached.values()]
            for load in [*loads, self.carried] if self.carried else loads:
                dynamics = dynamics.with_load(load)
        self.scene, self.collision, self.dynamics = scene, collision, dynamics

    def carry(self, load: Load | None, part: Part | None = None) -> None:
        """Carry `part`, or the scene's part, as `load` from now on; None = carry nothing."""
        if load and load.T_tcp_part is not None and self._given.part and not part:
            part = Part(load.T_tcp_part, self._given.part.size)
        self.carried, self._part = load, part if load else None
        self.set_scene(self._given)

    def among(self: _Arm, boxes: Sequence[Box]) -> _Arm:
        """Return the same arm with more boxes in the scene."""
        if not boxes:
            return self
        other = copy.copy(self)
        other.set_scene(replace(self._given, boxes=(*self._given.boxes, *boxes)))
        return other

    def carrying(self: _Arm, load: Load) -> _Arm:
        """Return the same arm in the same scene with the part in the gripper."""
        other = copy.copy(self)
        other.carry(load)
        return other

    def without_objects(self: _Arm) -> _Arm:
        """Return the same arm without clients' objects, held ones included."""
        other = copy.copy(self)
        other.set_scene(replace(self._given, world=World()))
        return other

    # -- its limits ----------------------------------------------------------------------------

    def limits_in(self, is_reduced: bool) -> Limits:
        """Return the limits of the gate; `is_reduced` = the robot is in reduced mode."""
        if not is_reduced:
            return self.limits
        return replace(self.limits, speed=min(self.limits.speed, self.settings.reduced_speed))

    def limits_at(self, scaling: Scaling) -> Limits:
        """Return the bounds at a scaling; its speed bound is always applied to TCP and elbow."""
        return self.scaled_limits(replace(scaling, p_tool_point=None))

    def scaled_limits(self, scaling: Scaling) -> Limits:
        """Return the bounds at a scaling; a speed bound for `p_tool_point` is left out."""
        limits = self.limits.scaled(
            scaling.velocity or self.settings.velocity_scaling,
            scaling.acceleration or self.settings.acceleration_scaling,
        )
        if not scaling.speed or scaling.p_tool_point is not None:
            return limits
        return replace(limits, speed=min(limits.speed, scaling.speed))

    def holding_torque(self, q: Array) -> Array:
        """Return the torques to hold the arm at joints (n, 6) [rad], as fractions of limits."""
        if self.dynamics is None:
            return np.zeros(q.shape)
        return np.asarray(np.abs(self.dynamics.gravity(q)) / self.dynamics.torque_max)

    # -- checks --------------------------------------------------------------------------------

    def check(
        self, trajectory: Trajectory, q_now: Array, is_reduced: bool = False
    ) -> gate.GateReport:
        """Return the gate's report on a motion; `is_reduced` = the robot is in reduced mode."""
        self.check_world()
        return gate.check_motion(
            trajectory,
            q_now,
            self.model,
            self.limits_in(is_reduced),
            self.collision,
            self.scene.tool.p_tool_tcp,
            self.settings.start_tolerance,
            self.dynamics,
        )

    def check_running_motion(
        self, trajectory: Trajectory, is_reduced: bool = False
    ) -> gate.GateReport:
        """
        Return the gate's report on what remains of a motion that may have begun, and ends at rest.

        For a stream, in every cycle: does not wait for scene messages that are still queued.

        """
        self._refuse_incomplete_world()
        return gate.check_running_motion(
            trajectory,
            self.model,
            self.limits_in(is_reduced),
            self.collision,
            self.scene.tool.p_tool_tcp,
            self.dynamics,
        )

    def check_world(self) -> None:
        """Bring the scene up to date; raise `GateRefusal` if an object was not accepted."""
        self.before_check()
        self._refuse_incomplete_world()

    def why_blocked(self, q: Array) -> str:
        """Return why a path of joints (n, 6) [rad] is blocked; empty if it is free."""
        if refusal := self.scene.world.refusal:
            return refusal
        q_min, q_max = self.limits.range_from(q[0])
        outside = (q < q_min) | (q > q_max)
        if outside.any():
            row, joint = np.argwhere(outside)[0]
            low, high = np.degrees([self.limits.q_min[joint], self.limits.q_max[joint]])
            return (
                f'{JOINT_NAMES[joint]} is at {np.degrees(q[row, joint]):.1f} deg: must lie in '
                f'{low:.0f} to {high:.0f} deg; guide it back in freedrive first'
            )
        return str(self.collision.check_path(q) or '')

    def check_goal_range(self, q_goal: Array) -> None:
        """Raise `GateRefusal` if joints (6,) [rad] are out of range."""
        outside = (q_goal < self.limits.q_min) | (q_goal > self.limits.q_max)
        if outside.any():
            joint = int(outside.argmax())
            low, high = np.degrees([self.limits.q_min[joint], self.limits.q_max[joint]])
            raise GateRefusal(
                f'goal of {JOINT_NAMES[joint]} is {np.degrees(q_goal[joint]):.1f} deg: '
                f'must lie in {low:.0f} to {high:.0f} deg{in_degrees(q_goal)}',
                'position',
            )

    def _refuse_incomplete_world(self) -> None:
        if refusal := self.scene.world.refusal:
            raise GateRefusal(refusal, 'collision')
