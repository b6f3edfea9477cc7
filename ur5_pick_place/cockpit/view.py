# SPDX-License-Identifier: Apache-2.0
"""The cell in 3D: arm, gripper, part, table, objects, planned path and ghosts; frame base_link."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import trimesh
import viser

from ur5_pick_place.cockpit.actions import CellState
from ur5_pick_place.cockpit.arm_meshes import LinkMesh, arm_meshes
from ur5_pick_place.control.motion_state import MotionState
from ur5_pick_place.kinematics import Model, link_frames
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    make_transform,
    quat_from_matrix,
)
from ur5_pick_place.planning.scene.scene import Scene
from ur5_pick_place.planning.scene.shapes import Cone, Cuboid, Cylinder, Mesh, Plane, Shape, Sphere
from ur5_pick_place.planning.scene.world import AttachedObject, World
from ur5_pick_place.sim.physics.arm_mesh import Colour

_HAND = 6  # frame of the tool
_TABLE = (1.8, 1.8, 0.04)  # the table as it is drawn for a UR5 [m]; of others by their reach
_REACH = 0.81725  # of a UR5 [m], for which table and cameras are given
_LEAST = 0.7  # scale of both
_MOUNTED = 1.2  # scale of where the cameras are, if the arm is over its table
_WOOD: Colour = (222, 210, 190)
_DARK: Colour = (70, 74, 80)
_STEEL: Colour = (110, 116, 124)
_CUBE: Colour = (214, 90, 60)
_OBSTACLE: Colour = (150, 130, 170)
_PATH: Colour = (20, 120, 230)
_SWEPT: Colour = (120, 180, 240)
_PLANNED: Colour = (50, 135, 235)
BRANCH_COLOURS: tuple[Colour, ...] = (
    (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40),
    (148, 103, 189), (140, 86, 75), (227, 119, 194), (23, 150, 170),
)
_HAS_PLAN = ('planned', 'running', 'paused')  # states of the task node
CAMERA, LOOKS_AT, VIEW_ANGLE = (1.35, -1.05, 1.0), (0.25, 0.0, 0.15), 0.85  # [m], [m], [rad]
_NARROW = 0.8  # width over height of a phone's screen
_LOOKS = 5  # at such a page, one second apart, until it has its camera
_PHONE_CAMERA, _PHONE_LOOKS_AT = (2.5, -2.0, 1.5), (0.25, 0.0, -0.62)  # [m]
_MOVED = 1e-5  # [m] and of a quaternion: a change that cannot be seen is not sent
_TURNED = 1e-5  # [rad], likewise
_FINGER = 0.2  # of the width that the fingers sweep: thickness of one
_PATH_WIDTH = 0.005  # [m]
_SWEPT_OPACITY = 0.12
_GHOST_OPACITY = 0.3
_GHOST_SECTIONS = 12  # few, as a browser without a GPU draws many of them slowly
_FIRST_GHOST = 2  # link; before it, ghosts would only cover the arm and each other
_BESIDE = 0.3  # [rad] from the arm's present joints to those of a ghost that is shown
_GHOST_SCALE = 1.01  # no surface coincides with one of the arm itself


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
        self._scale = max(_LEAST, float(np.abs(model.a).sum()) / _REACH)
        self._objects: list[Any] = []
        self._lines: dict[str, list[Any]] = {}
        self._plan = server.scene.add_frame('/plan', show_axes=False, visible=False)
        self._plan_ghosts = server.scene.add_frame('/plan/ghosts', show_axes=False)
        self._was_moving = False
        self._ghosts: dict[str, list[Any]] = {}
        self._ghost_meshes = self._make_ghosts()  # by link, from `_FIRST_GHOST`
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
        width, depth = (self._scale * edge for edge in _TABLE[:2])
        server.scene.add_box(
            '/table', color=_WOOD, dimensions=(width, depth, _TABLE[2]), wxyz=wxyz_of(T_level),
            position=T_level[:3, 3] - (_TABLE[2] / 2 + 1e-3) * mounting.up,
        )
        server.scene.add_grid(
            '/table_grid', width=width, height=depth, cell_size=0.1, section_size=0.5,
            cell_color=(205, 192, 170), section_color=(180, 165, 140),
            wxyz=wxyz_of(T_level), position=T_level[:3, 3] + 5e-4 * mounting.up,
        )
        for box in self._scene.boxes:
            server.scene.add_box(
                f'/boxes/{box.name}', color=_OBSTACLE, dimensions=_edges(box.size), opacity=0.6,
                position=box.T_base_link_box[:3, 3], wxyz=wxyz_of(box.T_base_link_box),
            )

    def _from_level(self, point: tuple[float, float, float]) -> Array:
        """Return a point (3,) given as of a UR5 that stands on its table."""
        mounting = self._scene.mounting
        height = 0.0 if mounting.is_upright else self._scene.table_height
        T, scale = mounting.T_base_link_level(height), self._scale
        if not mounting.is_upright:
            scale *= _MOUNTED
        return np.asarray(T[:3, :3] @ (scale * np.array(point)) + T[:3, 3])

    async def _set_phone_camera(self, client: viser.ClientHandle) -> None:
        """Show the cell in the upper part of a phone, whose lower part the controls cover."""
        position, usual = self._from_level(_PHONE_CAMERA), self._from_level(CAMERA)
        for _ in range(_LOOKS if client.camera.aspect < _NARROW else 0):
            client.camera.position = position
            client.camera.look_at = self._from_level(_PHONE_LOOKS_AT)
            await asyncio.sleep(1.0)
            if np.abs(client.camera.position - usual).max() > _MOVED:
                return  # else a slow page has taken the usual camera after this one

    def _draw_tool(self) -> None:
        """Draw the tool's boxes; what the fingers sweep becomes two fingers."""
        self._fingers: list[tuple[Any, Array, float]] = []
        for i, (T, size, side) in enumerate(self._tool_boxes()):
            handle = self._server.scene.add_box(
                f'/arm/{_HAND}/tool_{i}', color=_STEEL if side else _DARK,
                dimensions=_edges(size), position=T[:3, 3], wxyz=wxyz_of(T),
            )
            if side:
                self._fingers.append((handle, T[:3, 3], side))

    def _tool_boxes(self) -> Iterator[tuple[Array, Array, float]]:
        """Return pose (4, 4), edges (3,) [m] and side of each box; 1 and -1 are fingers."""
        for box in self._tool.shapes:
            T, size = box.T_tool_box, np.array(box.size)
            if box.name != 'fingers':
                yield T, size, 0.0
                continue
            thin = size * [1.0, _FINGER, 1.0]
            for side in (1.0, -1.0):
                out = [0.0, side * (size[1] - thin[1]) / 2, 0.0]
                yield T @ make_transform(np.eye(3), out), thin, side

    def draw_arm_meshes(self, meshes: Sequence[LinkMesh]) -> None:
        """Draw the arm's links by these meshes from now on."""
        for handle in self._meshes:
            handle.remove()
        self._meshes = [
            self._server.scene.add_mesh_simple(
                f'/arm/{mesh.link}/mesh_{i}', mesh.vertices, mesh.faces, color=mesh.colour,
                flat_shading=mesh.has_edges,
            )
            for i, mesh in enumerate(meshes)
        ]

    def _make_ghosts(self) -> list[Any]:
        """Return a mesh for each link of a ghost, with the tool."""
        hand = [
            trimesh.creation.box(extents=size, transform=T) for T, size, _ in self._tool_boxes()
        ]
        links = [[] for _ in range(_HAND)] + [hand]
        for mesh in arm_meshes(self._model, _GHOST_SECTIONS):
            links[mesh.link].append(trimesh.Trimesh(mesh.vertices, mesh.faces, process=False))
        return [trimesh.util.concatenate(link) for link in links[_FIRST_GHOST:]]

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

    def show_lines(self, name: str, paths: Sequence[Array], swept: Sequence[Array]) -> None:
        """
        Draw paths (n, 3), and the triangles (3 n, 3) of what the tool sweeps.

        They take the place of those drawn earlier under that name.
        """
        scene = self._server.scene
        for handle in self._lines.pop(name, []):
            handle.remove()
        drawn = self._lines[name] = []
        if segments := _segments(paths):
            drawn.append(scene.add_line_segments(
                f'/{name}/path', np.concatenate(segments), _PATH, thickness=_PATH_WIDTH
            ))
        if swept:
            corners = np.concatenate(swept)
            faces = np.arange(len(corners)).reshape(-1, 3)
            drawn.append(scene.add_mesh_simple(
                f'/{name}/swept', corners, faces, color=_SWEPT, opacity=_SWEPT_OPACITY,
                flat_shading=True, cast_shadow=False, receive_shadow=False,
            ))

    def follow(self, state: CellState) -> None:
        """Hide what a state makes obsolete: ghosts in a run, a dropped plan, a path at its end."""
        if state.kind == 'running' and self._ghosts.get('ghosts'):
            self.show_solutions({})
        self._plan.visible = state.kind in _HAS_PLAN
        self._plan_ghosts.visible = state.kind == 'planned' and not self._ghosts.get('ghosts')
        is_moving = state.planner == MotionState.MOVING.value
        if self._was_moving and not is_moving:
            self.show_lines('path', [], [])
        self._was_moving = is_moving

    def show_solutions(self, solutions: Mapping[str, Array]) -> None:
        """Draw joints (6,) [rad] by name as ghosts, in place of earlier ones."""
        colours = BRANCH_COLOURS[: len(solutions)]
        frames = self.show_ghosts('ghosts', list(solutions.values())[: len(colours)], colours)
        labels = [
            self._server.scene.add_label(
                f'/ghosts/{name}', name, position=T[2, :3, 3], font_screen_scale=0.8,
                # Arms that differ in the wrist alone have one elbow.
                anchor='bottom-center' if name.endswith('up') else 'top-center',
            )
            for name, T in zip(solutions, frames, strict=False)
        ]
        with self._lock:
            self._ghosts['ghosts'] += labels

    def show_postures(self, name: str, postures: Sequence[Array]) -> None:
        """Draw joints (6,) [rad] as ghosts in one colour, but for those that the arm covers."""
        beside = [q for q in postures if np.abs(q - self._q).max() > _BESIDE]
        self.show_ghosts(name, beside, [_PLANNED] * len(beside))

    def show_ghosts(
        self, name: str, postures: Sequence[Array], colours: Sequence[Colour]
    ) -> Array:
        """
        Draw arms at joints (6,) [rad] as translucent solids, in place of earlier ones.

        Returns their frames (n, 7, 4, 4) in `base_link`.
        """
        frames = T_BASE_LINK_BASE @ link_frames(self._model, np.reshape(postures, (-1, 6)))
        with self._lock:
            for handle in self._ghosts.pop(name, []):
                handle.remove()
            self._ghosts[name] = [
                self._server.scene.add_batched_meshes_simple(
                    f'/{name}/{link}', mesh.vertices, mesh.faces,
                    quat_from_matrix(T[:, :3, :3])[:, [3, 0, 1, 2]], T[:, :3, 3],
                    batched_scales=np.full(len(T), _GHOST_SCALE), batched_colors=np.array(colours),
                    opacity=_GHOST_OPACITY, lod='off', cast_shadow=False, receive_shadow=False,
                )
                for link, (mesh, T) in enumerate(
                    zip(self._ghost_meshes, frames.swapaxes(0, 1)[_FIRST_GHOST:], strict=True)
                )
                if len(T)
            ]
        return frames


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
