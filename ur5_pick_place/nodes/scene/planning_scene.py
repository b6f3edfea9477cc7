# SPDX-License-Identifier: Apache-2.0
"""
The planning scene: the planner node owns it, the other nodes follow what it publishes.

Messages are received as bytes, which costs the executor's thread almost nothing, and are parsed
and turned into geometry in a separate thread, in the order of arrival.

"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from moveit_msgs.msg import (
    AttachedCollisionObject,
    CollisionObject,
    PlanningScene,
    PlanningSceneComponents,
)
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message

from ur5_pick_place.errors import ExecutionError, InvalidInput, InvalidRobotState, one_line
from ur5_pick_place.kinematics import link_pose
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.messages.cdr import read_message
from ur5_pick_place.nodes.messages.conversions import joint_state_msg
from ur5_pick_place.nodes.messages.scene_messages import KnownScene, read_scene, scene_message
from ur5_pick_place.nodes.ros.latched_from import LatchedFrom
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import steady_timer
from ur5_pick_place.nodes.scene.carried_part import PART_TOPIC, TASK, read_carried
from ur5_pick_place.nodes.scene.scene_book import ATTACHED, OBJECT, SCENE, SceneBook, reason
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.planning.scene.world import AttachedObject, World, shown

if TYPE_CHECKING:
    from ur5_pick_place.planning.planner import MotionPlanner


SCENE_TOPIC, SCENE_OWNER = 'monitored_planning_scene', 'trajectory_planner'
SCENE_SERVICES = ('apply_planning_scene', 'get_planning_scene')
_QUEUE = QoSProfile(depth=1000)  # a client may publish its whole scene at once
_MAX_WAITING = 50_000_000  # [bytes] not parsed yet
_HEAD = 1024  # [bytes] of a message that are parsed in any case; its id is among them
_READING, _APPLYING = 5.0, 30.0  # [s] at most
_CHECK_PERIOD = 0.5  # [s] between checks for publishers whose messages cannot be received
_UNHEARD = 'best_effort '  # begins the key of a refusal due to such a publisher
_PARTS = PlanningSceneComponents
_LARGEST_PART = 10_000  # bytes of what the task's gripper holds; a box has 400


class SceneOwner:
    """
    Keeps the clients' world, sets it in the planner and publishes it.

    `planner`: in the scene of the scene file; waits for received messages before it checks a
    motion. `present_joints`: returns the measured joints (6,) [rad], or None without recent
    joint_states. `on_change`: called in the scene's thread after the planner's scene has changed.

    """

    def __init__(
        self,
        cell: Cell,
        planner: 'MotionPlanner',
        present_joints: Callable[[], Array | None],
        on_change: Callable[[], object],
    ) -> None:
        node, frames = cell.node, cell.frames
        self._node, self._planner, self._names = node, planner, list(cell.joint_names)
        self._scene, self._present, self._on_change = planner.scene, present_joints, on_change
        self._links = frames.prefix + 'base_link', frames.prefix + 'tool0'
        warn = node.get_logger().warning
        self._book = SceneBook(planner.scene, frames, self._arm, warn)
        self._known = KnownScene(f'ur5_pick_place since {time.time_ns()}', World(), None)
        self._is_new, self._failure, self._part = True, '', b''
        self._work = _InOrder(self._settle, node.get_logger().error)
        self._publisher = node.create_publisher(PlanningScene, SCENE_TOPIC, LATCHED)
        planner.before_check = self.wait

        def subscribe(
            kind: type, topic: str, take: Callable[[bytes, str], str], qos: QoSProfile
        ) -> None:
            receive = partial(self._receive, take)
            node.create_subscription(kind, topic, receive, qos, raw=True)

        book = self._book
        subscribe(CollisionObject, 'collision_object', book.take_object, _QUEUE)
        subscribe(AttachedCollisionObject, 'attached_collision_object', book.take_attached, _QUEUE)
        subscribe(PlanningScene, 'planning_scene', book.take_scene, _QUEUE)
        self._unheard: dict[str, str] = {}
        steady_timer(node, _CHECK_PERIOD, self._find_unheard)
        LatchedFrom(node, AttachedCollisionObject, PART_TOPIC, TASK, self._receive_part)
        thread = ThreadPoolExecutor(1)  # which waits for the scene's
        for request, name, answer in (
            (ApplyPlanningScene, 'apply_planning_scene', self._apply),
            (GetPlanningScene, 'get_planning_scene', self._get),
        ):
            node.create_service(request, name, partial(node.in_pool, answer, threads=thread))
        self._work.submit(str)

    def wait(self) -> None:
        """Return once all messages received are in the planner's scene; errors as `_InOrder`."""
        self._work.wait()

    def _receive(self, take: Callable[[bytes, str], str], data: bytes) -> None:
        excess = ''
        if self._work.size + len(data) > _MAX_WAITING and len(data) > _HEAD:
            data = data[:_HEAD]  # refused under the id that this still holds
            excess = (
                f'more than {_MAX_WAITING // 1_000_000} MB of scene messages are waiting: '
                'simplify the objects, or send fewer at a time'
            )

        def change() -> str:
            self._is_new = True
            if refusal := take(data, excess):
                self._node.get_logger().error(refusal)
            return refusal

        self._work.submit(change, len(data))

    def _find_unheard(self) -> None:
        """Bar motion while somebody publishes objects that DDS does not deliver to this node."""
        unheard = {}
        for topic in (OBJECT, ATTACHED, SCENE):
            found = self._node.get_publishers_info_by_topic(topic)
            weak = sorted(
                shown(publisher.node_name)
                for publisher in found
                if publisher.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
            )
            if weak:
                unheard[_UNHEARD + topic] = (
                    f'nothing may move, {topic} has a best-effort publisher, of node '
                    f'{", ".join(weak[:4])}, whose objects do not arrive: its QoS must be '
                    'reliable; correct it, or end it'
                )
        if unheard == self._unheard:
            return
        for refusal in set(unheard.values()) - set(self._unheard.values()):
            self._node.get_logger().error(refusal)
        self._unheard = unheard

        def change() -> str:
            self._is_new = True
            return ''

        self._work.submit(change)

    def _arm(self, link: str) -> Array:
        q = self._present()
        if q is None:
            raise InvalidInput(
                'the pose of the arm is unknown, there are no recent joint_states: check that '
                'the driver is running, then publish it again'
            )
        return link_pose(self._planner.model, q, link)

    def _receive_part(self, data: bytes) -> None:
        if len(data) > _LARGEST_PART:
            self._node.get_logger().error(f'{PART_TOPIC} of {len(data)} bytes was ignored')
            return
        self._work.submit(partial(self._take_part, data), len(data))

    def _take_part(self, data: bytes) -> str:
        """Take what the task's gripper holds; return why it was refused, or ''."""
        if data == self._part:  # it is repeated before a run, which need not wait for the scene
            return ''
        self._part = data
        try:
            load, part, held = read_carried(data, self._scene.tool)
        except InvalidInput as error:
            self._node.get_logger().error(f'{PART_TOPIC} refused: {error}')
            return str(error)
        self._is_new = True
        self._planner.carry(load, part)
        self._known = self._known._replace(part=held)
        return ''

    def _settle(self) -> None:
        """Set the changed world in the planner and publish it."""
        if not self._is_new:
            return
        self._is_new, self._failure = False, ''
        world = self._book.world
        world = replace(world, refused={**self._unheard, **world.refused})
        try:
            self._planner.set_scene(replace(self._scene, world=world))
        except Exception as error:  # of a library, for an unforeseen shape
            self._failure = f'nothing may move, the scene cannot be checked: {error}'
            self._node.get_logger().error(self._failure)
            world = World(refused={'scene': self._failure})
            self._planner.set_scene(replace(self._scene, world=world))
        self._known = self._known._replace(world=world)
        # Not serialized first: rclpy appends unused bytes, which readers of recordings refuse.
        self._publisher.publish(scene_message(self._known, *self._links))
        self._on_change()

    def _apply(
        self, request: ApplyPlanningScene.Request, reply: ApplyPlanningScene.Response
    ) -> ApplyPlanningScene.Response:
        data = serialize_message(request.scene)

        def change() -> str:
            try:
                self._book.apply(read_message(data, PlanningScene))
            except Exception as error:
                return reason(error)
            self._is_new = True
            return ''

        try:
            refusal = self._work.submit(change, len(data)).result(_APPLYING) or self._failure
        except TimeoutError:
            refusal = f'not applied within {_APPLYING:.0f} s, maybe later: see get_planning_scene'
        except Exception as error:
            refusal = reason(error)
        if refusal:
            self._node.get_logger().error(f'apply_planning_scene refused: {refusal}')
        reply.success = not refusal
        return reply

    def _get(
        self, request: GetPlanningScene.Request, reply: GetPlanningScene.Response
    ) -> GetPlanningScene.Response:
        try:
            self._work.submit(str).result(_APPLYING)
        except Exception as error:  # a timeout, or an error of an earlier change
            why = 'timed out' if isinstance(error, TimeoutError) else reason(error)
            self._node.get_logger().error(
                f'get_planning_scene: the reply lacks newer changes: {why}'
            )
        wanted = request.components.components or 0xFFFFFFFF  # MoveIt's convention
        taken = self._known._replace(world=replace(self._known.world, refused={}))
        whole, scene = scene_message(taken, *self._links), reply.scene
        scene.name = self._known.name
        if wanted & _PARTS.WORLD_OBJECT_GEOMETRY:
            scene.world.collision_objects = whole.world.collision_objects
        elif wanted & _PARTS.WORLD_OBJECT_NAMES:
            scene.world.collision_objects = [
                CollisionObject(id=thing.id, type=thing.type, header=thing.header)
                for thing in whole.world.collision_objects
            ]
        if wanted & _PARTS.ROBOT_STATE_ATTACHED_OBJECTS:
            held = whole.robot_state.attached_collision_objects
            scene.robot_state.attached_collision_objects = held
        q = None
        with contextlib.suppress(InvalidRobotState):
            q = self._present()
        state = _PARTS.ROBOT_STATE | _PARTS.ROBOT_STATE_ATTACHED_OBJECTS
        if wanted & state and q is not None:
            scene.robot_state.joint_state = joint_state_msg(q, self._names)
        return reply


class SceneFollower:
    """
    Receives the scene that the planner publishes.

    `on_world`: takes the clients' world and the part that the task's gripper holds, or None;
    called in a separate thread. A scene that cannot be parsed blocks all motion. `restores`:
    whether a restarted planner gets the scene of its predecessor again. `shows_others`: see
    `LatchedFrom`.

    """

    def __init__(
        self,
        node: Node,
        frames: Frames,
        on_world: Callable[[World, AttachedObject | None], object],
        restores: bool = False,
        shows_others: bool = False,
    ) -> None:
        self._node, self._on_world = node, on_world
        self._links = frames.prefix + 'base_link', frames.prefix + 'tool0'
        self._known: KnownScene | None = None
        self._data = b''
        self._work = _InOrder(self._read, node.get_logger().error)
        self._restore = (
            node.create_publisher(PlanningScene, 'planning_scene', 10) if restores else None
        )
        LatchedFrom(
            node, PlanningScene, SCENE_TOPIC, SCENE_OWNER, self._receive, shows_others
        )

    def _receive(self, data: bytes) -> None:
        self._data = data  # the newest is complete
        if not self._work.is_waiting:
            self._work.submit(str)

    @property
    def is_current(self) -> bool:
        """Return whether the newest scene received is in use."""
        return self._work.is_idle

    def _read(self) -> None:
        data, self._data = self._data, b''
        if not data:
            return
        try:
            known = read_scene(read_message(data, PlanningScene))
            self._on_world(known.world, known.part)
        except Exception as error:  # of a library too: the scene before it is no longer true
            why = f'{SCENE_TOPIC} cannot be used, so nothing may move: {one_line(error)}'
            self._node.get_logger().error(why)
            self._on_world(World(refused={SCENE_TOPIC: why}), None)
            return
        old, self._known = self._known, known
        if old and old.name != known.name:
            self._handle_restart(old.world, known.world)

    def _handle_restart(self, old: World, new: World) -> None:
        """Log what a restarted planner has lost, and publish it again, if `restores`."""
        world = old.without_objects(new.objects).without_attached(new.attached)
        own = {key: why for key, why in old.refused.items() if not key.startswith(_UNHEARD)}
        world = replace(world, refused=own)  # the new planner looks for publishers by itself
        lost = [*world.objects, *world.attached]
        if self._restore is None or not (lost or world.refused):
            return
        names = ', '.join(map(shown, lost[:16])) or 'what was refused'
        self._node.get_logger().warning(
            f'the planner was restarted and has lost {names}: published it again; remove objects '
            'that no longer exist'
        )
        message = scene_message(KnownScene('', world, None), *self._links)
        message.is_diff = message.robot_state.is_diff = True
        self._restore.publish(message)


class _InOrder:
    """Runs work in a thread, in order, calls `settle` after each batch, and logs what fails."""

    def __init__(self, settle: Callable[[], None], log: Callable[[str], object]) -> None:
        self._settle, self._log = settle, log
        self._pool = ThreadPoolExecutor(1, thread_name_prefix='scene')
        self._lock = threading.Lock()
        self._waiting: list[tuple[Callable[[], str], Future[str]]] = []
        self._is_busy = False
        self.size = 0
        """Of all waiting work [bytes]."""

    @property
    def is_waiting(self) -> bool:
        """Return whether some work has not begun."""
        return bool(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Return whether all work is done."""
        with self._lock:
            return not self._waiting and not self._is_busy

    def submit(self, work: Callable[[], str], size: int = 0) -> 'Future[str]':
        """Queue `work`, which holds `size` [bytes]; return the future of its result."""
        done: Future[str] = Future()
        with self._lock:
            self._waiting.append((work, done))
            self.size += size
        self._pool.submit(self._drain)
        return done

    def wait(self) -> None:
        """Return once all work is done; raise `ExecutionError` if that times out."""
        if self.is_idle:
            return
        try:
            self.submit(str).result(_READING)
        except TimeoutError as error:
            why = f'timed out after {_READING} s waiting for the scene: try again, or simplify it'
            raise ExecutionError(why) from error
        except Exception as error:
            raise ExecutionError(f'the scene is not known: {reason(error)}') from error

    def _drain(self) -> None:
        with self._lock:
            batch, self._waiting, self.size = self._waiting, [], 0
            self._is_busy = True
        ends: list[Callable[[], None]] = []
        try:
            for work, done in batch:
                try:
                    ends.append(partial(done.set_result, work()))
                except Exception as error:  # the work after it is done all the same
                    ends.append(partial(done.set_exception, error))
            if batch:
                self._settle()
        except Exception as error:
            self._log(f'error of this package, in the scene: {one_line(error)}; please report it')
            ends = [partial(done.set_exception, error) for _, done in batch]
        finally:
            with self._lock:
                self._is_busy = False
            for end in ends:
                end()
