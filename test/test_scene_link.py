# SPDX-License-Identifier: Apache-2.0
"""Objects on `collision_object` come, grow, move and go by id; the scene file's boxes stay."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from geometry_msgs.msg import Pose
from moveit_msgs.msg import CollisionObject
from shape_msgs.msg import SolidPrimitive
from test_scene import crate, scene

from ur5_pick_place.nodes.frames import T_BASE_BASE_LINK
from ur5_pick_place.nodes.scene_link import SceneLink
from ur5_pick_place.planning.scene import Scene

ADD, REMOVE, APPEND, MOVE = (
    CollisionObject.ADD,
    CollisionObject.REMOVE,
    CollisionObject.APPEND,
    CollisionObject.MOVE,
)


class Cell:
    """A node with its frames, whose scene file has the box `post` at x = 0.5 m."""

    def __init__(self) -> None:
        self.scene = scene().with_box(crate('post'))
        self.refusals: list[str] = []
        SceneLink(self, self.scene, self, self._take, None)

    def create_subscription(self, _kind: type, _topic: str, callback: Any, *_: Any, **__: Any):
        self._hear = callback

    def get_logger(self) -> Any:
        return SimpleNamespace(error=self.refusals.append)

    def T_base_frame(self, _frame_id: str) -> np.ndarray:
        return T_BASE_BASE_LINK

    def _take(self, changed: Scene) -> None:
        self.scene = changed

    def say(self, operation: bytes, name: str, *xs: float, at: float = 0.0) -> None:
        """Publish an object at x = `at`, with a box at each of `xs` from there [m]."""
        message = CollisionObject(id=name, operation=operation)
        message.pose.position.x = at
        cube = SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[0.1] * 3)
        message.primitives = [cube] * len(xs)
        message.primitive_poses = [Pose() for _ in xs]
        for pose, x in zip(message.primitive_poses, xs, strict=True):
            pose.position.x = x
        self._hear(message)

    def added(self) -> dict[str, float]:
        """Give x [m] of each box by name; the box of the scene file is where it always was."""
        where = {box.name: round(float(box.T_base_link_box[0, 3]), 9) for box in self.scene.boxes}
        assert where.pop('post') == 0.5
        return where


@pytest.fixture
def cell() -> Cell:
    return Cell()


def test_an_object_goes_with_all_its_boxes_and_no_others(cell: Cell) -> None:
    cell.say(ADD, 'shelf', 1.0, 1.5)
    cell.say(ADD, 'shelf/top', 2.0)
    assert cell.added() == {'shelf': 1.0, 'shelf/1': 1.5, 'shelf/top': 2.0}
    cell.say(REMOVE, 'shelf')
    assert cell.added() == {'shelf/top': 2.0}
    cell.say(REMOVE, 'shelf')
    assert "no object 'shelf' to move or remove; there are: 'shelf/top'" in cell.refusals[0]


def test_the_empty_id_removes_all_that_came_by_topic(cell: Cell) -> None:
    cell.say(ADD, 'shelf', 1.0, 1.5)
    cell.say(ADD, 'bin', 2.0)
    cell.say(REMOVE, '')
    assert cell.added() == {} and not cell.refusals


@pytest.mark.parametrize('operation', [ADD, APPEND, MOVE, REMOVE])
def test_the_scene_files_boxes_are_changed_in_the_file_alone(cell: Cell, operation: bytes) -> None:
    cell.say(operation, 'post', 1.0)
    assert "'post' is a box of the scene file: change it there" in cell.refusals[0]
    assert cell.added() == {}


def test_an_object_cannot_take_the_name_of_anothers_box(cell: Cell) -> None:
    """It would stand in for it, and take it along when it goes."""
    cell.say(ADD, 'shelf', 1.0, 1.5)
    cell.say(ADD, 'shelf/1', 2.0)
    assert "two pieces are called 'shelf/1'" in cell.refusals[0]
    assert cell.added() == {'shelf': 1.0, 'shelf/1': 1.5}


def test_added_again_an_object_is_replaced_whole(cell: Cell) -> None:
    cell.say(ADD, 'shelf', 1.0, 1.5)
    cell.say(ADD, 'shelf', 3.0)
    assert cell.added() == {'shelf': 3.0}


def test_an_object_moves_with_what_was_appended_to_it(cell: Cell) -> None:
    """A move once lost it."""
    cell.say(APPEND, 'shelf', 0.0, at=1.0)
    cell.say(APPEND, 'shelf', 0.5, at=1.0)
    cell.say(MOVE, 'shelf', at=3.0)
    assert cell.added() == {'shelf': 3.0, 'shelf/1': 3.5}
    cell.say(APPEND, 'shelf', 1.0, at=3.0)
    cell.say(MOVE, 'shelf', at=1.0)
    assert cell.added() == {'shelf': 1.0, 'shelf/1': 1.5, 'shelf/2': 2.0}
