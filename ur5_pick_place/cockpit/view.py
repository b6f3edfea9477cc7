# SPDX-License-Identifier: Apache-2.0
"""The cell in 3D: arm, gripper, part, table, objects, planned path and ghosts; frame base_link."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import trimesh
import viser

from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.cockpit.arm_meshes import LinkMesh, arm_meshes
from ur5_pick_place.control.motion_state import MotionState
from ur5_pick_place.kinematics import Model, arm_corners, link_frames
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    make_transform,
    quat_from_matrix,
)
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Plane, Shape, Sphere
from ur5_pick_place.planning.scene.world import AttachedObject, World

Colour = tuple[int, int, int]

_HAND = 6  # frame of the tool
_TABLE = (1.8, 1.8, 0.04)  # the table as it is drawn, about the reach of a UR5 [m]
_WOOD: Colour = (222, 210, 190)
_METAL: Colour = (198, 202, 206)
_DARK: Colour = (70, 74, 80)
_STEEL: Colour = (110, 116, 124)
_CUBE: Colour = (214, 90, 60)
_OBSTACLE: Colour = (150, 130, 170)
_PATH: Colour = (20, 120, 230)
_SWEPT: Colour = (120, 180, 240)
_PLANNED: Colour = (150, 190, 225)
BRANCH_COLOURS: tuple[Colour, ...] = (
    (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40),
    (148, 103, 189), (140, 86, 75), (227, 119, 194), (23, 150, 170),
)
_HAS_PLAN = ('planned', 'running', 'paused')  # states of the task node
CAMERA, LOOKS_AT, VIEW_ANGLE = (1.35, -1.05, 1.0), (0.25, 0.0, 0.15), 0.85  # [m], [m], [rad]
_NARROW = 0.8  # width over height of a phone's screen
_PHONE_CAMERA, _PHONE_LOOKS_AT = (2.4, -1.9, 1.5), (0.2, 0.0, -0.5)  # [m]
_MOVED = 1e-5  # [m] and of a quaternion: a change that cannot be seen is not sent
_TURNED = 1e-5  # [rad], likewise
_FINGER = 0.2  # of the width that the fingers sweep: thickness of one
_PATH_WIDTH = 0.005  # [m]
_SWEPT_WIDTH = 0.0012
_GHOST_WIDTH = 0.014


def wxyz_of(T: Array) -> Array:
    """Return the quaternion (4,) of a pose, in viser's order."""
    return np.asarray(quat_from_matrix(T[:3, :3])[[3, 0, 1, 2]])


class _Moving:
    """A frame of the page that is sent only when it moves."""

    def __init__(self, server: viser.ViserServer, name: str) -> None:
        self._frame = server.scene.add_frame(name, show_axes=False, visible=False)
        self._last = np.full((4, 4), np.inf)

    def move(self, T: Array) -> None:
        if np.abs(T - self._last).max() > _MOVED:
            self._last = np.array(T)
            self._frame.position, self._frame.wxyz = T[:3, 3], wxyz_of(T)
        self._frame.visible = True

    def hide(self) -> None:
        self._frame.visible = False


class CellView:
    """
    Draws the cell on the page.

    `scene`: of the parameters: table, tool, boxes and the size of the part.
    """

    def __init__(self, server: viser.ViserServer, model: Model, scene: Scene) -> None:
        self._server, self._model, self._scene = server, model, scene
        self._tool = scene.tool
        self._objects: list[Any] = []
        self._lines: dict[str, Any] = {}
        self._plan = server.scene.add_frame('/plan', show_axes=False, visible=False)
        self._was_moving = False
        self._ghosts: list[Any] = []
        self._lock = threading.Lock()  # the page's thread hides ghosts
        self._q = np.full(6, np.inf)  # as drawn
        self._draw_room()
        self._links = [_Moving(server, f'/arm/{i}') for i in range(_HAND + 1)]
        self._meshes: list[Any] = []
        self.draw_arm_meshes(arm_meshes(model))
        self._draw_tool()
        self._part = _Moving(server, '/part')
        if scene.part is not None:
            server.scene.add_box('/part/cube', color=_CUBE, dimensions=_edges(scene.part.size))

    def _draw_room(self) -> None:
        server, height = self._server, self._scene.table_height
        mounting = self._scene.mounting
        server.scene.set_up_direction(tuple(mounting.up.tolist()))
        server.scene.world_axes.visible = False
        server.initial_camera.position = self._from_level(CAMERA)
        server.initial_camera.look_at = self._from_level(LOOKS_AT)
        server.initial_camera.fov = VIEW_ANGLE
        server.initial_camera.up = tuple(mounting.up.tolist())
        server.on_client_connect(self._set_phone_camera)
        # Without the default panorama the first picture comes at once, also without a GPU.
        server.scene.configure_environment_map(None)
        server.scene.add_light_hemisphere(
            '/sky', sky_color=(255, 255, 255), ground_color=(200, 195, 185), intensity=1.6
        )
        T_level = mounting.T_base_link_level(height)
        server.scene.add_box(
            '/table', color=_WOOD, dimensions=_TABLE, wxyz=wxyz_of(T_level),
            position=T_level[:3, 3] - (_TABLE[2] / 2 + 1e-3) * mounting.up,
        )
        server.scene.add_grid(
            '/table_grid', width=_TABLE[0], height=_TABLE[1], cell_size=0.1, section_size=0.5,
            cell_color=(205, 192, 170), section_color=(180, 165, 140),
            wxyz=wxyz_of(T_level), position=T_level[:3, 3] + 5e-4 * mounting.up,
        )
        for box in self._scene.boxes:
            server.scene.add_box(
                f'/boxes/{box.name}', color=_OBSTACLE, dimensions=_edges(box.size), opacity=0.6,
                position=box.T_base_link_box[:3, 3], wxyz=wxyz_of(box.T_base_link_box),
            )

    def _from_level(self, point: tuple[float, float, float]) -> Array:
        """Return a point (3,) given as of an arm that stands on its table."""
        mounting = self._scene.mounting
        height = 0.0 if mounting.is_upright else self._scene.table_height
        return np.asarray((mounting.T_base_link_level(height) @ [*point, 1.0])[:3])

    async def _set_phone_camera(self, client: viser.ClientHandle) -> None:
        """Show the cell in the upper part of a phone, whose lower part the controls cover."""
        if client.camera.aspect < _NARROW:
            client.camera.position = self._from_level(_PHONE_CAMERA)
            client.camera.look_at = self._from_level(_PHONE_LOOKS_AT)

    def _draw_tool(self) -> None:
        """Draw the tool's boxes; what the fingers sweep becomes two fingers."""
        self._fingers: list[tuple[Any, Array, float]] = []
        for box in self._tool.shapes:
            T, size = box.T_tool_box, np.array(box.size)
            name = f'/arm/{_HAND}/tool_{box.name}'
            if box.name != 'fingers':
                self._server.scene.add_box(
                    name, color=_DARK, dimensions=_edges(size), position=T[:3, 3], wxyz=wxyz_of(T)
                )
                continue
            thin = size * [1.0, _FINGER, 1.0]
            for side in (1.0, -1.0):
                out = T @ make_transform(np.eye(3), [0.0, side * (size[1] - thin[1]) / 2, 0.0])
                finger = self._server.scene.add_box(
                    f'{name}{"r" if side > 0 else "l"}', color=_STEEL, dimensions=_edges(thin),
                    position=out[:3, 3], wxyz=wxyz_of(T),
                )
                self._fingers.append((finger, out[:3, 3], side))

    def draw_arm_meshes(self, meshes: Sequence[LinkMesh]) -> None:
        """Draw the arm's links by these meshes from now on."""
        for handle in self._meshes:
            handle.remove()
        self._meshes = [
            self._server.scene.add_mesh_simple(
                f'/arm/{mesh.link}/mesh_{i}', mesh.vertices, mesh.faces, color=_METAL,
                flat_shading=True,
            )
            for i, mesh in enumerate(meshes)
        ]

    def show_arm(self, q: Array) -> None:
        """Draw the arm at joints (6,) [rad], unless it looks as before."""
        if np.abs(q - self._q).max() < _TURNED:
            return
        self._q = q
        frames = T_BASE_LINK_BASE @ link_frames(self._model, q)
        for link, T in zip(self._links, frames, strict=True):
            link.move(T)

    def show_fingers(self, travel: float) -> None:
        """Draw the fingers, each `travel` [m] from open."""
        for finger, middle, side in self._fingers:
            position = middle - [0.0, side * travel, 0.0]
            if np.abs(np.array(finger.position) - position).max() > 1e-4:
                finger.position = position

    def show_grip(self, is_closed: bool) -> None:
        """Draw the fingers open, or closed on the part."""
        widths = [float(box.size[1]) for box in self._tool.shapes if box.name == 'fingers']
        gap = max(widths, default=0.0) * (1.0 - 2.0 * _FINGER)
        part = 0.0 if self._scene.part is None else float(self._scene.part.size[1])
        self.show_fingers(max(0.0, gap - part) / 2 if is_closed else 0.0)

    def show_part(self, T: Array | None) -> None:
        """Draw the part at a pose of its centre; None hides it."""
        if T is None:
            self._part.hide()
        else:
            self._part.move(T)

    def show_world(self, world: World, part: AttachedObject | None) -> None:
        """Draw the clients' objects, and the part that the task's gripper holds."""
        for handle in self._objects:
            handle.remove()
        self._objects = []
        for i, thing in enumerate(world.objects.values()):
            for k, (T, placed) in enumerate(zip(thing.poses(), thing.shapes, strict=True)):
                self._add_shape(f'/objects/{i}_{k}', T, placed.shape, _OBSTACLE)
        held = [(thing, _OBSTACLE) for thing in world.attached.values()]
        if part is not None:
            held.append((part, _CUBE))
        for i, (attached, colour) in enumerate(held):
            for k, placed in enumerate(attached.shapes):
                T = attached.T_tool_object @ placed.T_object_shape
                self._add_shape(f'/arm/{_HAND}/held_{i}_{k}', T, placed.shape, colour)

    def _add_shape(self, name: str, T: Array, shape: Shape, colour: Colour) -> None:
        mesh = _mesh_of(shape)
        handle = self._server.scene.add_mesh_simple(
            name, np.asarray(mesh.vertices), np.asarray(mesh.faces), color=colour, opacity=0.75,
            flat_shading=True, side='double', position=T[:3, 3], wxyz=wxyz_of(T),
        )
        self._objects.append(handle)

    def show_lines(
        self,
        name: str,
        paths: Sequence[Array],
        outlines: Sequence[Array],
        ghosts: Sequence[Array] = (),
    ) -> None:
        """
        Draw paths and thin arms (n, 3), and outlines, pairs of points (2 n, 3).

        They take the place of those drawn earlier under that name.
        """
        pairs = [line[: len(line) // 2 * 2].reshape(-1, 2, 3) for line in outlines]
        for kind, found, colour, width in (
            ('path', _segments(paths), _PATH, _PATH_WIDTH),
            ('swept', pairs, _SWEPT, _SWEPT_WIDTH),
            ('ghosts', _segments(ghosts), _PLANNED, _GHOST_WIDTH),
        ):
            key = f'/{name}/{kind}'
            if old := self._lines.pop(key, None):
                old.remove()
            if found:
                self._lines[key] = self._server.scene.add_line_segments(
                    key, np.concatenate(found), colour, thickness=width
                )

    def follow(self, state: CellState) -> None:
        """Hide what a state makes obsolete: ghosts in a run, a dropped plan, a path at its end."""
        if state.kind == 'running':
            self.show_ghosts({})
        self._plan.visible = state.kind in _HAS_PLAN
        if ghosts := self._lines.get('/plan/ghosts'):
            ghosts.visible = state.kind == 'planned'
        is_moving = state.planner == MotionState.MOVING.value
        if self._was_moving and not is_moving:
            self.show_lines('path', [], [])
        self._was_moving = is_moving

    def show_ghosts(self, solutions: Mapping[str, Array]) -> None:
        """Draw joints (6,) [rad] by name as thin arms, in place of earlier ones."""
        scene = self._server.scene
        with self._lock:
            for handle in self._ghosts:
                handle.remove()
            self._ghosts = []
            for (name, q), colour in zip(solutions.items(), BRANCH_COLOURS, strict=False):
                corners = arm_corners(self._model, q)
                lines = np.concatenate(_segments([corners]))
                self._ghosts += [
                    scene.add_line_segments(
                        f'/ghosts/{name}', lines, colour, thickness=_GHOST_WIDTH
                    ),
                    scene.add_label(
                        f'/ghosts/{name}/name', name, position=corners[5], font_screen_scale=0.8
                    ),
                ]


def _segments(lines: Sequence[Array]) -> list[Array]:
    """Return the pairs of neighbouring points (n - 1, 2, 3) of lines (n, 3)."""
    return [np.stack([line[:-1], line[1:]], axis=1) for line in lines if len(line) > 1]


def _mesh_of(shape: Shape) -> Any:
    if isinstance(shape, Cuboid):
        return trimesh.creation.box(extents=shape.size)
    if isinstance(shape, Sphere):
        return trimesh.creation.icosphere(subdivisions=2, radius=shape.radius)
    if isinstance(shape, Cylinder):
        return trimesh.creation.cylinder(radius=shape.r, height=shape.height)
    if isinstance(shape, Cone):
        cone = trimesh.creation.cone(radius=shape.r, height=shape.height)
        cone.apply_translation([0.0, 0.0, -shape.height / 2])
        return cone
    if isinstance(shape, Mesh):
        return trimesh.Trimesh(shape.vertices, shape.triangles, process=False)
    assert isinstance(shape, Plane)
    sheet = trimesh.creation.box(extents=(_TABLE[0], _TABLE[1], 0.004))
    z, across = shape.normal, np.cross(shape.normal, np.eye(3)[np.abs(shape.normal).argmin()])
    x = across / np.linalg.norm(across)
    rotation = np.stack([x, np.cross(z, x), z], axis=1)
    sheet.apply_transform(make_transform(rotation, z * shape.offset))
    return sheet


def _edges(size: Array) -> tuple[float, float, float]:
    x, y, z = map(float, size)
    return x, y, z
