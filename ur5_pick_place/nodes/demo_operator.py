# SPDX-License-Identifier: Apache-2.0
"""Works the cell as a person would: places the cube, teaches, plans, runs, and looks."""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from typing import Any, Self

import rclpy
from builtin_interfaces.msg import Time
from control_msgs.msg import JointTrajectoryControllerState
from geometry_msgs.msg import PoseStamped
from numpy.typing import NDArray
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.kinematics import JOINT_NAMES, Model
from ur5_pick_place.nodes.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.demo_record import (
    Record,
    RunResult,
    Task,
    check_placement,
    distance,
    measure,
)
from ur5_pick_place.nodes.demo_spots import Spot
from ur5_pick_place.nodes.distro import distro
from ur5_pick_place.nodes.robot_link import LATCHED

_LOOK = 0.05  # [s] on the wall between looks at everything but messages
_REPEAT = 0.5  # [s] on the wall after which a request without effect is made again
_START_TIME = 30.0  # [s] on the wall for the nodes to be there
_MEETING_TIME = 5.0  # [s] on the wall for them to hear of each other
_REPLY_TIME = 30.0  # [s] on the wall for a service; the longest plans take some three
_SILENCE = 3.0  # [s] on the wall without a word of the arm
_CYCLE_TIME = 300.0  # [s] simulated
_SETTLING = 0.4  # [s] simulated, from the end of the run to the look at the cube
_IN_PLACE = (1e-3, math.radians(0.5))  # [m], [rad] a cube just put down may be off


class Operator:
    """
    A ROS node of the demo's own, and what is done with it; leaving the context closes it.

    Parameters
    ----------
    domain : int
        ROS_DOMAIN_ID of the nodes.
    model : Model
    T_tool_tcp : ndarray, shape (4, 4)
        Arm and tool, to make sense of the joints.
    watch : callable
        Called during every wait; raises when waiting has become pointless.
    show : callable
        Likewise, with the record so far.

    """

    def __init__(
        self,
        domain: int,
        model: Model,
        T_tool_tcp: NDArray[Any],
        watch: Callable[[], None] = lambda: None,
        show: Callable[[Record], None] = lambda _record: None,
    ) -> None:
        self.record = Record()
        """Of the present or last run."""
        self.events: list[dict[str, Any]] = []
        """Of the task node, since the beginning."""
        self._model, self._T_tool_tcp = model, T_tool_tcp
        self._watch, self._show = watch, show
        self._looked = self._heard = time.monotonic()
        self._now = 0.0  # simulated [s]
        self._planner_state = ''
        self._context = Context()
        # Ctrl-C belongs to the demo, which ends its nodes in order.
        rclpy.init(
            context=self._context, domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
        )
        self._node = Node('demo', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._connect()

    def _connect(self) -> None:
        node = self._node
        self._place_part = node.create_publisher(PoseStamped, 'sim_driver/place_part', 10)
        self._poses = {
            name: node.create_publisher(PoseStamped, f'pick_place/{name}_pose', 10)
            for name in ('start', 'target')
        }
        self._services = {
            name: node.create_client(Trigger, f'pick_place/{name}')
            for name in ('teach_home', 'init_gripper', 'plan', 'run')
        }
        for kind, topic, hear, qos in (
            (String, 'trajectory_planner/motion_state', self._hear_planner, LATCHED),
            (String, 'pick_place/event', self._hear_event, 100),
            (PoseStamped, 'sim_driver/part_pose', self._hear_part, 10),
            (JointState, 'sim_driver/finger_states', self._hear_fingers, 10),
            (
                JointTrajectoryControllerState,
                f'{distro().controller}/controller_state',
                self._hear_controller,
                qos_profile_sensor_data,
            ),
        ):
            node.create_subscription(kind, topic, hear, qos)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    # -- what it does --------------------------------------------------------------------------

    def prepare(self) -> None:
        """
        Wait for the cell, teach home where the arm is, and give the gripper power.

        Raises
        ------
        Ur5PickPlaceError
            Something was not there in time, or was refused.

        """
        for name, client in self._services.items():
            self._wait(client.service_is_ready, f'service pick_place/{name}', _START_TIME)
        self._wait(lambda: self.record.is_complete, 'word of arm, cube and fingers', _START_TIME)
        self._wait(lambda: self._planner_state == 'ready', 'the planner to be ready', _START_TIME)
        self._persist(self._teach_home)
        self._persist(lambda: self._do('init_gripper'))

    def run_cycle(self, task: Task, method: str = 'ik') -> RunResult:
        """
        Do one task, from placing the cube to measuring where it ended.

        A failure is not raised but told by the result.

        """
        result = RunResult(method, success=False, reason='', task=task)
        try:
            self._teach(task)
            begin = time.perf_counter()
            self._call('plan')
            result = dataclasses.replace(result, planning_time_s=time.perf_counter() - begin)
            self.record = Record()
            self._do('run')
            self._wait_simulated(_SETTLING)
            result = self._measured(result)
            check_placement(result)
        except Ur5PickPlaceError as error:
            return dataclasses.replace(self._measured(result), reason=str(error))
        return dataclasses.replace(result, success=True)

    def _teach_home(self) -> None:
        self._until(lambda: self._call('teach_home'), self._expect('taught', place='home'))

    def _teach(self, task: Task) -> None:
        self._put_cube(task.start)
        for name, spot in (('start', task.start), ('target', task.target)):
            message = _pose_message(spot.T_tcp)
            self._until(
                lambda name=name, message=message: self._poses[name].publish(message),
                self._expect('taught', place=name),
            )
        if task.displacement:
            self._put_cube(task.start.moved(task.displacement))

    def _put_cube(self, spot: Spot) -> None:
        def lies_there() -> bool:
            miss = distance(spot.T_part, self.record.part[-1][1])
            return all(m < allowed for m, allowed in zip(miss, _IN_PLACE, strict=True))

        message = _pose_message(spot.T_part)
        self._until(lambda: self._place_part.publish(message), lies_there)

    def _measured(self, result: RunResult) -> RunResult:
        found = measure(self.record, result.task, self._model, self._T_tool_tcp)
        return dataclasses.replace(result, **found)

    # -- how it asks and waits -----------------------------------------------------------------

    def _call(self, name: str) -> None:
        future = self._services[name].call_async(Trigger.Request())
        self._wait(future.done, f'pick_place/{name} to answer', _REPLY_TIME)
        reply = future.result()
        if not reply.success:
            raise ExecutionError(f'{name}: {reply.message}')

    def _do(self, job: str) -> None:
        """Start a job of the task node and wait for its end."""
        ended = self._expect('done', job=job)
        self._call(job)
        latest = self._now + _CYCLE_TIME
        self._wait(lambda: ended() or self._now > latest, f'{job} to end')
        if not ended():
            raise ExecutionError(f'{job} has not ended within {_CYCLE_TIME:.0f} s')

    def _wait_simulated(self, duration: float) -> None:
        end = self._now + duration
        self._wait(lambda: self._now >= end, 'simulated time to pass')

    def _expect(self, event: str, **data: Any) -> Callable[[], bool]:
        """
        Return a test whether an event has come since now.

        It raises ExecutionError if the task node has stopped or refused instead.

        """
        known = len(self.events)

        def has_come() -> bool:
            for seen in self.events[known:]:
                if seen['event'] in ('stopped', 'refused'):
                    stage = f'stage {seen["stage"]!r}: ' if seen.get('stage') else ''
                    raise ExecutionError(f'{stage}{seen["reason"]}')
                if seen['event'] == event and data.items() <= seen.items():
                    return True
            return False

        return has_come

    def _persist(self, action: Callable[[], None]) -> None:
        """Do what is refused as long as the nodes have not all heard of each other."""
        deadline = time.monotonic() + _MEETING_TIME
        while True:
            try:
                return action()
            except ExecutionError:
                if time.monotonic() > deadline:
                    raise
            again = time.monotonic() + _LOOK
            self._wait(lambda again=again: time.monotonic() > again, 'the nodes to meet')

    def _until(self, ask: Callable[[], None], has_effect: Callable[[], bool]) -> None:
        """Ask for something that may be asked for twice until its effect is seen."""
        deadline = time.monotonic() + _START_TIME
        while not has_effect():
            ask()
            again = min(time.monotonic() + _REPEAT, deadline)
            self._wait(lambda again=again: has_effect() or time.monotonic() > again, 'an effect')
            if time.monotonic() > deadline:
                raise ExecutionError('a request has had no effect')

    def _wait(self, is_done: Callable[[], bool], what: str, timeout: float = math.inf) -> None:
        """Hear what there is to hear until something is done."""
        deadline = time.monotonic() + timeout
        while not is_done():
            self._executor.spin_once(timeout_sec=_LOOK)
            now = time.monotonic()
            if now < self._looked + _LOOK:
                continue
            self._looked = now
            self._watch()
            self._show(self.record)
            if now > deadline:
                raise ExecutionError(f'waited {timeout:.0f} s in vain for {what}')
            if self.record.joints and now > self._heard + _SILENCE:
                raise ExecutionError(f'no word of the arm for {_SILENCE:.0f} s, as we waited for {what}')

    # -- what it hears -------------------------------------------------------------------------

    def _hear_planner(self, message: String) -> None:
        self._planner_state = message.data

    def _hear_event(self, message: String) -> None:
        event = json.loads(message.data)
        self.events.append(event)
        self.record.events.append(event)

    def _hear_part(self, message: PoseStamped) -> None:
        self.record.part.append((_seconds(message.header.stamp), pose_to_matrix(message.pose)))

    def _hear_fingers(self, message: JointState) -> None:
        self.record.fingers.append((_seconds(message.header.stamp), message.position))

    def _hear_controller(self, message: JointTrajectoryControllerState) -> None:
        self._heard = time.monotonic()
        self._now = t = _seconds(message.header.stamp)
        order = [message.joint_names.index(name) for name in JOINT_NAMES]
        q, q_planned = message.feedback.positions, message.reference.positions
        self.record.joints.append((t, [q[i] for i in order], [q_planned[i] for i in order]))


def _pose_message(T: NDArray[Any]) -> PoseStamped:
    message = PoseStamped(pose=matrix_to_pose(T))
    message.header.frame_id = 'base_link'
    return message


def _seconds(stamp: Time) -> float:
    return stamp.sec + stamp.nanosec * 1e-9
