# SPDX-License-Identifier: Apache-2.0
"""The payload of the robot, with and without a part in the gripper."""

from collections.abc import Sequence
from itertools import takewhile

import numpy as np

from ur5_pick_place.planning.inertias import Load, boxes_load, joined
from ur5_pick_place.planning.scene import Scene
from ur5_pick_place.task.job import SetPayload
from ur5_pick_place.task.motions import PlannedStage


def payload_of(
    scene: Scene, tool: tuple[float, tuple[float, ...]], part: Load | None
) -> SetPayload:
    """
    Return the payload: masses and centres as configured, inertia from the scene's boxes.

    Parameters
    ----------
    scene : Scene
    tool : (float, tuple)
        Mass [kg] and centre in tool0 [m] of the empty tool.
    part : Load or None
        The part in the gripper; None if there is none.

    """
    mass, centre = tool
    load = boxes_load(mass, np.array(centre), [(s.T_tool_box, s.size) for s in scene.tool.shapes])
    if part is not None:
        shape = scene.part
        boxes = [(scene.tool.T_tool_tcp @ shape.T_tcp_part, shape.size)] if shape else []
        load = joined([load, boxes_load(part.mass, part.centre, boxes)])
    x, y, z = map(float, load.centre)
    xx, yy, zz, xy, xz, yz = map(float, load.inertia[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)])
    return SetPayload(load.mass, (x, y, z), (xx, yy, zz, xy, xz, yz))


def payload_before_move(stages: Sequence[PlannedStage]) -> bool | None:
    """Return whether the payload set before the next move has the part; None = none is set."""
    for planned in takewhile(lambda planned: not planned.motion, stages):
        if planned.stages[0].do.startswith('payload_'):
            return planned.stages[0].do == 'payload_part'
    return None
