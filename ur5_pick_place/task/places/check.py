# SPDX-License-Identifier: Apache-2.0
"""Check each place of a cycle separately, before any motion is planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.errors import PlanningError
from ur5_pick_place.kinematics import BRANCHES
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.planning.cancellation import checkpoint
from ur5_pick_place.planning.joint_goals import PlaceReport, check_joints_at_rest, check_pose
from ur5_pick_place.planning.planner import MotionPlanner
from ur5_pick_place.planning.scene.scene import Box
from ur5_pick_place.task.cycle.steps import Step, transfers
from ur5_pick_place.task.motions import T_base_tool, TaskSettings
from ur5_pick_place.task.places.names import HOME, is_above, taught_place
from ur5_pick_place.task.places.poses import TaughtPose

Poses = Mapping[str, TaughtPose]


Visit = tuple[str, bool, tuple[Box, ...]]
"""A place, whether the part is held there, and the parts at other places."""


def visits(steps: Sequence[Step], placed_parts: Sequence[tuple[Box, ...]] = ()) -> list[Visit]:
    """
    Return each place of a cycle with what is held there, and with the other parts of each step.

    Taught places come before those above them, and the empty gripper before the part, because
    their refusals are easier to understand.
    """
    found = [
        (step.after.place, step.after.closed is not None, boxes)
        for step, boxes in zip(steps, placed_parts or [()] * len(steps), strict=True)
        if step.after.place
    ]
    return sorted(dict.fromkeys(found), key=lambda visit: (is_above(visit[0]), visit[1]))


@dataclass(frozen=True)
class CyclePlaces:
    """Checks places without planning a motion."""

    planner: MotionPlanner  # with an empty gripper; a check uses its scene at that time
    settings: TaskSettings
    steps: Sequence[Step]

    def common_branches(
        self,
        cycle_poses: Sequence[Poses],
        placed_parts: Sequence[Sequence[tuple[Box, ...]]],
        q_now: Array,
    ) -> frozenset[str]:
        """
        Return the branches on which the arm can be at every place of every cycle.

        - `cycle_poses`: the poses of each cycle
        - `placed_parts`: the parts at other places during each stage of each cycle; empty if there
          are none
        - `q_now` (6,): joints at the beginning [rad]

        Raises `PlanningError`: names the first impossible place and the reason, or the branches of
        each place if none is common to all.
        """
        planner = self.planner
        self._check_start(q_now)
        possible: dict[str, tuple[str, ...]] = {}
        known: set[tuple[object, ...]] = set()
        alone: tuple[Box, ...] = ()
        planners = {alone: self._planners(planner)}
        nothing: list[Sequence[tuple[Box, ...]]] = [()] * len(cycle_poses)
        # First without other parts: a scene with them takes longer to build than to check.
        for parts in (nothing, placed_parts) if any(map(any, placed_parts)) else (nothing,):
            for i, poses in enumerate(cycle_poses):
                checkpoint()
                cycle = f'cycle {i + 1} of {len(cycle_poses)}, ' if len(cycle_poses) > 1 else ''
                for place, is_carrying, others in visits(self.steps, parts[i]):
                    pose = poses[taught_place(place)]
                    if (key := (place, pose.pose, is_carrying, others)) in known:
                        continue
                    known.add(key)
                    if others not in planners:
                        among = self._planners(planner.among(others))
                        planners = {alone: planners[alone], others: among}
                    report = self._check(
                        place, pose, planners[others][is_carrying], float(q_now[5])
                    )
                    if report.reason:
                        raise PlanningError(f'{cycle}{place}: {report.reason}')
                    if len(report.branches) < len(BRANCHES):
                        possible[f'{cycle}{place}'] = report.branches
        for place, is_carrying, _ in visits(self.steps):
            pose = cycle_poses[0][taught_place(place)]
            if not is_carrying and (reason := self._part_below(place, pose, planner)):
                raise PlanningError(f'{place}: {reason}')
        common = frozenset(BRANCHES).intersection(*possible.values())
        if not common:
            each = '; '.join(f'{place} on {", ".join(b)}' for place, b in possible.items())
            raise PlanningError(
                f'no single branch reaches every place ({each}): teach one of them elsewhere'
            )
        return common

    def _check_start(self, q_now: Array) -> None:
        planner = self.planner
        if planner.scene.world.refusal:
            raise PlanningError(planner.scene.world.refusal)
        if reason := check_joints_at_rest(planner.limits, planner.collision, q_now):
            raise PlanningError(
                f'the arm cannot start where it is: {reason}; guide it away in freedrive'
            )

    def check_taught(self, name: str, pose: TaughtPose) -> str:
        """
        Return a warning about a place that is being taught; empty if there is none.

        It is about what may change: objects of clients, and the height of the point above.

        Raises `PlanningError`: the place is impossible even without the objects of clients; gives
        the reason.
        """
        own = [visit for visit in visits(self.steps) if taught_place(visit[0]) == name]
        present, empty = (
            self._planners(planner) for planner in (self.planner, self.planner.without_objects())
        )
        warnings: list[str] = []
        for place, is_carrying, _ in own or [(name, False, ())]:
            reason = self._check(place, pose, present[is_carrying]).reason
            reason = reason or ('' if is_carrying else self._part_below(place, pose, present[0]))
            never = self._check(place, pose, empty[is_carrying]).reason if reason else ''
            if never and place == name:
                raise PlanningError(f'{name} not taught: {never}')
            if reason:
                warnings.append(f'{place}: {reason}')
        return '; '.join(dict.fromkeys(warnings))

    def _planners(self, planner: MotionPlanner) -> tuple[MotionPlanner, MotionPlanner]:
        """Return planners for the arm with an empty gripper, and with the part in it."""
        load = self.settings.part_load(planner.scene)
        return planner, planner.carrying(load)

    def _part_below(self, place: str, pose: TaughtPose, planner: MotionPlanner) -> str:
        """
        Return why the open gripper above a place would meet the part that lies there, or ''.

        The moves to and from the place do not count that part as an obstacle.
        """
        part, with_part = planner.scene.part, {name for t in transfers(self.steps) for name in t}
        if part is None or not is_above(place) or taught_place(place) not in with_part:
            return ''
        T_base_link_part = T_BASE_LINK_BASE @ pose.T_base_tcp @ part.T_tcp_part
        box = Box('the part there', T_base_link_part, part.size, is_part=True)
        reason = self._check(place, pose, planner.among((box,))).reason
        height = self.settings.approach_height
        return reason and f'{reason}: raise approach_height = {height:g} m'

    def _check(
        self, place: str, pose: TaughtPose, planner: MotionPlanner, q6: float = 0.0
    ) -> PlaceReport:
        if place == HOME and pose.joints:  # it is defined by its joints, not by a pose
            q = np.array(pose.joints)
            reason = check_joints_at_rest(planner.limits, planner.collision, q)
            return PlaceReport(BRANCHES, reason)
        T = T_base_tool(place, {taught_place(place): pose}, planner, self.settings)
        return check_pose(planner.limits, planner.collision, T, q6)
