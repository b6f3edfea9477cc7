# SPDX-License-Identifier: Apache-2.0
"""`PickPlaceClient`: the cell from a script or a notebook."""

import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import CollisionObject, PlanningSceneComponents
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene, GetPositionFK, GetPositionIK
from numpy.typing import ArrayLike
from shape_msgs.msg import SolidPrimitive
from std_srvs.srv import SetBool, Trigger

from ur5_pick_place.client import requests
from ur5_pick_place.client.connection import PLANNER, TASK, Event
from ur5_pick_place.client.jogging import jog
from ur5_pick_place.client.link import Link
from ur5_pick_place.client.results import PlanReport, RunResult, Solutions, run_result
from ur5_pick_place.client.touch import TableTouches, TcpTouches
from ur5_pick_place.errors import (
    ExecutionError,
    InvalidInput,
    PlanningError,
    TimedOut,
    Ur5PickPlaceError,
    quoted,
)
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import (
    numbers_to_matrix,
    time_to_msg,
    to_seconds,
)
from ur5_pick_place.nodes.pick_place.teaching import stamp_text
from ur5_pick_place.task import events
from ur5_pick_place.task.machine import RUN
from ur5_pick_place.task.places.names import HOME

# All in wall-clock time [s]:
_STATE_TIME = 1.0  # by which the state may follow the reply or the event
_REPEAT = 2.0  # after which an unanswered pose is published again
_LISTENER = 5.0  # for a topic's subscriber to be discovered
_LOST = 5.0  # to wait for the outcome of a job on which the task node no longer works
_TRY_AGAIN = 5.0  # for which `rearm` repeats while the node advises to
_PAUSE = 0.1
_LOG = 1.0  # for a reason to arrive on /rosout
_REST_TIMEOUT = 3.0  # for the arm to be at rest, to touch something

_SAME_TIME = 0.5  # [s of robot time] by which the task node's time may lag behind ours
_LARGEST = 10.0  # [m] of an object
_PRESENT = 'the present joints (neither xyz nor T is given)'
_ENDS = (events.DONE, events.STOPPED)
_WORKING = ('busy', 'running', 'paused')  # how the task's state begins during a job

Kind = TypeVar('Kind', bound='PickPlaceClient')
OnEvent = Callable[[Event], object]


class PickPlaceClient:
    """
    The cell from a script or a notebook; a context manager.

    Every method blocks until its outcome is known. Interrupting a method that moves the arm, with
    Ctrl-C or the interrupt button of a notebook, stops the arm; call `rearm` before the next
    motion. If a node dies meanwhile, the method raises an error that names it.

    While one thread blocks, another may read properties and call `stop`, `pause` and `resume`.

    - `namespace`: of the cell's nodes
    - `timeout`: for the nodes to be there, and for each of their replies [s]. Motions have none:
      they end by themselves, and a slow speed slider is no fault.
    - `watch`: called about 20 times a second while a method waits; an error that it raises ends
      the method, and stops the arm as Ctrl-C does

    Raises `TimedOut`: names the nodes that are missing.
    """

    def __init__(
        self,
        namespace: str = '',
        timeout: float = 30.0,
        watch: Callable[[], object] = lambda: None,
    ) -> None:
        seconds = requests.number('timeout', timeout, 0.1, 3600.0, 's')
        self._link = Link.to_cell(namespace, seconds, watch)
        self._poses = 0  # sent to teach places

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the ROS graph; the nodes go on."""
        self._link.close()

    # -- what there is ----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """
        State of the task, such as `idle`, `running: transfer` or `stopped: <reason>`.

        Also `stopped` while the planner alone is: it refuses every motion.
        """
        self._link.check_open()
        return stopped_first(*map(self._link.received.states.__getitem__, (TASK, PLANNER)))

    @property
    def _task_state(self) -> str:
        """State of the task alone."""
        self._link.check_open()
        return self._link.received.states[TASK]

    @property
    def joints(self) -> Array:
        """Present joints (6,) [rad] in controller order; `ExecutionError` without recent ones."""
        return self._link.joints()[0].copy()

    @property
    def stamped_joints(self) -> tuple[float, Array]:
        """The robot's time of the present joints [s], and these, as `joints`."""
        q, message = self._link.joints()
        return to_seconds(message.header.stamp), q.copy()

    @property
    def tcp(self) -> Array:
        """Present pose (4, 4) of the TCP in `base_link`."""
        return self._pose_of('tcp')

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the places that can be taught, as the cycle file defines them."""
        self._link.check_open()
        return self._link.services(f'{TASK}/teach_')

    def solutions(
        self,
        T: ArrayLike | None = None,
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        frame: str | None = None,
        avoid_collisions: bool = False,
    ) -> Solutions:
        """
        Return the joint solutions of a pose on every branch, that nearest to the arm first.

        - `T`, `xyz`, `yaw_deg`, `frame`: as for `teach`
        - `avoid_collisions`: whether branches in collision count as missing

        Raises `InvalidInput`: the pose is malformed or the frame is unknown.
        """
        wanted = self._tcp_pose(xyz, yaw_deg, T, frame)
        avoids = requests.flag('avoid_collisions', avoid_collisions)
        request = requests.ik_request(wanted, 'tcp', avoids)
        reply = self._link.call(GetPositionIK, 'compute_ik_all', request)
        try:
            reasons = requests.check_code(reply.error_code, 'compute_ik_all')
        except requests.WITHOUT_SOLUTION as error:
            reasons = str(error).removeprefix('compute_ik_all: ')
        return requests.solutions(reply.solution.joint_state, reasons)

    # -- places -----------------------------------------------------------------------------------

    def teach(
        self,
        place: str,
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
    ) -> str:
        """
        Teach a place from the present joints, or from a pose of the TCP; return what was taught.

        What it returns has a warning if the arm cannot be there, or above it, in the present
        scene.

        - `place`: one of `places`
        - `xyz` (3,): point of the TCP in `frame` [m], tool down: as the arm is mounted, or along
          -z of a frame other than `base_link`
        - `yaw_deg`: angle of the TCP's x axis about the vertical [deg], 0 by default; with `xyz`
          alone
        - `T` (4, 4): pose of the TCP in `frame`, instead of `xyz`
        - `frame`: `base_link` by default

        Raises `PlanningError`: the node refuses it, as the arm cannot reach it, say, and the place
        stays as it was; gives the reason; `InvalidInput`: the pose is malformed, or there is no
        such place.
        """
        self._check_place(place)
        if xyz is None and T is None:
            requests.refuse_beside(_PRESENT, yaw_deg=yaw_deg, frame=frame)
            is_taught, message = self._trigger(f'teach_{place}')
            if not is_taught:
                raise _refusal(place, message)
            return message
        return self._teach_pose(place, self._tcp_pose(xyz, yaw_deg, T, frame))

    # -- jobs -------------------------------------------------------------------------------------

    def init_gripper(self) -> None:
        """Switch the gripper's supply on."""
        self._job('init_gripper')

    def open_gripper(self) -> None:
        """Open the gripper; a part in it falls."""
        self._job('open_gripper')

    def close_gripper(self) -> None:
        """Close the gripper."""
        self._job('close_gripper')

    def freedrive(self, on: bool = True) -> None:
        """Let the arm be guided by hand, or end that."""
        request = SetBool.Request(data=requests.flag('on', on))
        reply = self._link.call(SetBool, f'{TASK}/freedrive', request)
        if not reply.success:
            raise ExecutionError(reply.message)

    def plan(self) -> PlanReport:
        """
        Plan and check the whole run; nothing moves.

        Raises `PlanningError`: gives the node's reason, with the stage and the place.
        """
        with self._link.received.listening() as collected:
            is_planned, message = self._trigger('plan')
            if not is_planned:
                raise PlanningError(f'plan: {message}')
            self._await_state('planned')
            planned, rows = self._link.wait(
                lambda: report_on(collected, message), 'the report on the plan'
            )
        return PlanReport(
            message, planned['branch'], planned['motion_time'], planned['cycles'], tuple(rows)
        )

    def run(self, on_event: OnEvent | None = None) -> RunResult:
        """
        Run the plan to its end.

        - `on_event`: takes each event of the run, as a dictionary, in this thread

        Raises `ExecutionError`: the run was refused, or stopped early; gives the node's reason.
        """
        return run_result(self._job('run', on_event))

    def pause(self) -> None:
        """
        Bring a running cycle to rest on its path; call it from another thread than `run`.

        Raises `ExecutionError`: no cycle is running; `TimedOut`: the arm does not come to rest.
        """
        self._request('pause')
        self._link.wait_for_rest()

    def resume(self) -> None:
        """Continue a paused cycle."""
        self._request('resume')

    def stop(self) -> None:
        """
        Stop the arm, whoever moves it, and return once it is at rest; call it from any thread.

        Raises `ExecutionError`: no node has accepted the stop, or the arm does not come to rest.
        """
        self._link.stop_arm()
        with suppress(ExecutionError):  # a node has died, and the arm is at rest
            self._await_state('stopped')

    def rearm(self) -> None:
        """Allow motion again after a stop; `ExecutionError` gives what is still missing."""
        deadline = time.monotonic() + _TRY_AGAIN
        while True:
            is_armed, message = self._trigger('rearm')
            if is_armed:
                self._await_state('stopped', is_wanted=False)
                return
            if not message.endswith('try again') or time.monotonic() > deadline:
                raise ExecutionError(f'rearm refused: {message}')
            time.sleep(_PAUSE)

    def go_home(self) -> None:
        """Move to the taught home, planned from where the arm is."""
        self._job('go_home')

    # -- motion -----------------------------------------------------------------------------------

    def move_to(
        self,
        place: str = '',
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
        joints: ArrayLike | None = None,
        scaling: float = 0.0,
    ) -> None:
        """
        Move to a taught place, a pose of the TCP, or joints, round obstacles if need be.

        - `place`: one of `places`; `home` without a scaling is as `go_home`
        - `xyz`, `yaw_deg`, `T`, `frame`: as for `teach`
        - `joints` (6,): in controller order [rad]
        - `scaling`: share of the limits on velocity and acceleration, 0 to 1; 0 = the planner's
          default

        Raises `Ur5PickPlaceError`: the motion was refused or ended early; gives the planner's
        reason.
        """
        scaling = requests.number('scaling', scaling, 0.0, 1.0)
        if not isinstance(place, str) or place:
            self._check_place(place)
        if sum((bool(place), xyz is not None or T is not None, joints is not None)) != 1:
            raise InvalidInput('give one of: a place, xyz (with yaw_deg) or T, joints')
        if place or joints is not None:
            given = f'place {place!r}' if place else 'joints'
            requests.refuse_beside(given, yaw_deg=yaw_deg, frame=frame)
        if joints is not None:
            q = requests.numbers('joints', joints, 6, 'rad')
            goal = requests.joint_goal(q, self._link.received.joint_names)
        elif place == HOME and not scaling:
            self.go_home()
            return
        elif place:
            goal = self._goal_of(place)
        else:
            goal = requests.pose_goal(self._tcp_pose(xyz, yaw_deg, T, frame))
        try:
            self._move(requests.motion_goal(goal, scaling))
        except InvalidInput as error:
            if not place or place in self._link.received.taught:
                raise
            raise InvalidInput(f'{place} is not taught: teach it first ({error})') from error

    def jog(
        self,
        twist: ArrayLike | None = None,
        *,
        joints: ArrayLike | None = None,
        seconds: float = 1.0,
        frame: str | None = None,
    ) -> None:
        """
        Jog the arm at a velocity, and return once it is at rest.

        - `twist` (6,): of the TCP in `frame`, linear first [m/s], [rad/s]
        - `joints` (6,): velocities in controller order [rad/s], instead of a twist
        - `seconds`: for how long
        - `frame`: of the twist, `base_link` by default

        Raises `ExecutionError`: the planner does not subscribe, a jog was stopped, the arm does
        not move, or it covers less than 70 % of the path and the planner has logged why (an
        obstacle, a limit, a singularity, the speed slider); gives the planner's reason.
        """
        jog(self._link, lambda: self.tcp, twist, joints, seconds, frame)

    # -- the scene --------------------------------------------------------------------------------

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of the objects in the planning scene."""
        request = GetPlanningScene.Request()
        request.components.components = PlanningSceneComponents.WORLD_OBJECT_NAMES
        reply = self._link.call(GetPlanningScene, 'get_planning_scene', request)
        return tuple(thing.id for thing in reply.scene.world.collision_objects)

    def add_box(
        self,
        name: str,
        size: ArrayLike,
        *,
        xyz: ArrayLike | None = None,
        yaw_deg: float | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
    ) -> None:
        """
        Add a box to the planning scene, or replace the object of that name.

        - `size` (3,): full edges [m]
        - `xyz` (3,): centre in `frame` [m]; `yaw_deg` turns the box about z [deg]
        - `T` (4, 4): pose of its centre in `frame`, instead of `xyz` and `yaw_deg`
        - `frame`: `base_link` by default

        Raises `InvalidInput`: it is malformed, or the planner refused it; gives the planner's
        reason.
        """
        edges = requests.numbers('size', size, 3, 'm')
        for edge in edges:
            requests.number('size', edge, 1e-4, _LARGEST, 'm')
        pose = requests.upright_pose(xyz, yaw_deg, T, self._mounting(frame))
        self._apply(requests.solid(name, SolidPrimitive.BOX, edges.tolist(), pose, frame))

    def add_cylinder(
        self,
        name: str,
        radius: float,
        height: float,
        *,
        xyz: ArrayLike | None = None,
        T: ArrayLike | None = None,
        frame: str | None = None,
    ) -> None:
        """Add an upright cylinder [m]; `xyz` is its centre; otherwise as `add_box`."""
        requests.number('radius', radius, 1e-4, _LARGEST, 'm')
        requests.number('height', height, 1e-4, _LARGEST, 'm')
        pose = requests.upright_pose(xyz, None, T, self._mounting(frame))
        kind = SolidPrimitive.CYLINDER
        self._apply(requests.solid(name, kind, (height, radius), pose, frame))

    def remove(self, name: str) -> None:
        """Remove an object from the planning scene; `InvalidInput` if there is none."""
        if name not in (known := self.objects):
            there = ', '.join(known) or 'none'
            raise InvalidInput(f'object {name!r} is not in the scene; there are: {there}')
        self._apply(CollisionObject(id=name, operation=CollisionObject.REMOVE))

    # -- touches ----------------------------------------------------------------------------------

    def tcp_by_touch(self) -> TcpTouches:
        """
        Return an empty series of touches that find the TCP.

        Touch one fixed point, such as a tip on the table, with the TCP at least four times, the
        tool turned by 30 degrees or more between them; call `take` each time, then `result`.
        """
        return TcpTouches(self._pose_at_rest, self._scene_file)

    def table_by_touch(self) -> TableTouches:
        """Return an empty series of touches, at least three, that find the table's height."""
        return TableTouches(self._pose_at_rest, self._scene_file, self._mounting(None))

    # -- how --------------------------------------------------------------------------------------

    def _tcp_pose(
        self, xyz: Any, yaw_deg: Any, T: ArrayLike | None, frame: str | None
    ) -> PoseStamped:
        pose = requests.tcp_pose(xyz, yaw_deg, T, self._mounting(frame))
        return requests.stamped(pose, frame)

    def _mounting(self, frame: str | None) -> Mounting:
        """Return what tells where down is in a frame; -z in others than the arm's own."""
        own = (None, f'{self._link.received.prefix}base_link')
        return Mounting.read(self._link.parameters['mounting']) if frame in own else FLOOR

    def _pose_of(self, link: str) -> Array:
        joints = self._link.joints()[1]
        # No frame means the arm's own base_link, even if a mobile base has one of that name.
        request = requests.fk_request(link, '', joints)
        return requests.fk_pose(self._link.call(GetPositionFK, 'compute_fk', request))

    def _check_place(self, place: str) -> None:
        known = self.places
        if not isinstance(place, str) or place not in known:
            raise InvalidInput(f'place {place!r} is unknown: must be one of {", ".join(known)}')

    def _trigger(self, name: str) -> tuple[bool, str]:
        """Call a service of the task node; return its success and message."""
        reply = self._link.call(
            Trigger, f'{TASK}/{name}', Trigger.Request(), lambda: self._task_state == 'planning'
        )
        return reply.success, reply.message

    def _await_state(self, *beginnings: str, is_wanted: bool = True) -> None:
        """
        Wait briefly until the state begins, or no longer begins, with one of `beginnings`.

        The state may arrive after the reply that it follows from.
        """

        def is_reached() -> bool:
            states = (self.state, self._task_state)
            return all(state.startswith(beginnings) == is_wanted for state in states)

        with suppress(TimedOut):
            self._link.wait(is_reached, 'the state', _STATE_TIME)

    def _new_stamp(self) -> Time:
        """Return the time of the cell, with nanoseconds that no pose of this client had before."""
        try:
            now = self._link.joints()[1].header.stamp
        except ExecutionError:  # for a frame that does not move
            now = time_to_msg(time.time())
        self._poses += 1
        return Time(sec=now.sec, nanosec=now.nanosec // 1000 * 1000 + self._poses % 1000)

    def _teach_pose(self, place: str, pose: PoseStamped) -> str:
        topic = f'{TASK}/{place}_pose'
        try:
            publisher = self._link.publisher(PoseStamped, topic, _LISTENER)
        except TimedOut as error:
            raise ExecutionError(f'{place} not taught: {error}; teach it from joints') from error
        pose.header.stamp = self._new_stamp()
        stamp = stamp_text(pose.header.stamp)
        deadline = time.monotonic() + self._link.timeout
        with self._link.received.listening() as collected:
            while True:
                publisher.publish(pose)
                with suppress(TimedOut):
                    answer = self._link.wait(
                        lambda: next((e for e in collected if e.get('stamp') == stamp), None),
                        f'{topic} to be answered',
                        _REPEAT,
                    )
                    break
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f'{place} not taught: no answer to {topic} within '
                        f'{self._link.timeout:g} s; look at the log of {TASK}'
                    )
        if answer['event'] == events.REFUSED:
            raise _refusal(place, answer['reason'])
        warning = answer['warning']
        return f'{place} taught{f"; warning: {warning}" if warning else ""}'

    def _request(self, name: str) -> None:
        is_done, message = self._trigger(name)
        if not is_done:
            raise ExecutionError(f'{name} refused: {message}')

    def _job(self, name: str, on_event: OnEvent | None = None) -> list[Event]:
        """
        Run a job of the task node to its end; return its events.

        Raises `ExecutionError`: it was refused, or stopped early.
        """
        if on_event is not None and not callable(on_event):
            raise InvalidInput(f'on_event = {quoted(on_event)}: must be a function of one event')
        seen: list[Event] = []
        is_over = False
        with self._link.received.listening() as collected:
            earliest = to_seconds(self._link.joints()[1].header.stamp) - _SAME_TIME
            try:
                is_accepted, message = self._trigger(name)
                if not is_accepted:
                    is_over = True
                    raise ExecutionError(f'{name} refused: {message}')
                while not is_over:
                    event = self._next(collected, name)
                    if not seen and not begins(event, name, earliest):
                        continue  # of an earlier job, maybe another client's
                    seen.append(event)
                    is_over = event['event'] in _ENDS and event['job'] == name
                    if on_event:
                        on_event(event)
            finally:
                if not is_over:
                    self._stop_on_leaving()
        self._await_state(*_WORKING, is_wanted=False)
        if event['event'] == events.STOPPED:
            stage, reason = event['stage'], event['reason']
            where = f' at stage {stage!r}' if stage and repr(stage) not in reason else ''
            done = f'; until then: {run_result(seen)}' if name == RUN else ''
            raise ExecutionError(f'{name} stopped{where}: {reason}{done}')
        return seen

    def _next(self, collected: deque[Event], job: str) -> Event:
        """Return the next event of a job; there is no limit while the task node works on it."""
        self._link.wait(
            lambda: bool(collected),
            f'{job} to end',
            _LOST,
            lambda: self._task_state.startswith(_WORKING),
        )
        return collected.popleft()

    def _stop_on_leaving(self) -> None:
        """Stop the arm while an exception is in flight; a failure is printed and noted on it."""
        in_flight = sys.exc_info()[1]
        try:
            self.stop()
        except Ur5PickPlaceError as error:
            print(error, file=sys.stderr)
            if in_flight is not None and hasattr(in_flight, 'add_note'):  # Python 3.11
                in_flight.add_note(f'{error}')

    def _goal_of(self, place: str) -> Any:
        taught = self._link.received.taught.get(place)
        # Home is defined by its joints, not by a pose.
        if place == HOME and not (taught and taught['joints']):
            raise InvalidInput(
                'scaling given for home, whose joints this client does not know, as it was taught '
                'earlier: leave scaling out, give joints, or teach home again'
            )
        if taught is None:  # before this client began: the task node publishes it as a frame
            frame = requests.stamped(np.eye(4), self._link.received.prefix + place)
            return requests.pose_goal(frame)
        if taught['joints']:
            return requests.joint_goal(np.array(taught['joints']), self._link.received.joint_names)
        pose = numbers_to_matrix(np.array(taught['pose']))
        return requests.pose_goal(requests.stamped(pose, f'{self._link.received.prefix}base'))

    def _move(self, goal: MoveGroup.Goal) -> None:
        halt = self._stop_on_leaving
        result = self._link.reach(MoveGroup, 'move_action', goal, lambda _sent: halt())
        requests.check_code(result.error_code, 'move_to')

    def _apply(self, thing: CollisionObject) -> None:
        self._link.received.forget_errors()
        request = ApplyPlanningScene.Request(scene=requests.scene_change(thing))
        if self._link.call(ApplyPlanningScene, 'apply_planning_scene', request).success:
            return
        words = 'apply_planning_scene refused: ', thing.id
        with suppress(TimedOut):  # the service has no field for the reason
            reason = self._link.wait(
                lambda: self._link.received.error(*words), 'the reason of a refusal', _LOG
            )
            raise InvalidInput(reason)
        raise InvalidInput(
            f'apply_planning_scene refused {thing.id!r}: the log of {PLANNER} gives the reason'
        )

    def _pose_at_rest(self, link: str) -> Array:
        try:
            self._link.wait(self._link.received.is_at_rest, 'the arm to be at rest', _REST_TIMEOUT)
        except TimedOut as error:
            raise ExecutionError('the arm is moving: hold it still, then touch again') from error
        return self._pose_of(link)

    def _scene_file(self) -> str:
        return str(self._link.parameters['scene_file'])


def stopped_first(task: str, planner: str) -> str:
    """Return the state of the task, or that of the planner if it alone is stopped."""
    if planner.startswith('stopped') and not task.startswith('stopped'):
        return planner
    return task


def _refusal(place: str, reason: str) -> PlanningError:
    prefix = f'{place} not taught: '
    return PlanningError(prefix + reason.removeprefix(prefix))


def begins(event: Event, job: str, earliest: float) -> bool:
    """Return whether an event reports that a job began, not before `earliest` [s of ROS time]."""
    is_of_job = event['event'] == events.STARTED and event.get('job') == job
    return is_of_job and event.get('time', 0.0) >= earliest


def report_on(collected: deque[Event], message: str) -> tuple[Event, list[dict[str, Any]]] | None:
    """Return the event `planned` that a reply speaks of, and the rows of its report."""
    planned = None
    for event in collected:
        if event['event'] == events.PLANNED:
            words = f'on {event["branch"]}, {event["motion_time"]:.1f} s'
            planned = event if words in message else None
        elif event['event'] == events.PLAN_REPORT and planned:
            return planned, event['rows']
    return None
