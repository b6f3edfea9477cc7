# SPDX-License-Identifier: Apache-2.0
"""The whole cycle planned and checked before the first motion."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ur5_pick_place.errors import InvalidInput, PlanningError
from ur5_pick_place.kinematics import BRANCHES, classify, forward, inverse
from ur5_pick_place.kinematics.transforms import inverse_transform
from ur5_pick_place.planning.planner import MotionPlanner, Pace, PlannedMotion
from ur5_pick_place.planning.shortest_chain import Stop, shortest_chain
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.cycle import Stage
from ur5_pick_place.task.poses import Provenance, TaughtPose

_SAME_PLACE = 1e-3  # [m]


@dataclass(frozen=True)
class TaskSettings(Settings):
    """Heights, speeds and the part."""

    approach_height: float = setting(
        0.1, 'how far above start and target the arm comes and goes', unit='m', low=0.0, high=0.5
    )
    approach_speed: float = setting(
        0.1, 'TCP speed between a place and the point above it', unit='m/s', low=0.005, high=0.5
    )
    part_mass: float = setting(0.08, 'mass of the part', unit='kg', low=0.0, high=16.0)
    part_centre: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        'centre of gravity of the part in the TCP frame',
        unit='m',
        low=-1.0,
        high=1.0,
        length=3,
    )


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its motion, if it has one, and a remark on how it was planned."""

    stage: Stage
    motion: PlannedMotion | None = None
    remark: str = ''


@dataclass(frozen=True)
class CyclePlan:
    """
    A cycle ready to run.

    Attributes
    ----------
    stages : tuple of PlannedStage
    branch : str
        On which start and target are reached.
    q_start : ndarray, shape (6,)
        Where the arm must be [rad].
    fingerprint : str
        Of everything the plan rests on; a plan with another one must not be run.

    """

    stages: tuple[PlannedStage, ...]
    branch: str
    q_start: NDArray[np.float64]
    fingerprint: str

    @property
    def motion_time(self) -> float:
        """Time the arm moves [s]."""
        return sum(s.motion.trajectory.duration for s in self.stages if s.motion)


class CyclePlanner:
    """
    Plans cycles and ways home with a `MotionPlanner`.

    Parameters
    ----------
    planner : MotionPlanner
    settings : TaskSettings
    cycle : sequence of Stage
    provenance : Provenance
        What taught poses must have been taught with.

    """

    def __init__(
        self,
        planner: MotionPlanner,
        settings: TaskSettings,
        cycle: Sequence[Stage],
        provenance: Provenance,
    ) -> None:
        self.planner, self.cycle, self.provenance = planner, tuple(cycle), provenance
        self._settings = settings

    def fingerprint(self, poses: Mapping[str, TaughtPose]) -> str:
        """Return a hash of poses, scene, tool, payload, calibration, settings and stages."""
        parts = (
            sorted(poses.items()),
            self.planner.scene.fingerprint(),
            self.provenance,
            self._settings,
            self.planner.settings,
            self.cycle,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def plan(self, poses: Mapping[str, TaughtPose], q_now: NDArray[np.float64]) -> CyclePlan:
        """
        Plan every motion of the cycle from the joints `q_now` (6,) [rad].

        The branch of home is tried first, then the others.

        Raises
        ------
        InvalidInput
            A place is not taught, was taught with another robot or tool, or start is target.
        PlanningError
            No branch carries the cycle; says at which stage and why.

        """
        self._check_poses(poses)
        preferred = int(classify(self.planner.model, np.array(poses['home'].joints)))
        order = [preferred, *(k for k in range(len(BRANCHES)) if k != preferred)]
        refusals: list[str] = []
        for k in order:
            if not self._is_reachable(poses, k):
                continue
            try:
                stages = self._plan_on(BRANCHES[k], poses, q_now)
                return CyclePlan(stages, BRANCHES[k], q_now, self.fingerprint(poses))
            except PlanningError as error:
                refusals.append(f'{BRANCHES[k]}: {error}')
        raise PlanningError(self._no_way(poses, refusals))

    def way_home(
        self, poses: Mapping[str, TaughtPose], q_now: NDArray[np.float64]
    ) -> tuple[PlannedMotion, ...]:
        """Plan straight home, or up and then home where the direct way is barred."""
        if 'home' not in poses:
            raise InvalidInput('home is not taught: call ~/teach_home first')
        q_home = np.array(poses['home'].joints)
        try:
            return (self.planner.ptp(q_now, q_home, Pace()),)
        except PlanningError:
            T = forward(self.planner.model, q_now)
            T[2, 3] += self._settings.approach_height
            up = self.planner.lin(q_now, [T], self._pace('approach'))
            return up, self.planner.ptp(up.trajectory.q[-1], q_home, Pace())

    def again(self, planned: PlannedStage, q_now: NDArray[np.float64]) -> PlannedMotion:
        """Plan the rest of a stage that was interrupted, from where the arm is."""
        assert planned.motion is not None
        q_goal = planned.motion.trajectory.q[-1]
        pace = self._pace(planned.stage.pace)
        if planned.stage.do == 'ptp' or planned.remark:
            return self.planner.ptp(q_now, q_goal, pace)
        return self.planner.lin(q_now, [forward(self.planner.model, q_goal)], pace)

    def _plan_on(
        self, branch: str, poses: Mapping[str, TaughtPose], q: NDArray[np.float64]
    ) -> tuple[PlannedStage, ...]:
        stages, wishes = [], self._wishes(branch, poses, q)
        for stage in self.cycle:
            planned = PlannedStage(stage)
            if stage.is_move:
                try:
                    planned = self._move(stage, branch, poses, q, next(wishes, None))
                except PlanningError as error:
                    raise PlanningError(f'stage {stage.name!r}: {error}') from error
                q = planned.motion.trajectory.q[-1]
            stages.append(planned)
        return tuple(stages)

    def _move(
        self,
        stage: Stage,
        branch: str,
        poses: Mapping[str, TaughtPose],
        q: NDArray[np.float64],
        q_wish: NDArray[np.float64] | None,
    ) -> PlannedStage:
        pace = self._pace(stage.pace)
        if stage.to == 'home':
            q_home = np.array(poses['home'].joints)
            if stage.do == 'ptp':
                return PlannedStage(stage, self.planner.ptp(q, q_home, pace))
            return PlannedStage(
                stage, self.planner.lin(q, [forward(self.planner.model, q_home)], pace)
            )
        T = self._T_base_tool(stage.to, poses)
        if stage.do == 'ptp':
            return PlannedStage(stage, self.planner.ptp_to_pose(q, T, pace, branch, q_wish))
        try:
            return PlannedStage(stage, self.planner.lin(q, [T], pace))
        except PlanningError as error:
            if stage.do == 'lin':
                raise
            motion = self.planner.ptp_to_pose(q, T, pace, branch, q_wish)
            return PlannedStage(stage, motion, f'joint motion, no straight line: {error}')

    def _wishes(
        self, branch: str, poses: Mapping[str, TaughtPose], q: NDArray[np.float64]
    ) -> Iterator[NDArray[np.float64]]:
        """Return the joints at the end of each move for which the whole cycle is shortest."""
        stops = []
        for stage in filter(lambda stage: stage.is_move, self.cycle):
            if stage.to == 'home':
                goals = [np.array(poses['home'].joints)]
            else:
                goals = self.planner.joint_goals(self._T_base_tool(stage.to, poses), q, branch)
            stops.append(Stop(np.array(goals), stage.do != 'ptp'))
        return iter(shortest_chain(self.planner.model, q, stops, self.planner.limits.qd))

    def _pace(self, name: str) -> Pace:
        return Pace(speed=self._settings.approach_speed) if name == 'approach' else Pace()

    def _T_base_tool(self, place: str, poses: Mapping[str, TaughtPose]) -> NDArray[np.float64]:
        T = poses[place.removeprefix('above_')].T_base_tcp
        if place.startswith('above_'):
            T[2, 3] += self._settings.approach_height  # base's z is base_link's
        return T @ inverse_transform(self.planner.scene.tool.T_tool_tcp)

    def _is_reachable(self, poses: Mapping[str, TaughtPose], k: int) -> bool:
        return all(
            inverse(self.planner.model, self._T_base_tool(place, poses))[1][k]
            for place in self._places()
        )

    def _places(self) -> list[str]:
        places = {s.to for s in self.cycle if s.is_move and s.to != 'home'}
        return sorted(places, key=lambda place: (place.startswith('above_'), place))

    def _no_way(self, poses: Mapping[str, TaughtPose], refusals: list[str]) -> str:
        if refusals:
            more = f' ({len(refusals) - 1} other branches fail too)' if len(refusals) > 1 else ''
            return f'the cycle cannot be planned on branch {refusals[0]}{more}'
        for place in self._places():
            T = self._T_base_tool(place, poses)
            if not inverse(self.planner.model, T)[1].any():
                x, y, z = poses[place.removeprefix('above_')].T_base_tcp[:3, 3] * (-1, -1, 1) + 0.0
                return (
                    f'{place} cannot be reached at all: the taught TCP is at '
                    f'({x:.3f}, {y:.3f}, {z:.3f}) m in base_link; teach it nearer to the arm'
                )
        return 'no branch reaches start and target alike; teach one of them elsewhere'

    def _check_poses(self, poses: Mapping[str, TaughtPose]) -> None:
        needed = {'home'} | {p.removeprefix('above_') for p in self._places()}
        missing = sorted(needed - poses.keys())
        if missing:
            calls = ', '.join(f'~/teach_{name}' for name in missing)
            raise InvalidInput(f'not taught: {", ".join(missing)}; call {calls} first')
        if not poses['home'].joints:
            raise InvalidInput('home was taught without joints: call ~/teach_home')
        for name in sorted(needed):
            if poses[name].provenance != self.provenance:
                raise InvalidInput(
                    f'{name} was taught with {poses[name].provenance}, now it is '
                    f'{self.provenance}: teach it again'
                )
        if {'start', 'target'} <= needed:
            apart = np.subtract(poses['start'].pose[:3], poses['target'].pose[:3])
            if np.linalg.norm(apart) < _SAME_PLACE:
                raise InvalidInput('start and target are the same place: teach one elsewhere')
