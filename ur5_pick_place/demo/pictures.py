# SPDX-License-Identifier: Apache-2.0
"""Pictures of a recorded run: the cell, and an animation of the cycle."""

import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.report.motion import Samples
from ur5_pick_place.sim.physics.cell import HAND, lay_marks, load_cell, pose_arm, pose_part
from ur5_pick_place.sim.physics.engine import mujoco
from ur5_pick_place.sim.physics.scene_boxes import SolidBox

_log = logging.getLogger(__name__)

_FRAME_TIME = 0.08  # [s] of simulated time between two frames
_MOST_FRAMES = 240  # longer runs have fewer frames per second, to keep the file small
_TRACE_RGBA = np.array([0.15, 0.45, 0.85, 0.9], dtype=np.float32)
_TRACE_RADIUS = 0.0015  # [m]
_SPACING = 0.01  # [m] of the points of a trace


@dataclass(frozen=True)
class Film:
    """What is drawn of a run."""

    samples: Samples
    # (4, 4) start and target pose of the cube, or of the TCP that grips it
    T_start: Array
    T_target: Array
    setup: CellSetup
    boxes: Sequence[SolidBox] = ()  # what else stands in the cell

    @property
    def T_world_base_link(self) -> Array:
        """Where the arm is mounted, (4, 4)."""
        return inverse_transform(self.setup.T_base_link_table)

    @property
    def times(self) -> Array:
        """When cubes were published first and last, and each cycle between [s]."""
        begin, end = self.samples.parts[0][[0, -1]]
        return np.append(np.arange(begin, end, CYCLE), end)


def draw_cell(run: Film, path: Path | str) -> bool:
    """
    Draw the cell when the part is highest, with the path of the TCP; return False without GL.

    `path`: a PNG file, 960 x 720.
    """
    if not _can_draw():
        return False
    heights = (run.T_world_base_link @ run.samples.parts_at(run.times))[..., 2, 3]
    highest = run.times[np.nanmax(heights, axis=1).argmax()]
    with _camera(run, 960, 720) as camera:
        picture = camera.shoot(highest, camera.tcp_path())
    picture.save(path, 'PNG')
    return True


def draw_cycle(run: Film, path: Path | str) -> None:
    """Draw an animation of the run in simulated time, a GIF of 640 x 480 and about 12 Hz."""
    begin, end = run.times[[0, -1]]
    step = max(_FRAME_TIME, (end - begin) / _MOST_FRAMES)
    with _camera(run, 480, 360, fast=True) as camera:
        times = np.arange(begin, end + step, step)
        frames = [camera.shoot(min(t, end)).resize((640, 480)) for t in times]
    # The octree keeps the rare colours of marks and part; a median cut would not.
    palette = frames[len(frames) // 2].quantize(128, Image.Quantize.FASTOCTREE)
    coloured = [f.quantize(palette=palette, dither=Image.Dither.NONE) for f in frames]
    milliseconds = [round(100 * step) * 10] * (len(coloured) - 1) + [1500]
    coloured[0].save(
        path, 'GIF', save_all=True, append_images=coloured[1:], duration=milliseconds, loop=0
    )


@contextmanager
def _camera(run: Film, width: int, height: int, fast: bool = False) -> Iterator['_CellCamera']:
    count, T = run.samples.parts[1].shape[1], run.T_world_base_link
    ur_type, gripper = run.setup.ur_type, run.setup.gripper
    model = load_cell(count, run.boxes, ur_type, gripper, T, is_drawn=True)
    if fast:
        model.vis.quality.shadowsize = 1024
        model.vis.quality.offsamples = 0
    with mujoco.Renderer(model, height, width) as renderer:
        yield _CellCamera(run, renderer)


class _CellCamera:
    def __init__(self, run: Film, renderer: 'mujoco.Renderer') -> None:
        self._run = run
        self._renderer = renderer
        self._model = renderer.model
        self._data = mujoco.MjData(self._model)
        T = run.T_world_base_link
        lay_marks(self._model, self._data, T @ run.T_start, T @ run.T_target)

    def tcp_path(self) -> Array:
        """Return the path of the TCP in steps of about `_SPACING`, (k, 3) [m]."""
        points: list[Array] = []
        for t in self._run.times:
            self._apply(t)
            here = self._data.site(f'{HAND}tcp').xpos
            if not points or np.linalg.norm(here - points[-1]) > _SPACING:
                points.append(here.copy())
        return np.array(points)

    def shoot(self, t: float, trace: Array | None = None) -> Image.Image:
        """Render the cell at a time, with a line through the points of `trace`, shape (k, 3)."""
        self._apply(t)
        mujoco.mj_forward(self._model, self._data)
        self._renderer.update_scene(self._data, 'overview')
        if trace is not None:
            for a, b in itertools.pairwise(trace):
                _add_segment(self._renderer.scene, a, b)
        return Image.fromarray(self._renderer.render())

    def _apply(self, t: float) -> None:
        samples = self._run.samples
        pose_arm(self._model, self._data, samples.joints_at(t), samples.fingers_at(t))
        parts = self._run.T_world_base_link @ samples.parts_at(t)
        for part, T in enumerate(parts[np.isfinite(parts[:, 0, 0])]):
            pose_part(self._data, T, part)
        mujoco.mj_kinematics(self._model, self._data)


def _add_segment(scene: 'mujoco.MjvScene', a: Array, b: Array) -> None:
    if scene.ngeom == scene.maxgeom:
        return
    geom = scene.geoms[scene.ngeom]
    kind = mujoco.mjtGeom.mjGEOM_CAPSULE
    mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).ravel(), _TRACE_RGBA)
    mujoco.mjv_connector(geom, kind, _TRACE_RADIUS, a, b)
    geom.category = mujoco.mjtCatBit.mjCAT_DECOR  # casts no shadow
    scene.ngeom += 1


@functools.cache
def _can_draw() -> bool:
    """Return whether OpenGL works; log one warning if it does not."""
    try:
        with mujoco.Renderer(load_cell(), 16, 16):
            return True
    except Exception as error:
        _log.warning(
            'OpenGL is not available (%s: %s): the pictures of the cell are left out; '
            'install libegl1, libegl-mesa0 and libgl1-mesa-dri and set MUJOCO_GL=egl',
            type(error).__name__,
            error,
        )
        return False
