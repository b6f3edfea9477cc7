# SPDX-License-Identifier: Apache-2.0
"""The payload of the robot, with and without a part in the gripper."""

from collections.abc import Callable

import numpy as np

from ur5_pick_place.planning.scene.inertias import Load, boxes_load, joined
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.task.grippers.base import ANSWER_TIMEOUT
from ur5_pick_place.task.job import Command, SetPayload, Steps, end, perform


def _payload_of(
    scene: Scene, tool: tuple[float, tuple[float, ...]], part: Load | None
) -> SetPayload:
    """
    Return the payload: masses and centres as configured, inertia from the scene's boxes.

    Parameters
    ----------
    tool : (float, tuple)
        Mass [kg] and centre in tool0 [m] of the empty tool.
    part : Load or None
        The part in the gripper; None if there is none.

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


class RobotPayload:
    """
    Sets the payload of the robot, and keeps what this node has set.

    Parameters
    ----------
    scene : callable
        Returns the scene, whose boxes give the inertia.
    tool : (float, tuple)
        Mass [kg] and centre in tool0 [m] of the empty tool.
    part : callable
        Returns the part in the gripper, as it is held.

    Attributes
    ----------
    wanted : bool or None
        Whether the payload that was requested last includes the part; None = none was.
    confirmed : bool or None
        The same for the one that the robot has confirmed; None = unknown.
    confirmed_early : bool or None
        The same for one that was set and confirmed before its stage; None = none was.

    """

    def __init__(
        self,
        scene: Callable[[], Scene],
        tool: tuple[float, tuple[float, ...]],
        part: Callable[[], Load],
    ) -> None:
        self._scene, self._tool, self._part = scene, tool, part
        self.wanted: bool | None = None
        self.confirmed: bool | None = None
        self.confirmed_early: bool | None = None

    @property
    def may_have_part(self) -> bool:
        """Whether the robot's payload may include the part."""
        return self.wanted is not None and self.confirmed is not False

    def forget(self) -> None:
        """Treat the robot's payload as unknown until it is set again."""
        self.confirmed = None

    def set(self, with_part: bool) -> Steps[None]:
        """Set the payload, and wait for the robot to confirm it."""
        self._expect(with_part)
        yield from perform(self._command(with_part), ANSWER_TIMEOUT)
        self.confirmed = with_part

    def set_in_stage(self, with_part: bool) -> Steps[None]:
        """Set the payload of a stage, unless it was set in advance."""
        if self.confirmed_early is with_part:
            yield None  # one tick, so that the stage is seen, and can be paused in
        else:
            yield from self.set(with_part)
        self.confirmed_early = None

    def set_during(
        self, wait: Callable[[Command | None], Steps[bool]], with_part: bool | None
    ) -> Steps[None]:
        """
        Wait for the fingers by `wait`, and set the payload meanwhile; None = it is not set.

        That is early enough: the table carries the part until the arm lifts it.

        """
        command = None if with_part is None else self._command(with_part)
        was_issued = yield from self._record_request(wait(command), command, with_part)
        self.confirmed_early = with_part if was_issued else None
        if was_issued:
            self.confirmed = with_part

    def _record_request(
        self, steps: Steps[bool], command: SetPayload | None, with_part: bool | None
    ) -> Steps[bool]:
        """Run `steps`; record the payload as requested when they issue `command`."""
        try:
            issued = next(steps)
            while True:
                if command is not None and issued is command:
                    self._expect(with_part)
                issued = steps.send((yield issued))
        except StopIteration as ended:
            return bool(ended.value)
        finally:
            end(steps)

    def _expect(self, with_part: bool | None) -> None:
        # Unknown until it is confirmed, as the job may end before.
        self.wanted, self.confirmed = with_part, None

    def _command(self, with_part: bool) -> SetPayload:
        return _payload_of(self._scene(), self._tool, self._part() if with_part else None)
