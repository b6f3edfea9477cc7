# SPDX-License-Identifier: Apache-2.0
"""Objects of the planning scene, added and removed from a script."""

from contextlib import suppress

from moveit_msgs.msg import CollisionObject, PlanningSceneComponents
from moveit_msgs.srv import ApplyPlanningScene, GetPlanningScene
from numpy.typing import ArrayLike
from shape_msgs.msg import SolidPrimitive

from ur5_pick_place.client import requests
from ur5_pick_place.client.cell_reader import CellReader
from ur5_pick_place.client.link import PLANNER
from ur5_pick_place.errors import InvalidInput, TimedOut

_LOG = 1.0  # [s] for a reason to arrive on /rosout
_LARGEST = 10.0  # [m] of an object


class SceneEditing(CellReader):
    """Adds, removes and lists objects; raises an error for what the planner refuses."""

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

        Parameters
        ----------
        size : array_like, shape (3,)
            Full edges [m].
        xyz : array_like, shape (3,)
            Centre in `frame` [m]; `yaw_deg` turns the box about z [deg].
        T : array_like, shape (4, 4)
            Pose of its centre in `frame`, instead of `xyz` and `yaw_deg`.
        frame : str, optional
            `base_link` by default.

        Raises
        ------
        InvalidInput
            It is malformed, or the planner refused it; gives the planner's reason.

        """
        edges = requests.numbers('size', size, 3, 'm')
        for edge in edges:
            requests.number('size', edge, 1e-4, _LARGEST, 'm')
        pose = requests.upright_pose(xyz, yaw_deg, T)
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
        pose = requests.upright_pose(xyz, None, T)
        kind = SolidPrimitive.CYLINDER
        self._apply(requests.solid(name, kind, (height, radius), pose, frame))

    def remove(self, name: str) -> None:
        """Remove an object from the planning scene; `InvalidInput` if there is none."""
        if name not in (known := self.objects):
            there = ', '.join(known) or 'none'
            raise InvalidInput(f'object {name!r} is not in the scene; there are: {there}')
        self._apply(CollisionObject(id=name, operation=CollisionObject.REMOVE))

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
