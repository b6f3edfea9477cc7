# SPDX-License-Identifier: Apache-2.0
"""
The planning scene: the planner node owns it, the other nodes follow what it publishes.

Messages are received as bytes, which costs the executor's thread almost nothing, and are parsed
and turned into geometry in a separate thread, in the order of arrival.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from functools import partial
from operator import attrgetter
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
from ur5_pick_place.nodes.messages.cdr import read_message, type_name
from ur5_pick_place.nodes.messages.conversions import joint_state_msg
from ur5_pick_place.nodes.messages.scene_messages import KnownScene, read_scene, scene_message
from ur5_pick_place.nodes.ros.latched_from import LatchedFrom
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.nodes.ros.service_calls import steady_timer
from ur5_pick_place.nodes.scene.carried_part import PART_TOPIC, TASK, read_carried
from ur5_pick_place.nodes.scene.scene_book import KINDS, SceneBook, reason
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.planning.scene.world import AttachedObject, World, shown

if TYPE_CHECKING:
    from ur5_pick_place.planning.planner import MotionPlanner


SCENE_TOPIC, SCENE_OWNER = 'monitored_planning_scene', 'trajectory_planner'
SCENE_SERVICES = ('apply_planning_scene', 'get_planning_scene')
_QUEUE = QoSProfile(depth=1000)  # a client may publish its whole scene at once
_MAX_WAITING = 50_000_000  # [bytes] not parsed yet
_HEAD = 1024  # [bytes] of a message that are parsed in any case; its id is among them
_EXCESS = (
    f'more than {_MAX_WAITING // 1_000_000} MB of scene messages are waiting: simplify the '
    'objects, or send fewer at a time'
)
_READING = 5.0  # [s] at most
_CHECK_PERIOD = 0.5  # [s] between checks for publishers whose messages cannot be received
_UNHEARD = 'unheard '  # begins the key of a refusal due to a publisher that cannot be received
_PARTS = PlanningSceneComponents
_LARGEST_PART = 10_000  # bytes of what the task's gripper holds; a box has 400


class SceneOwner:
    """
    Keeps the clients' world, sets it in the planner and publishes it; all that in one thread.

    `planner`: in the scene of the scene file. `recent_joints`: returns the measured joints (6,)
    [rad], or None without recent joint_states. `stop_if_blocked`: called in the scene's thread
    after the planner's scene has changed.
    """

    def __init__(
        self,
        cell: Cell,
        planner: 'MotionPlanner',
        recent_joints: Callable[[], Array | None],
        stop_if_blocked: Callable[[], object],
    ) -> None:
        self._node, self._names, frames = cell.node, list(cell.joint_names), cell.frames
        self.planner, self._scene = planner, planner.scene
        self._recent_joints, self._stop_if_blocked = recent_joints, stop_if_blocked
        self._links = frames.prefix + 'base_link', frames.prefix + 'tool0'
        node, log = self._node, self._node.get_logger()
        self._book = SceneBook(planner.scene, frames, self._arm, log.warning)
        self._known = KnownScene(f'ur5_pick_place since {time.time_ns()}', World(), None)
        self._failure, self._part = '', b''
        self._unheard: dict[str, str] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix='scene')
        self._waiting: deque[tuple[str, bytes, str]] = deque()
        self._received = self._taken = 0  # [bytes]
        self._publisher = node.create_publisher(PlanningScene, SCENE_TOPIC, LATCHED)
        for topic, kind in KINDS.items():
            receive = partial(self._receive, topic)
            node.create_subscription(kind, topic, receive, _QUEUE, raw=True)
        steady_timer(node, _CHECK_PERIOD, self._find_unheard)
        LatchedFrom(node, AttachedCollisionObject, PART_TOPIC, TASK, self._receive_part)
        for request, name, answer in (
            (ApplyPlanningScene, 'apply_planning_scene', self._apply),
            (GetPlanningScene, 'get_planning_scene', self._get),
        ):
            node.create_service(
                request, name, partial(node.in_pool, answer, threads=self._threads)
            )
        self._threads.submit(self._settle)

    def wait(self) -> None:
        """
        Return once all messages received are in the planner's scene.

        Raises `ExecutionError`: that times out.
        """
        try:
            self._threads.submit(self._take_all).result(_READING)
        except TimeoutError as error:
            why = f'timed out after {_READING} s waiting for the scene: try again, or simplify it'
            raise ExecutionError(why) from error

    def _receive(self, topic: str, data: bytes) -> None:
        excess = ''
        if self._received - self._taken + len(data) > _MAX_WAITING and len(data) > _HEAD:
            data, excess = data[:_HEAD], _EXCESS  # refused under the id that this still holds
        self._received += len(data)
        self._waiting.append((topic, data, excess))
        self._threads.submit(self._take_all)

    def _receive_part(self, data: bytes) -> None:
        if len(data) > _LARGEST_PART:
            self._node.get_logger().error(f'{PART_TOPIC} of {len(data)} bytes was ignored')
        else:
            self._receive(PART_TOPIC, data)

    def _find_unheard(self) -> None:
        """Bar motion while somebody publishes objects that DDS does not deliver to this node."""
        unheard = {}
        for topic, kind in KINDS.items():
            wanted = type_name(kind)
            found = self._node.get_publishers_info_by_topic(topic)
            for publisher in sorted(found, key=attrgetter('node_name'), reverse=True):
                what, cure = 'a best-effort publisher', 'QoS must be reliable'
                if publisher.topic_type != wanted:
                    what, cure = f'a publisher of {publisher.topic_type}', f'type must be {wanted}'
                elif publisher.qos_profile.reliability != ReliabilityPolicy.BEST_EFFORT:
                    continue
                unheard[_UNHEARD + topic] = (
                    f'nothing may move, {topic} has {what}, of node '
                    f'{shown(publisher.node_name)}, whose objects do not arrive: its {cure}; '
                    'correct it, or end it'
                )
        if unheard == self._unheard:
            return
        for refusal in set(unheard.values()) - set(self._unheard.values()):
            self._node.get_logger().error(refusal)
        self._unheard = unheard
        self._threads.submit(self._settle)

    def _arm(self, link: str) -> Array:
        q = self._recent_joints()
        if q is None:
            raise InvalidInput(
                'the pose of the arm is unknown, there are no recent joint_states: check that '
                'the driver is running, then publish it again'
            )
        return link_pose(self.planner.model, q, link)

    # -- in the scene's thread -------------------------------------------------------------------

    def _take_all(self) -> None:
        """Take what has been received, in order, and set it in the planner at once."""
        is_changed = False
        for _ in range(len(self._waiting)):
            is_changed |= self._take(*self._waiting.popleft())
        if is_changed:
            self._settle()

    def _take(self, topic: str, data: bytes, excess: str) -> bool:
        """Take a message; return whether the scene may have changed."""
        self._taken += len(data)
        if topic == PART_TOPIC:
            return self._take_part(data)
        if refusal := self._book.take(topic, data, excess):
            self._node.get_logger().error(refusal)
        return True

    def _take_part(self, data: bytes) -> bool:
        """Take what the task's gripper holds."""
        if data == self._part:  # it is repeated before a run, which need not wait for the scene
            return False
        self._part = data
        try:
            load, held = read_carried(data, self._scene)
            self.planner.carry(load)
        except Exception as error:
            self._node.get_logger().error(f'{PART_TOPIC} refused: {reason(error)}')
            return False
        self._known = self._known._replace(part=held)
        return True

    def _settle(self) -> None:
        """Set the world in the planner and publish it; an error of ours bars all motion."""
        self._failure = ''
        try:
            world = self._book.world
            self._set(replace(world, refused={**self._unheard, **world.refused}))
        except Exception as error:  # of a library too, for an unforeseen shape
            self._failure = f'nothing may move, the scene cannot be checked: {one_line(error)}'
            self._node.get_logger().error(self._failure)
            self._set(World(refused={'scene': self._failure}))

    def _set(self, world: World) -> None:
        self.planner.set_scene(replace(self._scene, world=world))
        self._known = self._known._replace(world=world)
        # Not serialized first: rclpy appends unused bytes, which readers of recordings refuse.
        self._publisher.publish(scene_message(self._known, *self._links))
        self._stop_if_blocked()

    def _apply(
        self, request: ApplyPlanningScene.Request, reply: ApplyPlanningScene.Response
    ) -> ApplyPlanningScene.Response:
        try:
            self._book.apply(read_message(serialize_message(request.scene), PlanningScene))
            self._settle()
            refusal = self._failure
        except Exception as error:
            refusal = reason(error)
        if refusal:
            self._node.get_logger().error(f'apply_planning_scene refused: {refusal}')
        reply.success = not refusal
        return reply

    def _get(
        self, request: GetPlanningScene.Request, reply: GetPlanningScene.Response
    ) -> GetPlanningScene.Response:
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
            q = self._recent_joints()
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
        self._threads = ThreadPoolExecutor(1, thread_name_prefix='scene')
        self._newest = self._taken = b''
        self._reading: Future[None] | None = None
        self._restore = (
            node.create_publisher(PlanningScene, 'planning_scene', 10) if restores else None
        )
        LatchedFrom(
            node, PlanningScene, SCENE_TOPIC, SCENE_OWNER, self._receive, shows_others
        )

    def _receive(self, data: bytes) -> None:
        self._newest = data
        self._reading = self._threads.submit(self._read)

    @property
    def is_current(self) -> bool:
        """Return whether the newest scene received is in use."""
        return self._reading is None or self._reading.done()

    def _read(self) -> None:
        if self._taken is self._newest:  # each is complete: those in between are left out
            return
        self._taken = self._newest
        try:
            known = read_scene(read_message(self._taken, PlanningScene))
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
