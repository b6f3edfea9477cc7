# SPDX-License-Identifier: Apache-2.0
"""
The motions of one cycle on one branch, each planned from the end of the one before.

And the one straight up from a place at which the arm was stopped.
"""

import contextlib
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import plan_roll_out
from ur5_pick_place.control.path_position import PathTracker
from ur5_pick_place.errors import InvalidInput, PlanningError
from ur5_pick_place.kinematics import forward
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.planning.joint_goals import Stop, shortest_chain
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.planning.paths.moves import PathSegment
from ur5_pick_place.planning.paths.trajectory import Trajectory
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Scene
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import Step, annotate, blended_groups
from ur5_pick_place.task.places.names import HOME, above, is_above, taught_place
from ur5_pick_place.task.places.poses import TaughtPose

IK = 'ik'
"""The method that sends whole trajectories; the others are closed loops."""

_PASSING_STEP = 5e-3  # [s]
_LATE = 6e-3  # [m] added to the slow distance before a place, as the arm lags its reference
_SAMPLE_STEP = 2e-3  # [s] between the samples of `StageTracker`
_LOOKAHEAD = 500  # samples ahead that are searched
_EQUALLY_NEAR = 4e-3  # [rad]; more than half of what a joint turns in a sample at full speed
_BLENDS = (1.0, 0.5)  # shares of the blend radii that are tried before the arm stops between moves
_MIN_RISE = 0.1  # share of approach_height; a smaller rise to it needs no motion of its own


@dataclass(frozen=True)
class TaskSettings(Settings):
    """Method, approach height and speed, grasp retries and the part."""

    method: str = setting(IK, 'how Cartesian paths are followed', choices=(IK, *METHODS))

    approach_height: float = setting(
        0.1, 'height of the points above the places', unit='m', low=0.0, high=0.5
    )
    approach_speed: float = setting(
        0.1,
        'TCP speed within approach_distance of a place other than home, before and after it',
        unit='m/s',
        low=0.005,
        high=0.5,
    )
    approach_distance: float = setting(
        0.015,
        'distance from a place other than home within which approach_speed applies',
        unit='m',
        low=0.001,
        high=0.5,
    )
    grasp_retries: int = setting(
        1, 'how often a missed grasp is retried, from above the place', low=0, high=10
    )
    part_mass: float = setting(0.08, 'mass of the part', unit='kg', low=0.0, high=35.0)
    part_centre: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        'centre of gravity of the part in the TCP frame',
        unit='m',
        low=-1.0,
        high=1.0,
        length=3,
    )

    def part_load(self, scene: Scene, held: Array | None = None) -> Load:
        """Return the part as a load in tool0; `held` is T_tcp_part if not as the scene says."""
        centre = np.array([*self.part_centre, 1.0])
        if scene.part and held is not None:
            centre = held @ inverse_transform(scene.part.T_tcp_part) @ centre
        return Load(self.part_mass, (scene.tool.T_tool_tcp @ centre)[:3], T_tcp_part=held)


@dataclass(frozen=True)
class PlannedStage:
    """A stage, or several moves without a stop between them, and their planned motion."""

    steps: tuple[Step, ...]
    motion: PlannedMotion | None = None  # through all moves; None for an action
    remark: str = ''  # how it was planned, if not as the cycle file requests
    passes: tuple[float, ...] = ()  # when each move but the last ends [s]
    # up and down after a missed grasp; empty without retries. If these cannot be planned, `remark`
    # says why
    retry: tuple[PlannedMotion, ...] = ()
    method: str = ''  # the closed loop whose roll-out the motion is; empty for a trajectory
    speed: float = 0.0  # its bound on the speed of TCP and elbow [m/s]; 0 = none of its own
    placed_parts: tuple[Box, ...] = ()  # the parts at other places meanwhile
    # the part that it carries or grips; None = as the scene says
    part: Load | None = None

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(step.stage for step in self.steps)

    @property
    def is_carrying(self) -> bool:
        """Whether `motion` was planned with a part in the gripper; `retry` is without."""
        return bool(self.steps) and self.steps[0].is_carrying

    @property
    def moved(self) -> PlannedMotion:
        assert self.motion is not None, self.steps
        return self.motion

    @property
    def name(self) -> str:
        return ', '.join(stage.name for stage in self.stages)


class StageTracker:
    """Finds where in its motion the arm is, and which move it follows; calls follow the motion."""

    def __init__(self, planned: PlannedStage) -> None:
        trajectory = planned.moved.trajectory
        self._passes = planned.passes
        self._t = np.arange(0.0, trajectory.duration + _SAMPLE_STEP, _SAMPLE_STEP)
        self._path = PathTracker(trajectory.sample(self._t)[0], _LOOKAHEAD, _EQUALLY_NEAR)

    def stage_at(self, q: Array) -> int:
        """Return the index of the move at joints (6,) [rad]."""
        return bisect(self._passes, self.within(q)[0])

    def within(self, q: Array) -> tuple[float, float]:
        """Return the times of the motion [s] between which the arm is at joints (6,) [rad]."""
        self._path.advance(q)
        t = float(self._t[self._path.index])
        return t, t + _LOOKAHEAD * _SAMPLE_STEP


@dataclass(eq=False)
class CycleMotions:
    """Plans the motions of a cycle."""

    planner: MotionPlanner  # with an empty gripper
    settings: TaskSettings
    steps: Sequence[Step]
    poses: Mapping[str, TaughtPose]
    branch: str  # the arm configuration at all places other than home
    q: Array  # (6,) joints at the beginning of the next motion [rad]
    loops: LoopSettings
    on_stage: Callable[[int], object]  # takes the index of each stage before it is planned
    placed_parts: Sequence[tuple[Box, ...]]  # the parts at other places during each stage
    held: Sequence[Load]  # the part that is moved during each stage, as it is gripped
    _arms: dict[tuple[tuple[Box, ...], Load | None], MotionPlanner] = field(default_factory=dict)

    @property
    def _method(self) -> str:
        """The closed loop that follows lines; empty for whole trajectories."""
        return '' if self.settings.method == IK else self.settings.method

    def plan(self) -> tuple[PlannedStage, ...]:
        """
        Return the stages of the cycle with their planned motions.

        Raises `PlanningError`: a stage cannot be planned; names the stage and the reason.
        """
        planned: list[PlannedStage] = []
        goals_of_moves = self._goal_joints()
        number = 0
        for steps in blended_groups(self.steps):
            self.on_stage(number)
            parts, load = self.placed_parts[number], self.held[number]
            number += len(steps)
            first = steps[0]
            if first.stage.is_move:
                arm = self._arm(parts, load if first.is_carrying else None)
                moves = self._moves(arm, steps, [next(goals_of_moves) for _ in steps])
                self.q = moves[-1].moved.trajectory.q[-1]
            else:
                # A retry opens the gripper: elsewhere it would drop what it may hold.
                is_there = first.before.gripped_at == first.before.place != ''
                is_retried = first.stage.do == 'expect_part' and is_there
                retry, why_not = self._retry(self._arm(parts)) if is_retried else ((), '')
                moves = [PlannedStage(steps, remark=why_not, retry=retry)]
            planned += [replace(move, placed_parts=parts, part=load) for move in moves]
        return tuple(planned)

    def _goal_joints(self) -> Iterator[Array]:
        """Return the joints (6,) [rad] at the end of each move that make the cycle shortest."""
        stops = []
        for stage in (step.stage for step in self.steps if step.stage.is_move):
            if stage.to == HOME:
                goals = [np.array(self.poses[HOME].joints)]
            else:
                goals = self.planner.joint_goals(self._T_goal(stage.to), self.q, self.branch)
            stops.append(Stop(np.array(goals), stage.do != 'ptp'))
        planner = self.planner
        return iter(shortest_chain(planner.model, self.q, stops, planner.straight_times))

    def _T_goal(self, place: str) -> Array:
        if place == HOME:
            return forward(self.planner.model, np.array(self.poses[HOME].joints))
        return T_base_tool(place, self.poses, self.planner, self.settings)

    def _arm(self, parts: tuple[Box, ...], held: Load | None = None) -> MotionPlanner:
        """Return a planner for the arm among parts, with an empty gripper or a part in it."""
        key = parts, held
        if key not in self._arms:
            arm = self.planner.among(parts)
            self._arms[key] = arm.carrying(held) if held else arm
        return self._arms[key]

    def _moves(
        self, arm: MotionPlanner, steps: tuple[Step, ...], goals: list[Array]
    ) -> list[PlannedStage]:
        """Plan moves as one motion, or one by one where that is not possible."""
        remark = ''
        for share in _BLENDS if len(steps) > 1 and not self._method else ():
            moves = [self._as_move(*move, share) for move in zip(steps, goals, strict=True)]
            try:
                motion = arm.chain(self.q, moves)
                passes = _passes(arm, motion.trajectory, [move.T_goal for move in moves[:-1]])
                return [PlannedStage(steps, motion, passes=passes)]
            except (InvalidInput, PlanningError) as error:
                remark = remark or f'stops between moves: {error}'
        planned, q = [], self.q
        for step, q_goal in zip(steps, goals, strict=True):
            try:
                motion, why = self._move(arm, step, q, q_goal)
            except PlanningError as error:
                raise PlanningError(f'stage {step.stage.name!r}: {error}') from error
            method = '' if why or step.stage.do == 'ptp' else self._method
            speed = self._speed(step) if method else 0.0
            planned.append(
                PlannedStage((step,), motion, why or remark, method=method, speed=speed)
            )
            q = motion.trajectory.q[-1]
        return planned

    def _as_move(self, step: Step, q_goal: Array, blend: float) -> PathSegment:
        """
        Return a move.

        It is slow near places other than home; without one at either end, as a whole if its pace
        is approach.
        """
        distance, stage = self.settings.approach_distance, step.stage
        return PathSegment(
            self._T_goal(stage.to),
            blend=blend * stage.blend,
            speed=self._speed(step),
            slow_first=distance if step.before.is_at_part else 0.0,
            slow_last=distance + _LATE if step.after.is_at_part else 0.0,
            q_goal=q_goal if stage.do == 'ptp' else None,
        )

    def _speed(self, step: Step) -> float:
        near = step.before.is_at_part or step.after.is_at_part
        is_slow = near or step.stage.pace == 'approach'
        return self.settings.approach_speed if is_slow else 0.0

    def _move(
        self, arm: MotionPlanner, step: Step, q: Array, q_goal: Array
    ) -> tuple[PlannedMotion, str]:
        if step.stage.do == 'ptp':
            motion = self._ptp(arm, step, q, q_goal)
            return motion, str(motion.detour or '')
        move, method = self._as_move(step, q_goal, blend=0.0), self._method
        try:
            if not method:
                return arm.chain(q, [move]), ''
            scaling = Scaling(speed=move.speed)
            return plan_roll_out(arm, method, q, move.T_goal, scaling, self.loops), ''
        except PlanningError as error:
            if step.stage.do == 'lin':
                raise
            motion = self._ptp(arm, step, q, q_goal)
            how = f'joint motion, {motion.detour},' if motion.detour else 'joint motion'
            return motion, f'{how} instead of a straight line: {error}'

    def _ptp(self, arm: MotionPlanner, step: Step, q: Array, q_goal: Array) -> PlannedMotion:
        scaling = Scaling(speed=self._speed(step))
        if step.before.is_at_part or step.after.is_at_part:
            with contextlib.suppress(PlanningError):
                return arm.chain(q, self._clear_of_parts(arm, step, q_goal))
        if step.stage.to == HOME:
            return arm.auto(q, [q_goal], scaling)
        goals = arm.joint_goals(self._T_goal(step.stage.to), q, self.branch)
        return arm.auto(q, [q_goal, *goals], scaling)

    def _clear_of_parts(
        self, arm: MotionPlanner, step: Step, q_goal: Array
    ) -> list[PathSegment]:
        """Return a joint motion that leaves a part, and comes to one, straight up and down."""
        move, legs = self._as_move(step, q_goal, blend=0.0), list[PathSegment]()
        first, last = step.before.place, step.after.place
        if step.before.is_at_part and last != above(first):
            T_up = self._T_goal(above(first))
            legs.append(replace(move, T_goal=T_up, slow_last=0.0, q_goal=None))
            move = replace(move, slow_first=0.0, speed=move.speed if move.slow_last else 0.0)
        if step.after.is_at_part and first != above(last):
            up = PathSegment(self._T_goal(above(last)))
            q_above = arm.chain(q_goal, [up]).trajectory.q[-1]
            legs.append(replace(up, q_goal=q_above))
            move = replace(move, q_goal=None)
        return [*legs, move]

    def _retry(self, arm: MotionPlanner) -> tuple[tuple[PlannedMotion, ...], str]:
        """Plan the motions up from the missed part and down again; also why there are none."""
        if not self.settings.grasp_retries:
            return (), ''
        T = forward(arm.model, self.q)
        T[:3, 3] += self.settings.approach_height * self.planner.scene.mounting.up_base
        speed, near = self.settings.approach_speed, self.settings.approach_distance
        T_grip = forward(arm.model, self.q)
        down = PathSegment(T_grip, speed=speed, slow_last=near + _LATE)
        try:
            up = arm.chain(self.q, [PathSegment(T, speed=speed, slow_first=near)])
            return (up, arm.chain(up.trajectory.q[-1], [down])), ''
        except PlanningError as error:
            return (), f'a missed grasp is not retried: {error}'


def T_base_tool(
    place: str, poses: Mapping[str, TaughtPose], planner: MotionPlanner, settings: TaskSettings
) -> Array:
    """Return T_base_tool (4, 4) with the TCP at `place`, or above it; `place` is not home."""
    T = poses[taught_place(place)].T_base_tcp
    if is_above(place):
        T[:3, 3] += settings.approach_height * planner.scene.mounting.up_base
    return T @ inverse_transform(planner.scene.tool.T_tool_tcp)


def _passes(
    arm: MotionPlanner, trajectory: Trajectory, corners: Sequence[Array]
) -> tuple[float, ...]:
    """Return the times [s], in order, at which the TCP is nearest to each corner T_base_tool."""
    t = trajectory.dense_times(_PASSING_STEP)
    T_tool_tcp = arm.scene.tool.T_tool_tcp
    p = (forward(arm.model, trajectory.sample(t)[0]) @ T_tool_tcp)[:, :3, 3]
    times, first = [], 0
    for T in corners:
        first += int(np.linalg.norm(p[first:] - (T @ T_tool_tcp)[:3, 3], axis=1).argmin())
        times.append(float(t[first]))
    return tuple(times)


def retract_from_place(
    planner: MotionPlanner,
    q: Array,
    places: Iterable[tuple[str, Array]],
    settings: TaskSettings,
) -> PlannedStage | None:
    """
    Return a stage straight up to `approach_height` above the nearest place; None if none is near.

    A part may stand between the fingers of an arm that was stopped at a place. Any other motion
    would push it over, and the scene does not know of it.

    - `planner`: with an empty gripper or a part in it
    - `q` (6,): joints now [rad]
    - `places` (3,): names and TCP positions (`base`) of the places where a part may stand [m]

    Raises `PlanningError`: the arm cannot move straight up.
    """
    height, T = settings.approach_height, forward(planner.model, q)
    tcp = (T @ planner.scene.tool.T_tool_tcp)[:3, 3]
    up = planner.scene.mounting.up_base
    near = [(float(np.linalg.norm(p - tcp)), name, float(up @ (tcp - p))) for name, p in places]
    distance, name, above_it = min(near, default=(math.inf, '', 0.0))
    if distance >= height:
        return None
    rise = height - above_it
    if rise < _MIN_RISE * height:
        return None
    T_up = T.copy()
    T_up[:3, 3] += rise * up
    slow = max(settings.approach_distance - above_it, 0.0)
    speed = settings.approach_speed if slow else 0.0
    try:
        motion = planner.chain(q, [PathSegment(T_up, speed=speed, slow_first=slow)])
    except PlanningError as error:
        raise PlanningError(
            f'the arm is at {name} and cannot leave it straight up: {error}; jog it away first'
        ) from error
    return PlannedStage(annotate([Stage(f'leave {name}', 'lin', above(name))]), motion)
