# SPDX-License-Identifier: Apache-2.0
"""Jogging: velocity commands on two topics, with the names, types and frames of moveit_servo."""

import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from control_msgs.msg import JointJog
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_srvs.srv import SetBool

from ur5_pick_place.control.execution_manager import ExecutionManager
from ur5_pick_place.control.loops.jog import COMMAND_TIMEOUT, Jog
from ur5_pick_place.control.loops.jog_velocity import Command, JointVelocity, ToolVelocity
from ur5_pick_place.control.loops.loop_settings import LoopSettings
from ur5_pick_place.control.robot_status import SAFETY_REDUCED
from ur5_pick_place.errors import ExecutionError, InvalidInput, Ur5PickPlaceError, one_line
from ur5_pick_place.kinematics import link_pose
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager, moves_joints
from ur5_pick_place.nodes.messages.conversions import to_seconds
from ur5_pick_place.nodes.ros.distro import TakenMessage, servo_command_type
from ur5_pick_place.nodes.ros.qos import Unheard
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader
from ur5_pick_place.nodes.scene.planning_scene import SceneOwner
from ur5_pick_place.outcome import Outcome

_TWIST, _JOINTS = '~/delta_twist_cmds', '~/delta_joint_cmds'
_PERIOD = 0.02  # [s] between two polls of the topics
# Only the newest message counts, and a flood must not be worked off.
_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_LARGEST = 4096  # [bytes]; six joints take 400
_EARLY = 1.0  # [s] by which a sender's clock may be ahead of ours
_REPLY = 1.0  # [s] for the controller manager to answer and the gate to check
_LATE = (
    f'jog refused: controller_manager/list_controllers or the gate took more than {_REPLY} s: '
    'check the driver and the load of this PC'
)
_SAME_WARNING, _WARNING = 2.0, 0.1  # [s] between two warnings that are the same, or not
_PAUSED = 'jog refused: a client has paused jogging: call ~/pause_servo with data: false'
_NUMBER = re.compile(r'-?[\d.]+')  # a warning with other numbers is the same
_IN_A_JOB = ('running', 'paused', 'busy', 'freedrive')  # states of the task node


class Jogging:
    """
    Jogs the arm while messages come.

    A jog begins with a message after a pause: after a refusal, a stop or a command that cannot be
    read all senders must have been silent, or have sent zeros, for 0.2 s, so that nothing begins
    to move when the cause goes.

    - `task_state`: state of the task node; empty until it is known

    What clients of moveit_servo call first is answered: `~/pause_servo`, and
    `~/switch_command_type`, though commands of both types are followed at any time.
    """

    def __init__(
        self,
        cell: Cell,
        scene: SceneOwner,
        manager: ExecutionManager,
        controllers: ControllerManager,
        loops: LoopSettings,
    ) -> None:
        self._node, self._manager, self._scene = cell.node, manager, scene
        self._reader = CommandReader(cell)
        self._names, self._loops = cell.joint_names, loops
        self._controller, self._list = cell.robot.controller, controllers.lists(_REPLY)
        self.task_state = ''
        self._lock = threading.Lock()
        self._jog: Jog | None = None
        self._has_begun = False
        self._refusal = ''  # until the sender pauses
        self._since = 0.0  # steady time of the first motion command [s]
        self._last_check, self._silence = time.monotonic(), math.inf
        self._warned: tuple[str, float] = '', 0.0
        self._is_paused = False
        cell.node.create_service(SetBool, '~/pause_servo', self._on_pause)
        if kind := servo_command_type():
            cell.node.create_service(kind, '~/switch_command_type', self._on_command_type)
        cell.node.reader.every(_PERIOD, self._note_silence)
        for kind, topic, read in (
            (TwistStamped, _TWIST, self._reader.twist),
            (JointJog, _JOINTS, self._reader.joints),
        ):
            name = cell.node.resolve_topic_name(topic)
            take = partial(self._take, BoundedReader(cell.node, kind, name, _LARGEST), read)
            cell.node.reader.subscribe(kind, topic, take, _QOS, _PERIOD)
        Unheard(
            cell.node,
            (_TWIST, _JOINTS),
            lambda _topic, why: self._warn(f'jog: {why}: none of its commands arrives'),
        )

    @property
    def _is_in_a_job(self) -> bool:
        return any(self.task_state.startswith(state) for state in _IN_A_JOB)

    def figures(self) -> dict[str, str]:
        """Return what a jog waits for or is slowed by, for diagnostics."""
        with self._lock:
            jog = self._jog
        return {'jog': jog.slowed_by or 'free'} if jog else {}

    def _on_pause(
        self, request: SetBool.Request, response: SetBool.Response
    ) -> SetBool.Response:
        self._is_paused = request.data
        response.success = True
        return response

    def _on_command_type(self, request: Any, response: Any) -> Any:
        response.success = request.command_type in (request.JOINT_JOG, request.TWIST)
        return response

    def _take(
        self,
        reader: BoundedReader,
        read: Callable[[Any, Any], Command],
        waiting: Sequence[TakenMessage],
    ) -> None:
        message, q = reader.read(waiting[-1].data), self._manager.status.q
        if message is None:
            return
        try:
            command = read(message, q)
        except Ur5PickPlaceError as error:
            warning = f'jog command ignored: {error}'
            with self._lock:
                if not _is_zero(message):
                    self._ignore(warning)
        else:
            with self._lock:
                warning = self._follow(command)
        if warning:
            self._warn(warning)

    def _note_silence(self) -> None:
        """Add to the time without a motion command; a stall of this node is not counted."""
        now = time.monotonic()
        self._silence += min(now - self._last_check, 2.0 * _PERIOD)
        self._last_check = now

    def _ignore(self, reason: str) -> None:
        """Note that a sender is not silent although its command cannot be followed."""
        self._silence = 0.0
        if self._jog is None:
            self._refusal = reason

    def _follow(self, command: Command) -> str:
        """Follow a command; returns what to warn of."""
        now = time.monotonic()
        if self._is_paused and not command.is_zero:
            self._ignore(_PAUSED)  # a jog ends, as its commands do
            return _PAUSED
        has_paused = self._silence > COMMAND_TIMEOUT  # of all senders, not of one alone
        if not command.is_zero:
            self._silence = 0.0
        if self._jog is not None:
            self._jog.command(command)
            if not self._has_begun and now - self._since > _REPLY:
                self._end(_LATE)
                return self._refusal
            return f'jog: slowed down: {self._jog.slowed_by}' if self._jog.slowed_by else ''
        if has_paused:
            self._refusal = ''
        if command.is_zero:
            return ''
        if self._refusal:
            return f'{self._refusal}; release the command and give it again'
        if self._is_in_a_job:
            self._refusal = f'jog refused: pick_place is {one_line(self.task_state)}'
        elif not self._list.is_there:
            self._refusal = 'jog refused: controller_manager is not there: check the driver'
        else:
            self._begin(command, now)
        return self._refusal

    def _begin(self, command: Command, now: float) -> None:
        """Ask whether our controller is active; the jog begins with the answer."""
        status, before = self._manager.status, self._manager.interruptions
        jog = Jog(
            self._scene.planner,
            self._loops,
            command,
            lambda: status.safety_mode == SAFETY_REDUCED,
            time.monotonic,
        )
        self._jog, self._has_begun, self._since = jog, False, now

        def start(listed: Any) -> None:
            self._node.begin(self._node.in_pool, self._start, jog, before, listed)

        self._list.send(ListControllers.Request(), start)

    def _start(self, jog: Jog, before: int, listed: Any) -> None:
        def is_wanted() -> bool:
            is_ours = self._jog is jog and self._manager.interruptions == before
            return is_ours and jog.is_wanted and not self._is_in_a_job

        reason = ''
        try:
            self._check_controller(listed)
            self._scene.wait()
            self._manager.start_jog(jog, lambda outcome: self._on_end(jog, outcome), is_wanted)
        except Ur5PickPlaceError as error:
            reason = str(error).replace('motion refused', 'jog refused', 1)
        with self._lock:
            if self._jog is not jog:
                return  # it has ended or was given up
            self._has_begun = True
            if not reason:
                return
            # Nothing is logged if its command has already ended.
            is_over = not jog.is_wanted and self._manager.interruptions == before
            self._end('' if is_over else reason)
        if not is_over:
            self._warn(reason)

    def _check_controller(self, listed: Any) -> None:
        ours = [c for c in listed.controller if c.name == self._controller]
        if not ours or ours[0].state != 'active':
            state = ours[0].state if ours else 'not loaded'
            raise ExecutionError(
                f'motion refused: {self._controller} is {state}: activate it, or start the '
                'program on the robot'
            )
        if not moves_joints(ours[0], self._names):
            raise ExecutionError(
                f'motion refused: {self._controller} does not take a stream of joint positions: '
                'jogging needs a joint trajectory controller'
            )

    def _on_end(self, jog: Jog, outcome: Outcome) -> None:
        refusal = '' if outcome.ok else f'jog ended: {outcome.reason}'
        with self._lock:
            if self._jog is jog:
                self._end(refusal)
        if refusal:
            self._warn(refusal)

    def _end(self, reason: str) -> None:
        self._jog, self._refusal = None, reason

    def _warn(self, text: str) -> None:
        kind, now = _NUMBER.sub('', text), time.monotonic()
        before, at = self._warned
        if now - at > (_SAME_WARNING if kind == before else _WARNING):
            self._warned = kind, now
            self._node.get_logger().warning(one_line(text))


class CommandReader:
    """Reads commands from messages."""

    def __init__(self, cell: Cell) -> None:
        self._node, self._model, self._frames = cell.node, cell.model, cell.frames
        self._names = list(cell.joint_names)

    def twist(self, message: TwistStamped, q: Any) -> Command:
        """Return the twist of a message; `q` (6,) are the present joints [rad], or None."""
        self._check_age(message)
        linear, angular = message.twist.linear, message.twist.angular
        twist = np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z])
        if not np.isfinite(twist).all():
            raise InvalidInput(f'twist {twist.tolist()} is not finite')
        if q is None:
            raise InvalidInput('no joint_states yet; is the driver running?')
        model, frame = self._model, message.header.frame_id
        arm = partial(link_pose, model, q)
        if not self._frames.is_on_tool(frame):
            T = self._frames.T_base_frame(
                frame,
                arm,
                waits=False,
                stamp=to_seconds(message.header.stamp),
                lead=COMMAND_TIMEOUT,  # TF may be that old, as the command itself
            )
            return ToolVelocity(twist, T[:3, :3])
        R = self._frames.T_base_frame(frame, arm, waits=False)[:3, :3]
        R_base_tool = link_pose(model, q, 'wrist_3_link')[:3, :3]
        return ToolVelocity(twist, R_base_tool.T @ R, is_on_tool=True)

    def joints(self, message: JointJog, _q: Any) -> Command:
        """Return the joint velocities of a message."""
        self._check_age(message)
        names, velocities = list(message.joint_names), list(message.velocities)
        if any(message.displacements):  # zeros beside velocities are a habit of servo's clients
            raise InvalidInput('displacements are not supported: give velocities [rad/s]')
        if not names or len(names) != len(velocities):
            raise InvalidInput(
                f'{len(names)} joint_names and {len(velocities)} velocities: must be equal '
                'in number, and at least one'
            )
        unknown = [name for name in names if name not in self._names]
        twice = sorted({name for name in names if names.count(name) > 1})
        for what, which in (('unknown', unknown), ('named twice', twice)):
            if which:
                raise InvalidInput(
                    f'joints {what}: {", ".join(which)}; there are {", ".join(self._names)}'
                )
        if not np.isfinite(velocities).all():
            raise InvalidInput(f'velocities {velocities} are not finite')
        velocity = np.zeros(6)
        velocity[[self._names.index(name) for name in names]] = velocities
        return JointVelocity(velocity)

    def _check_age(self, message: Any) -> None:
        stamp = to_seconds(message.header.stamp)
        if not stamp:
            return
        age = self._node.get_clock().now().nanoseconds * 1e-9 - stamp
        if not -_EARLY <= age <= COMMAND_TIMEOUT:
            raise InvalidInput(
                f'its stamp is {abs(age):.3f} s {"old" if age > 0.0 else "ahead"}: must be at '
                f'most {COMMAND_TIMEOUT} s old and {_EARLY:.0f} s ahead in ROS time, or 0; check '
                'the clock and use_sim_time of its sender'
            )


def _is_zero(message: Any) -> bool:
    """Return whether a message requests no motion, also if it cannot be followed."""
    if isinstance(message, JointJog):
        return not any(message.velocities)
    linear, angular = message.twist.linear, message.twist.angular
    return not any((linear.x, linear.y, linear.z, angular.x, angular.y, angular.z))
