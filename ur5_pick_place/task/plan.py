# SPDX-License-Identifier: Apache-2.0
"""The whole cycle planned and checked before the first motion."""

import contextlib
import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count
from typing import Any

import numpy as np

from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.loops.rollout import plan_roll_out
from ur5_pick_place.control.stop_trajectory import resume_on_path
from ur5_pick_place.errors import ExecutionError, InvalidInput, PlanningError
from ur5_pick_place.kinematics import BRANCHES, classify, forward
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array
from ur5_pick_place.planning.limits import Scaling
from ur5_pick_place.planning.planner import MotionPlanner, PlannedMotion
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.planning.scene.scene import Box, Part, Scene, Tool
from ur5_pick_place.planning.scene.world import World
from ur5_pick_place.planning.timing.ptp import concatenate
from ur5_pick_place.task.cycle.pattern import (
    PATTERNED,
    PatternSettings,
    PlacedPart,
    check_pattern,
    grasps,
    others,
    poses_by_cycle,
    shared_spots,
)
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import annotate, blended_groups, transfers
from ur5_pick_place.task.motions import (
    CycleMotions,
    PlannedStage,
    TaskSettings,
    retract_from_place,
)
from ur5_pick_place.task.places.check import CyclePlaces
from ur5_pick_place.task.places.names import HOME, is_part_place, taught_place
from ur5_pick_place.task.places.poses import Provenance, TaughtPose, coincide, converted

SAME_POSE_IN_VAIN = 'the same pose published again changes nothing: call the service'

OnStage = Callable[[str, str, float], object]
"""Takes branch and stage being planned, and the share of that branch already planned, 0 to 1."""


@dataclass(frozen=True)
class CyclePlan:
    """A run, ready to start: one cycle, or one for each position of a pattern."""

    cycles: tuple[tuple[PlannedStage, ...], ...]  # the stages of each cycle
    branch: str  # the arm configuration at all places other than home
    q_start: Array  # (6,) joints from which the plan begins [rad]
    # what the plan depends on, as `CyclePlanner.fingerprint`; must be unchanged when it is run
    fingerprint: Mapping[str, str]
    first: int = 0  # how many cycles of the pattern were done before
    # a digest of each client's object among which it was planned, by id
    objects: Mapping[str, str] = field(default_factory=dict)

    @property
    def motion_time(self) -> float:
        """Time the arm moves [s]."""
        return sum(motion.trajectory.duration for motion in self.motions)

    @property
    def motions(self) -> list[PlannedMotion]:
        """The motions of all cycles, in order."""
        return [s.motion for stages in self.cycles for s in stages if s.motion]


@dataclass(eq=False)
class CyclePlanner:
    """
    Plans cycles, and motions home, with a `MotionPlanner`.

    `needed`: the taught places that the cycle needs, home among them.
    """

    planner: MotionPlanner
    settings: TaskSettings
    cycle: Sequence[Stage]
    provenance: Provenance  # the present robot and tool
    pattern: PatternSettings = field(default_factory=PatternSettings)
    loops: LoopSettings = field(default_factory=LoopSettings)

    def __post_init__(self) -> None:
        self.steps = annotate(self.cycle)
        self._transfers = transfers(self.steps)
        self.places = CyclePlaces(self.planner, self.settings, self.steps)
        self.needed = {HOME} | {taught_place(stage.to) for stage in self.cycle if stage.is_move}

    def plan(
        self,
        poses: Mapping[str, TaughtPose],
        q_now: Array,
        on_stage: OnStage = lambda _branch, _stage, _share: None,
        first: int = 0,
    ) -> CyclePlan:
        """
        Return a plan of every motion of a run, from the joints `q_now` (6,) [rad].

        The first `first` cycles of a pattern count as done: their parts lie at their positions.

        The places are checked first, each separately. Of the branches on which all of them are
        possible, that of home is tried first. An arm that was stopped at a place moves straight
        up before its first other motion; stages that do not move the arm keep their order, also
        before it. `on_stage` takes the progress.

        Raises `InvalidInput`: a place is not taught or cannot be converted, two are the same
        place, or all cycles of the pattern are done. `PlanningError`: a place is impossible, or
        the cycle can be planned on no branch; names place or stage, and the reason.
        """
        poses = self.converted(poses)
        scene, fingerprint = self.planner.scene, self.fingerprint(poses)
        check_pattern(self.pattern, poses)
        cycle_poses = poses_by_cycle(self.pattern, poses)
        n = len(cycle_poses)
        if first >= n:
            where = ' or '.join(place for place in PATTERNED if place in poses)
            raise InvalidInput(
                f'all {n} cycles of the pattern were done before the stop: make room for '
                f'the parts, then teach {where} again to begin with the first position '
                f'({SAME_POSE_IN_VAIN})'
            )
        placed_parts = self._placed_parts(cycle_poses)
        on_stage('', 'places', 0.0)
        possible = self.places.common_branches(cycle_poses, placed_parts, q_now)
        preferred = BRANCHES[int(classify(self.planner.model, np.array(poses[HOME].joints)))]
        leave = retract_from_place(self.planner, q_now, _touched(cycle_poses), self.settings)
        q = leave.moved.trajectory.q[-1] if leave else q_now
        refusals: list[str] = []
        for branch in sorted(possible, key=lambda b: (b != preferred, BRANCHES.index(b))):
            try:
                cycles = self._plan_on(branch, cycle_poses, placed_parts, q, on_stage, first)
                if leave:
                    cycles = (_before_moves(leave, cycles[0]), *cycles[1:])
                # Of a scene that has changed meanwhile, no object counts as planned for.
                objects = _digests(scene) if self.planner.scene is scene else {}
                return CyclePlan(cycles, branch, q_now, fingerprint, first, objects)
            except PlanningError as error:
                refusals.append(f'{branch}: {error}')
        more = f' ({len(refusals) - 1} other branches fail too)' if len(refusals) > 1 else ''
        raise PlanningError(f'the cycle cannot be planned on branch {refusals[0]}{more}')

    def converted(self, poses: Mapping[str, TaughtPose]) -> dict[str, TaughtPose]:
        """
        Return the poses that the cycle needs, converted to the present robot and tool.

        Raises `InvalidInput`: a place is not taught or cannot be converted, or two are the same
        place.
        """
        missing = sorted(self.needed - poses.keys())
        if missing:
            calls = ', '.join(f'~/teach_{name}' for name in missing)
            raise InvalidInput(f'not taught: {", ".join(missing)}; call {calls} first')
        if not poses[HOME].joints:
            raise InvalidInput(f'{HOME} was taught without joints: call ~/teach_{HOME}')
        present = {
            name: converted(name, poses[name], self.provenance, self.planner.model)
            for name in sorted(self.needed)
        }
        for one, other in combinations(filter(is_part_place, present), 2):
            if coincide(present[one], present[other]):
                raise InvalidInput(f'{one} and {other} are the same place: teach one elsewhere')
        return present

    def fingerprint(self, poses: Mapping[str, TaughtPose]) -> dict[str, str]:
        """Return a digest of each thing that a plan depends on, but for clients' objects."""
        scene = self.planner.scene
        parts = {
            # The same pose taught again, as by a client that repeats its request, changes nothing.
            **{name: replace(p, time='') for name, p in sorted(self.converted(poses).items())},
            'the scene, or what clients attached to the tool': replace(
                scene, world=replace(scene.world, objects={})
            ).fingerprint(),
            'robot, tool or settings': (
                self.provenance,
                self.settings,
                self.pattern,
                self.loops,
                self.planner.settings,
                tuple(self.cycle),
            ),
        }
        return {k: hashlib.sha256(repr(v).encode()).hexdigest() for k, v in parts.items()}

    def _placed_parts(
        self, cycle_poses: Sequence[Mapping[str, TaughtPose]]
    ) -> tuple[tuple[tuple[Box, ...], ...], ...]:
        """Return the parts at other places, for each stage of each cycle."""
        scene = self.planner.scene
        if (part := scene.part) is None:
            return tuple(((),) * len(self.cycle) for _ in cycle_poses)
        groups, moved = blended_groups(self.steps), self._transfers
        spots = shared_spots(cycle_poses[0], self.pattern.gridded, part)
        boxes: dict[tuple[PlacedPart, ...], tuple[Box, ...]] = {}  # equal parts, one object
        found = []
        for i, poses in enumerate(cycle_poses):
            T_tcp_parts = grasps(poses, moved, spots, part)
            of_cycle: list[tuple[Box, ...]] = []
            for steps in groups:
                near = (steps[0].before.place, *(step.after.place for step in steps))
                parts = others(cycle_poses, i, moved, steps[0].released, near, spots)
                if parts not in boxes:
                    boxes[parts] = self._boxes(parts, part, T_tcp_parts)
                of_cycle += [boxes[parts]] * len(steps)
            found.append(tuple(of_cycle))
        return tuple(found)

    def _boxes(
        self, parts: Sequence[PlacedPart], shape: Part, T_tcp_parts: Sequence[Array]
    ) -> tuple[Box, ...]:
        """Return parts as boxes, given T_tcp_part of each transfer."""
        scene = self.planner.scene
        taken = {box.name for box in scene.boxes} | {piece.name for piece in scene.tool.shapes}
        names = (name for k in count(1) if (name := f'part {k}') not in taken)
        return tuple(
            Box(
                next(names),
                T_BASE_LINK_BASE
                @ pose.T_base_tcp
                @ (shape.T_tcp_part if transfer < 0 else T_tcp_parts[transfer]),
                shape.size,
                is_part=True,
            )
            for pose, transfer in parts
        )

    def _plan_on(
        self,
        branch: str,
        cycle_poses: Sequence[Mapping[str, TaughtPose]],
        placed_parts: Sequence[tuple[tuple[Box, ...], ...]],
        q: Array,
        on_stage: OnStage,
        first: int,
    ) -> tuple[tuple[PlannedStage, ...], ...]:

        def enter(number: int) -> None:
            share = (len(planned) + number / len(self.cycle)) / (len(cycle_poses) - first)
            on_stage(branch, self.cycle[number].name, share)

        planned: list[tuple[PlannedStage, ...]] = []
        # All cycles with a feeder are equal.
        known: dict[tuple[Any, ...], tuple[PlannedStage, ...]] = {}
        for i in range(first, len(cycle_poses)):
            places = cycle_poses[i]
            key = (*places.values(), placed_parts[i], q.tobytes())
            if key not in known:
                motions = CycleMotions(
                    self.planner,
                    self.settings,
                    self.steps,
                    places,
                    branch,
                    q,
                    self.loops,
                    enter,
                    placed_parts[i],
                    self._held(places),
                )
                try:
                    known[key] = motions.plan()
                except PlanningError as error:
                    n = len(cycle_poses)
                    where = f'cycle {i + 1} of {n}, ' if n > 1 else ''
                    raise PlanningError(f'{where}{error}') from error
            planned.append(known[key])
            moves = [s.motion.trajectory for s in known[key] if s.motion]
            q = moves[-1].q[-1] if moves else q
        return tuple(planned)

    def _held(self, poses: Mapping[str, TaughtPose]) -> list[Load]:
        """Return, for each stage of a cycle, the part that is moved, as it is gripped."""
        scene = self.planner.scene
        as_given = self.settings.part_load(scene)
        moved, part = self._transfers, scene.part
        if not moved or part is None:
            return [as_given] * len(self.cycle)
        loads = [
            as_given if T is part.T_tcp_part else self.settings.part_load(scene, T)
            for T in grasps(poses, moved, shared_spots(poses, self.pattern.gridded, part), part)
        ]
        return [loads[min(step.released, len(moved) - 1)] for step in self.steps]

    def check_unchanged(self, plan: CyclePlan, poses: Mapping[str, TaughtPose]) -> None:
        """
        Refuse a plan that something makes invalid which has changed since.

        Raises `ExecutionError`: names what has changed. `PlanningError`: names the stage in whose
        way an object stands now, or the object that was not accepted.
        """
        now = self.fingerprint(poses)
        if changed := sorted(k for k in now if now[k] != plan.fingerprint.get(k)):
            raise ExecutionError(f'{", ".join(changed)} changed since ~/plan: plan again')
        scene = self.planner.scene
        if scene.world.refusal:
            raise PlanningError(scene.world.refusal)
        digests = _digests(scene)
        moved = {k: v for k, v in scene.world.objects.items() if digests[k] != plan.objects.get(k)}
        if not moved:
            return
        arm = copy.copy(self.planner)  # the rest of the scene is as it was
        arm.set_scene(replace(scene, boxes=(), world=replace(scene.world, objects=moved)))
        arms: dict[Load | None, MotionPlanner] = {None: arm}
        # Cycles, and stages of them, may be the same object.
        stages = {id(s): s for stages in plan.cycles for s in stages}
        for stage in stages.values():
            part = stage.part if stage.is_carrying else None
            if part and part not in arms:
                arms[part] = arm.carrying(part)
            moves = [(arms[part], stage.motion)] if stage.motion else []
            for moving, motion in [*moves, *((arm, motion) for motion in stage.retry)]:
                if why := moving.why_blocked(motion.trajectory.path):
                    raise PlanningError(
                        f'an object is in the way of stage {stage.name!r} since ~/plan: {why}; '
                        'plan again, or remove it'
                    )

    def motions_home(
        self,
        poses: Mapping[str, TaughtPose],
        q_now: Array,
        held: Load | None = None,
        placed_parts: Sequence[Box] = (),
    ) -> tuple[PlannedMotion, ...]:
        """
        Return a motion home, or one up and one home.

        An arm at a place of the cycle moves straight up first, or not at all. Elsewhere it moves
        up first if the direct motion is blocked, then home round obstacles; if it cannot move up,
        it goes home round them at once.

        - `q_now` (6,) [rad]
        - `held`: the part in the gripper
        - `placed_parts`: parts at other positions

        Raises `InvalidInput`: home is not taught or cannot be converted. `PlanningError`: no
        motion home can be planned, or the arm cannot leave a place straight up.
        """
        if HOME not in poses:
            raise InvalidInput(f'{HOME} is not taught: call ~/teach_{HOME} first')
        home = converted(HOME, poses[HOME], self.provenance, self.planner.model)
        q_home, planner = np.array(home.joints), self._arm(held, placed_parts)
        places = _touched(poses_by_cycle(self.pattern, self._known_places(poses)))
        if leave := retract_from_place(self._arm(held), q_now, places, self.settings):
            q_up = leave.moved.trajectory.q[-1]
            return leave.moved, planner.auto(q_up, [q_home], Scaling())
        with contextlib.suppress(PlanningError):
            return (planner.ptp(q_now, q_home, Scaling()),)
        T = forward(planner.model, q_now)
        T[:3, 3] += self.settings.approach_height * planner.scene.mounting.up_base
        with contextlib.suppress(PlanningError):
            up = planner.lin(q_now, [T], Scaling(speed=self.settings.approach_speed))
            return up, planner.auto(up.trajectory.q[-1], [q_home], Scaling())
        return (planner.auto(q_now, [q_home], Scaling()),)

    def _known_places(self, poses: Mapping[str, TaughtPose]) -> dict[str, TaughtPose]:
        """Return the cycle's places that are taught, converted; as taught where that fails."""
        known = {name: poses[name] for name in self.needed & poses.keys()}
        for name, pose in known.items():
            with contextlib.suppress(InvalidInput):
                known[name] = converted(name, pose, self.provenance, self.planner.model)
        return known

    def replan_rest(
        self,
        planned: PlannedStage,
        q_now: Array,
        within: tuple[float, float],
        held: Load | None,
        placed_parts: Sequence[Box],
    ) -> PlannedMotion:
        """
        Return the remaining motion, from joints on its path or beside it.

        `within` has two times of the motion [s], between which the arm is now. A controller that
        brakes each joint by itself leaves the path: the arm returns to it first, straight up if a
        part may stand below it. Raises `PlanningError` if the motion cannot be planned.
        """
        assert planned.motion is not None
        planner = self._arm(held, placed_parts)
        if planned.method:
            T_goal = forward(planner.model, planned.motion.trajectory.q[-1])
            return plan_roll_out(
                planner, planned.method, q_now, T_goal, Scaling(speed=planned.speed), self.loops
            )
        settings = planner.settings
        limits = planner.limits.scaled(settings.velocity_scaling, settings.acceleration_scaling)
        motion, dynamics = planned.motion.trajectory, planner.dynamics
        rest = resume_on_path(motion, q_now, limits, within, dynamics)
        legs = []
        if np.abs(rest.q[0] - q_now).max() > settings.start_tolerance:
            T_ends = forward(planner.model, motion.q[[0, -1]]) @ planner.scene.tool.T_tool_tcp
            ends = zip(('its start', 'its end'), T_ends[:, :3, 3], strict=True)
            q = q_now
            if up := retract_from_place(planner, q, ends, self.settings):
                legs.append(up.moved.trajectory)
                q = legs[-1].q[-1]
                rest = resume_on_path(motion, q, limits, dynamics=dynamics)
            legs.append(planner.ptp(q, rest.q[0]).trajectory)
        rest = concatenate([*legs, rest])
        return PlannedMotion(rest, planner.check(rest, q_now))

    def _arm(self, held: Load | None, placed_parts: Sequence[Box] = ()) -> MotionPlanner:
        planner = self.planner.among(placed_parts)
        return planner.carrying(held) if held else planner


def _touched(cycle_poses: Sequence[Mapping[str, TaughtPose]]) -> list[tuple[str, Array]]:
    """Return names and positions of the places of all cycles where a part is held or released."""
    named = (item for poses in cycle_poses for item in poses.items())
    return [(name, pose.T_base_tcp[:3, 3]) for name, pose in named if is_part_place(name)]


def _before_moves(
    leave: PlannedStage, stages: tuple[PlannedStage, ...]
) -> tuple[PlannedStage, ...]:
    """Return the stages with `leave` inserted directly before their first motion."""
    i = next((i for i, planned in enumerate(stages) if planned.motion), len(stages))
    here = replace(leave, placed_parts=stages[i].placed_parts if i < len(stages) else ())
    return (*stages[:i], here, *stages[i:])


def _digests(scene: Scene) -> dict[str, str]:
    """Return a digest of each client's object in a scene, by id."""
    return {
        name: Scene(0.0, Tool(np.eye(4)), world=World({name: thing})).fingerprint()
        for name, thing in scene.world.objects.items()
    }
