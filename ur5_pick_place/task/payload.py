# SPDX-License-Identifier: Apache-2.0
"""The payload of the robot, with and without a part in the gripper."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ur5_pick_place.planning.scene.inertias import Load, boxes_load, joined
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.grippers.base import ANSWER_TIMEOUT, Gripper
from ur5_pick_place.task.job import SetPayload, Steps, both, perform


def _payload_of(
    scene: Scene, tool: tuple[float, tuple[float, ...]], part: Load | None
) -> SetPayload:
    """
    Return the payload: masses and centres as configured, inertia from the scene's boxes.

    - `tool`: mass [kg] and centre in tool0 [m] of the empty tool
    - `part`: the part in the gripper; None if there is none
    """
    mass, centre = tool
    load = boxes_load(mass, np.array(centre), [(s.T_tool_box, s.size) for s in scene.tool.shapes])
    if part is not None:
        shape = scene.part
        held = part.T_tcp_part
        boxes = []
        if shape:
            T = shape.T_tcp_part if held is None else held
            boxes = [(scene.tool.T_tool_tcp @ T, shape.size)]
        load = joined([load, boxes_load(part.mass, part.centre, boxes)])
    x, y, z = map(float, load.centre)
    xx, yy, zz, xy, xz, yz = map(float, load.inertia[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)])
    return SetPayload(load.mass, (x, y, z), (xx, yy, zz, xy, xz, yz))


@dataclass(eq=False)
class RobotPayload:
    """Sets the payload of the robot, and keeps what this node has set."""

    scene: Callable[[], Scene]  # returns the scene, whose boxes give the inertia
    tool: tuple[float, tuple[float, ...]]  # mass [kg] and centre in tool0 [m] of the empty tool
    part: Callable[[], Load]  # returns the part in the gripper, as it is held
    # whether the payload that was requested last includes the part; None = none was
    wanted: bool | None = None
    confirmed: bool | None = None  # the same for the one that the robot has; None = unknown
    # the same for one that was set and confirmed before its stage; None = none was
    confirmed_early: bool | None = None

    @property
    def may_have_part(self) -> bool:
        """Whether the robot's payload may include the part."""
        return self.wanted is not None and self.confirmed is not False

    def forget(self) -> None:
        """Treat the robot's payload as unknown until it is set again."""
        self.confirmed = None

    def set(self, with_part: bool) -> Steps[None]:
        """Set the payload, and wait for the robot to confirm it."""
        self.wanted, self.confirmed = with_part, None  # as the job may end before
        part = self.part() if with_part else None
        yield from perform(_payload_of(self.scene(), self.tool, part), ANSWER_TIMEOUT)
        self.confirmed = with_part

    def set_in_stage(self, with_part: bool) -> Steps[None]:
        """Set the payload of a stage, unless it was set in advance."""
        if self.confirmed_early is with_part:
            yield None  # one tick, so that the stage is seen, and can be paused in
        else:
            yield from self.set(with_part)
        self.confirmed_early = None

    def set_during(self, gripper: Gripper, with_part: bool | None) -> Steps[None]:
        """
        Wait for the fingers, and set the payload as soon as the grip is known; None = not at all.

        That is early enough: until the arm lifts the part, it rests at its place.
        """
        self.confirmed_early = None
        is_waiting = True

        def fingers() -> Steps[None]:
            nonlocal is_waiting
            yield from gripper.await_fingers()
            is_waiting = False

        def payload() -> Steps[None]:
            while is_waiting and not gripper.is_grip_known:
                yield None
            if gripper.is_grip_known and with_part is not None:
                yield from self.set(with_part)
                self.confirmed_early = with_part

        yield from both(fingers(), payload())
