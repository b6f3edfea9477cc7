# SPDX-License-Identifier: Apache-2.0
"""
Clients' changes to the scene: objects are added, extended, moved, removed, attached and detached.

An object that cannot be accepted is recorded as refused, by topic and id, and blocks all motion
until that id is published again or removed on that topic. A known object of that id stays where it
was meanwhile. A PlanningScene with unsupported fields blocks motion until a later one is accepted
as a whole; one whose objects could not be read, until one with `is_diff` false is accepted.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

from moveit_msgs.msg import AttachedCollisionObject, CollisionObject, PlanningScene

from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.kinematics import LINK_NAMES
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, inverse_transform
from ur5_pick_place.nodes.messages.cdr import Unreadable, read_message
from ur5_pick_place.nodes.messages.conversions import numbers_to_matrix, to_seconds
from ur5_pick_place.nodes.messages.scene_messages import (
    OWN,
    REFUSED,
    move_shapes,
    read_links,
    read_shapes,
    unsupported,
)
from ur5_pick_place.nodes.tf.frames import ArmPose, Frames
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.world import AttachedObject, SceneObject, World, shown

Key = tuple[str, str]  # topic and id

OBJECT, ATTACHED, SCENE = 'collision_object', 'attached_collision_object', 'planning_scene'
KINDS = {OBJECT: CollisionObject, ATTACHED: AttachedCollisionObject, SCENE: PlanningScene}
"""The topics on which clients change the scene, with their types."""

_ADD, _REMOVE, _APPEND, _MOVE = (
    operation[0]
    for operation in (
        CollisionObject.ADD, CollisionObject.REMOVE, CollisionObject.APPEND, CollisionObject.MOVE,
    )
)  # fmt: skip
_SETTINGS: Key = (SCENE, '')  # of a scene: what is not an obstacle
_OBSTACLES: Key = (SCENE, 'obstacles')  # of a scene: there may be some that are not known
_MAX_REFUSED = 250  # a message holds 512 objects and refusals
_MAX_REASON = 400  # characters
_MAX_REFUSAL = 1000  # characters
_MAX_ID = 10_000  # characters; every id is published again with each change


class _UnknownObject(InvalidInput):
    """An object is to be attached by its id alone, and there is none of that id."""


class _Refusal(NamedTuple):
    why: str
    is_move: bool = False  # of a MOVE only: another MOVE clears it
    early: SimpleNamespace | None = None  # attached by an id that is not known yet


class SceneBook:
    """
    Keeps the world of the clients; not safe to share between threads.

    `scene`: the scene file's, whose limits apply to all objects together. `arm`: the present
    `ArmPose`; raises `InvalidInput` if it is unknown. `warn`: takes a line for the log.
    """

    def __init__(
        self,
        scene: Scene,
        frames: Frames,
        arm: ArmPose,
        warn: Callable[[str], object],
    ) -> None:
        self._scene, self._frames, self._warn = scene, frames, warn
        self._arm = arm
        self._refused: dict[Key, _Refusal] = {}
        self._world = World()

    @property
    def world(self) -> World:
        """The clients' objects, and what was refused."""
        refused = {f'{topic} {name}': r.why for (topic, name), r in self._refused.items()}
        return replace(self._world, refused=refused)

    # -- by topic: accepted, or recorded as refused ---------------------------------------------

    def take(self, topic: str, data: bytes, excess: str = '') -> str:
        """
        Accept a message, a PlanningScene as far as possible; return why it was refused, or ''.

        `excess` gives why `data` is only the head of the message, if it is.
        """
        try:
            message = read_message(data, KINDS[topic])
        except Unreadable as error:
            key = _OBSTACLES if topic == SCENE else _key(topic, error.id)
            return self._refuse(key, excess or str(error))
        return self._take_scene(message) if topic == SCENE else self._take_thing(topic, message)

    def _take_thing(self, topic: str, message: SimpleNamespace) -> str:
        thing = message if topic == OBJECT else message.object
        key, attached = _key(topic, thing.id), _key(ATTACHED, thing.id)
        lifted, before = self._lifted(topic, thing), self._refused.get(key)
        try:
            if topic == ATTACHED:
                world = self._with_attached(self._world, message)
            else:
                world = self._with_object(self._world, message)
                if thing.operation == _ADD and (early := self._taken_early(attached)):
                    world = self._with_attached(world, early)
                    lifted = [*lifted, attached]
        except Exception as error:  # what is not taken bars all motion, whatever the cause
            is_move = thing.operation == _MOVE and thing.id in self._world.objects
            is_move &= before is None or before.is_move
            # One topic may overtake the other.
            early = message if isinstance(error, _UnknownObject) else None
            return self._refuse(key, reason(error), is_move, early)
        self._accept(world, lifted, is_diff=True)
        return ''

    def _taken_early(self, key: Key) -> SimpleNamespace | None:
        """Return what was to be attached before it was known; it is tried once."""
        found = self._refused.get(key)
        if found is None:
            return None
        self._refused[key] = found._replace(early=None)
        return found.early

    def _take_scene(self, message: SimpleNamespace) -> str:
        try:
            world, refused, lifted = self._with_scene(self._world, message)
        except Exception as error:
            return self._refuse(_OBSTACLES, reason(error))
        self._accept(world, lifted, message.is_diff)
        earlier = _refused_earlier(message)
        for key, refusal in earlier.items():
            self._record(key, _Refusal(refusal))
        return '; '.join(
            [*(self._refuse(key, why) for key, why in refused.items()), *earlier.values()]
        )

    # -- by service: all or nothing --------------------------------------------------------------

    def apply(self, message: SimpleNamespace) -> None:
        """
        Accept a PlanningScene as a whole.

        Raises `InvalidInput`: a part of it cannot be accepted; nothing was changed.
        """
        world, refused, lifted = self._with_scene(self._world, message)
        refused |= _refused_earlier(message)
        if refused:
            raise InvalidInput('; '.join(refused.values()))
        self._accept(world, lifted, message.is_diff)

    # -- internal --------------------------------------------------------------------------------

    def _accept(self, world: World, lifted: Iterable[Key], is_diff: bool) -> None:
        """Take over a world; drop the refusals of `lifted`, or all of them if not `is_diff`."""
        self._world = world
        if not is_diff:
            self._refused.clear()
        for key in lifted:
            self._refused.pop(key, None)

    def _refuse(
        self,
        key: Key,
        why: str,
        is_move: bool = False,
        early: SimpleNamespace | None = None,
    ) -> str:
        topic, name = key
        why = why if len(why) <= _MAX_REASON else f'{why[:_MAX_REASON]}…'
        what = 'scene' if topic == SCENE else f'object {shown(name)}'
        if key == _SETTINGS:
            remedy = 'publish any valid scene there, a diff (is_diff true) will do'
        elif topic == SCENE:
            remedy = 'publish a whole scene (is_diff false) that is valid'
        elif name:
            remedy = f'publish it again on {topic}, or REMOVE it there'
        else:
            remedy = f'REMOVE all there with an empty id, or publish it again on {topic}'
        text = f'nothing may move, {what} of {topic} was refused: {why}; {remedy}'
        self._record(key, _Refusal(text, is_move, early))
        return f'{topic} refused, {what}: {why}'

    def _record(self, key: Key, refusal: _Refusal) -> None:
        if len(self._refused) >= _MAX_REFUSED and key not in self._refused:
            key, refusal = _OBSTACLES, _Refusal(
                f'nothing may move, more than {_MAX_REFUSED} objects were refused: publish a '
                f'whole scene (is_diff false) that is valid on {SCENE}'
            )
        self._refused[key] = refusal

    def _lifted(self, topic: str, thing: SimpleNamespace) -> list[Key]:
        """Return what is no longer refused once `thing` was accepted."""
        if thing.operation == _REMOVE and not thing.id:
            return [key for key in self._refused if key[0] == topic]
        key = _key(topic, thing.id)
        is_whole = thing.operation in (_ADD, _REMOVE)
        is_moved_again = thing.operation == _MOVE and key in self._refused
        return [key] if is_whole or (is_moved_again and self._refused[key].is_move) else []

    def _checked(self, world: World) -> World:
        replace(self._scene, world=world)
        return world

    def _with_object(self, world: World, message: SimpleNamespace) -> World:
        name, operation, known = message.id, message.operation, world.objects
        if operation not in (_ADD, _REMOVE, _APPEND, _MOVE):
            raise InvalidInput(f'operation {operation}: only ADD, APPEND, MOVE and REMOVE')
        _check_id(name)
        if operation == _REMOVE:
            if name and name not in known:
                self._warn(f'no object {shown(name)} to remove; there are: {_listed(known)}')
            return world.without_objects([name] if name else list(known))
        T = self._T_base_link(message)
        self._warn_of_subframes(message)
        if operation == _MOVE:
            if name not in known:
                raise InvalidInput(f'it is not known, so it cannot move; known: {_listed(known)}')
            if message.primitives or message.meshes or len(message.planes):
                raise InvalidInput('MOVE with shapes: leave them out, or ADD it again')
            shapes = move_shapes(known[name].shapes, message)
            return world.with_object(SceneObject(name, T, shapes))
        thing = SceneObject(name, T, read_shapes(message))
        if operation == _APPEND and name in known:
            thing = known[name].extended(thing)
        return self._checked(world.with_object(thing))

    def _warn_of_subframes(self, message: SimpleNamespace) -> None:
        if n := len(message.subframe_names):
            self._warn(
                f'object {shown(message.id)}: its {n} subframes are left out, they are not '
                "supported; publish them on TF, or give poses in the object's own frame"
            )

    def _is_frame(self, name: str) -> bool:
        with suppress(InvalidInput):
            return self._frames.T_base_frame(name, lambda _link: T_BASE_LINK_BASE) is not None
        return False

    def _T_base_link(self, message: SimpleNamespace) -> Array:
        """Return T_base_link_object (4, 4)."""
        header = message.header
        stamp = to_seconds(header.stamp)
        arm = self._frames.arm_at(stamp) if stamp else self._arm
        T_base_frame = self._frames.T_base_frame(header.frame_id, arm, stamp=stamp)
        return T_BASE_LINK_BASE @ T_base_frame @ numbers_to_matrix(message.pose)

    def _with_attached(self, world: World, message: SimpleNamespace) -> World:
        thing, known = message.object, world.attached
        name, operation = thing.id, thing.operation
        if operation not in (_ADD, _REMOVE, _APPEND):
            raise InvalidInput(
                f'operation {operation} of an attached object: only ADD, APPEND and REMOVE'
            )
        _check_id(name)
        if operation == _REMOVE:
            return self._detached(world, name)
        T_tool_link = self._frames.T_tool_link(message.link_name)
        may_touch = read_links(message.touch_links, self._frames.prefix)
        if message.weight == 0.0:
            self._warn(f'attached object {shown(name)} has no weight: torques neglect it')
        self._warn_of_subframes(thing)
        if message.detach_posture.joint_names or message.detach_posture.points:
            self._warn(
                f'attached object {shown(name)}: its detach_posture is left out, it is not '
                'supported; open the gripper by its own commands'
            )
        if thing.primitives or thing.meshes or len(thing.planes):
            T = self._T_tool_object(thing, message.link_name, T_tool_link)
            shapes = read_shapes(thing)
        elif name in world.objects:  # also if one of this id is held
            standing = world.objects[name]
            T = inverse_transform(self._T_base_link_tool()) @ standing.T_base_link_object
            shapes = standing.shapes
        elif name in known:
            held = replace(known[name], mass=message.weight, may_touch=may_touch)
            return world.with_attached(held)
        else:
            raise _UnknownObject(
                'it has no shapes and is not an object of the scene: give its shapes, or add it '
                f'first; there are: {_listed(world.objects)}'
            )
        if operation == _APPEND and name in known:
            old = known[name]
            T_new_old = inverse_transform(T) @ old.T_tool_object
            kept = (replace(p, T_object_shape=T_new_old @ p.T_object_shape) for p in old.shapes)
            shapes = (*kept, *shapes)
        held = AttachedObject(name, T, shapes, message.weight, may_touch)
        return self._checked(world.without_objects([name]).with_attached(held))

    def _T_tool_object(self, thing: SimpleNamespace, link: str, T_tool_link: Array) -> Array:
        """Return T_tool_object (4, 4) of an object that is given with its shapes."""
        frame, T = thing.header.frame_id, numbers_to_matrix(thing.pose)
        if frame and frame == link:
            return T_tool_link @ T
        if frame and self._frames.is_link(frame):
            return self._frames.T_tool_link(frame) @ T
        stamp = to_seconds(thing.header.stamp)
        arm = self._frames.arm_at(stamp) if stamp else self._arm
        T_tool_base = inverse_transform(arm(LINK_NAMES[-1]))
        return T_tool_base @ self._frames.T_base_frame(frame, arm, stamp=stamp) @ T

    def _T_base_link_tool(self) -> Array:
        return T_BASE_LINK_BASE @ self._arm(LINK_NAMES[-1])

    def _detached(self, world: World, name: str) -> World:
        """Return the world with an attached object detached at its present pose; '' means all."""
        known = world.attached
        if name and name not in known:
            self._warn(f'no attached object {shown(name)}; there are: {_listed(known)}')
        for held in [h for h in known.values() if name in ('', h.id)]:
            T = self._T_base_link_tool() @ held.T_tool_object
            world = world.without_attached([held.id])
            world = world.with_object(SceneObject(held.id, T, held.shapes))
        return self._checked(world)

    def _with_scene(
        self, world: World, message: SimpleNamespace
    ) -> tuple[World, dict[Key, str], list[Key]]:
        """Return the world after a PlanningScene, what was refused, and what no longer is."""
        objects = [o for o in message.world.collision_objects if o.type.db != REFUSED]
        attached = [
            a for a in message.robot_state.attached_collision_objects if a.object.type.db != OWN
        ]
        refused: dict[Key, str] = {}
        lifted: list[Key] = []
        if not message.is_diff:
            world = world.without_objects(set(world.objects) - {o.id for o in objects})
            world = world.without_attached(
                set(world.attached) - {a.object.id for a in attached}
            )
        # Objects are detached first, as in MoveIt, and attached last, as they may be new in this
        # message. One that it attaches by its id and removes, as MoveIt does, is attached earlier.
        removed = {o.id for o in objects if o.operation == _REMOVE}
        entries = [(a, a.object) for a in attached]
        detached = [e for e in entries if e[1].operation == _REMOVE]
        taken = [e for e in entries if e[1].operation != _REMOVE and e[1].id in removed]
        held = [e for e in entries if e[1].operation != _REMOVE and e[1].id not in removed]
        for topic, entries, change in (
            (ATTACHED, detached, self._with_attached),
            (ATTACHED, taken, self._with_attached),
            (OBJECT, [(o, o) for o in objects], self._with_object),
            (ATTACHED, held, self._with_attached),
        ):
            for entry, thing in entries:
                try:
                    world = change(world, entry)
                except Exception as error:
                    refused[_key(topic, thing.id)] = f'object {shown(thing.id)}: {reason(error)}'
                else:
                    lifted += self._lifted(topic, thing)
        ids = {*world.objects, *world.attached}
        wrong = unsupported(
            message,
            lambda name: self._frames.T_base_frame(name, self._arm),
            lambda name: name not in ids and self._is_frame(name),
        )
        if wrong:
            refused[_SETTINGS] = '; '.join(wrong)
        if len(message.world.octomap.octomap.data):
            refused[_OBSTACLES] = 'octomap: not supported, give objects'
        return world, refused, lifted if refused else [*lifted, _SETTINGS]


def _key(topic: str, name: str) -> Key:
    return topic, name[: _MAX_ID + 1]


def reason(error: Exception) -> str:
    """Return why a change was not accepted, in one line."""
    if isinstance(error, InvalidInput):
        return str(error)
    return f'error of this package, {type(error).__name__}: {one_line(error)}; please report it'


def _check_id(name: str) -> None:
    if len(name) > _MAX_ID:
        raise InvalidInput(f'its id has {len(name)} characters: must be at most {_MAX_ID}')


def _refused_earlier(message: SimpleNamespace) -> dict[Key, str]:
    """Return what an earlier run of the planner had refused, with its own words."""
    found = {}
    for thing in message.world.collision_objects:
        if thing.type.db == REFUSED:
            topic, _, name = thing.id.partition(' ')
            own = _SETTINGS if (topic, name) == _SETTINGS else _OBSTACLES
            key = _key(topic, name) if topic in (OBJECT, ATTACHED) else own
            found[key] = one_line(thing.type.key[:_MAX_REFUSAL])
    return found


def _listed(things: Iterable[str]) -> str:
    names = [shown(name) for name in things]
    return ', '.join(names[:16]) + (' …' if len(names) > 16 else '') or 'none'
