# SPDX-License-Identifier: Apache-2.0
"""MoveIt's action `move_action`: plans as `plan_kinematic_path` does and, by default, executes."""

from collections.abc import Callable
from functools import partial

from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import (
    MotionPlanRequest,
    MoveItErrorCodes,
    PlanningOptions,
    PlanningScene,
    RobotState,
    RobotTrajectory,
)
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.robot_status import RobotStatus
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages.conversions import (
    code_with_message,
    duration_to_msg,
    error_code,
    joint_state_msg,
    trajectory_to_msg,
)
from ur5_pick_place.nodes.scene.planning_scene import SceneOwner
from ur5_pick_place.nodes.trajectory_planner.goal_run import PLANNING, GoalRun, serve_goals
from ur5_pick_place.outcome import OnOutcome
from ur5_pick_place.planning.planner import PlannedMotion

Plan = Callable[
    [MotionPlanRequest, Callable[[], bool]], tuple[PlannedMotion | None, MoveItErrorCodes, float]
]
"""
Takes a request, and a callable that returns whether it is still wanted.

Returns the motion or None, the code, and the time that planning took [s].
"""

_TRACE_PERIOD = 0.05  # [s], steady clock
_MAX_TRACE = 2000  # points; beyond, every second one is dropped, repeatedly if need be
# Fields of a scene that do not affect motions.
_LABELS = ('name', 'robot_model_name', 'object_colors', 'is_diff')


class MoveAction:
    """
    The action server.

    It plans for one goal at a time, so that threads remain for other requests of the node.
    """

    def __init__(
        self, cell: Cell, scene: SceneOwner, manager: ExecutionManager, plan: Plan
    ) -> None:
        node = self._node = cell.node
        self._scene, self._manager, self._plan = scene, manager, plan
        self._names = list(cell.joint_names)
        self._is_planning = self._is_moving = False
        self._trace = _Trace(manager.status)
        self._server = serve_goals(node, manager, MoveGroup, 'move_action', self._execute)
        node.reader.every(_TRACE_PERIOD, self._trace.record)

    async def _execute(self, run: GoalRun) -> MoveGroup.Result:
        goal, result = run.goal, MoveGroup.Result()
        goal.publish_feedback(MoveGroup.Feedback(state=PLANNING))
        is_plan_only = goal.request.planning_options.plan_only
        planned = await self._planned(goal.request, result, run.is_wanted)
        # rclpy keeps a request for 10 s after its end, and any client may send a large one.
        goal.request.request = MotionPlanRequest()
        goal.request.planning_options = PlanningOptions()
        if planned is None:
            if not run.is_wanted():
                why = 'stopped or canceled while it was planned'
                result.error_code = code_with_message(MoveItErrorCodes.PREEMPTED, why)
            run.end_without_success()
        elif not is_plan_only:
            await self._move(run, planned, result)
        elif goal.is_cancel_requested:
            result.error_code = code_with_message(MoveItErrorCodes.PREEMPTED, 'canceled')
            goal.canceled()
        else:
            goal.succeed()
        return result

    async def _planned(
        self, request: MoveGroup.Goal, result: MoveGroup.Result, is_wanted: Callable[[], bool]
    ) -> PlannedMotion | None:
        """Return the motion that a goal requests, or None, and fill in the result."""
        if self._is_planning:
            result.error_code = code_with_message(
                MoveItErrorCodes.FAILURE,
                'move_action is planning for another goal: send this one again later',
            )
            return None
        self._is_planning = True
        try:
            _check_options(request.planning_options)
            planned, result.error_code, result.planning_time = await self._node.in_pool(
                self._plan, request.request, is_wanted
            )
        except InvalidInput as error:
            result.error_code = error_code(error)
            return None
        finally:
            self._is_planning = False
        if planned is not None:
            start = joint_state_msg(planned.trajectory.q[0], self._names)
            result.trajectory_start = RobotState(joint_state=start)
            motion = trajectory_to_msg(planned.trajectory, self._names)
            result.planned_trajectory = RobotTrajectory(joint_trajectory=motion)
        return planned

    async def _move(
        self, run: GoalRun, planned: PlannedMotion, result: MoveGroup.Result
    ) -> None:
        if self._is_moving:
            result.error_code = code_with_message(
                MoveItErrorCodes.CONTROL_FAILED,
                'another motion of move_action is under way: wait for its end, or cancel it',
            )
            run.end_without_success()
            return

        self._is_moving = True
        try:
            start = partial(self._start, run, planned)
            result.error_code = await run.move(start, MoveGroup.Feedback)
        finally:
            motion = JointTrajectory(joint_names=self._names, points=self._trace.end())
            result.executed_trajectory = RobotTrajectory(joint_trajectory=motion)
            self._is_moving = False

    def _start(self, run: GoalRun, planned: PlannedMotion, on_end: OnOutcome) -> None:
        self._scene.wait()
        self._manager.start(planned.trajectory, on_end, run.is_wanted)
        self._trace.begin()


class _Trace:
    """The measured joints during a motion."""

    def __init__(self, status: RobotStatus) -> None:
        self._status, self._is_on = status, False
        self._points: list[JointTrajectoryPoint] = []
        self._every, self._calls, self._began = 1, 0, 0.0

    def begin(self) -> None:
        self._points, self._every, self._calls = [], 1, 0
        self._began, self._is_on = self._status.stamp, True
        self.record()

    def record(self) -> None:
        """Record the present joints; to be called periodically."""
        status = self._status
        if not self._is_on or status.q is None or status.qd is None:
            return
        if self._calls % self._every == 0:
            self._points.append(
                JointTrajectoryPoint(
                    positions=status.q.tolist(),
                    velocities=status.qd.tolist(),
                    time_from_start=duration_to_msg(max(0.0, status.stamp - self._began)),
                )
            )
        self._calls += 1
        if len(self._points) >= _MAX_TRACE:
            del self._points[1::2]
            self._every *= 2

    def end(self) -> list[JointTrajectoryPoint]:
        """Stop recording and return the points."""
        self.record()
        self._is_on = False
        points, self._points = self._points, []
        return points


def _check_options(options: PlanningOptions) -> None:
    """Refuse options that are not supported, by name; the others only tune these."""
    for name in ('look_around', 'replan'):
        if getattr(options, name):
            raise InvalidInput(
                f'planning_options.{name} is not supported: set it false; a motion whose path '
                'becomes blocked is stopped, plan again'
            )
    if changed := _contents(options.planning_scene_diff):
        raise InvalidInput(
            f'planning_options.planning_scene_diff holds {", ".join(changed)}: leave it empty, '
            'and apply it with apply_planning_scene first'
        )


def _contents(scene: PlanningScene) -> list[str]:
    """Return the names of the fields of a scene that are not empty."""
    empty = PlanningScene()
    empty.robot_state.is_diff = scene.robot_state.is_diff
    names = [name for name in scene.get_fields_and_field_types() if name not in _LABELS]
    return [name for name in names if getattr(scene, name) != getattr(empty, name)]
