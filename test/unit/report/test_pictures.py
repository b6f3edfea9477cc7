# SPDX-License-Identifier: Apache-2.0
"""
Pictures show what was recorded, and their absence never costs more than one warning.

Where OpenGL does not work, the tests that need it are skipped, visibly.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from recordings import lifting_recording

from ur5_pick_place.demo.pictures import Film, draw_cell, draw_cycle
from ur5_pick_place.report.motion import RecordedJoints, motion_of
from ur5_pick_place.report.plots import joints_figure


def shares(picture: Image.Image) -> dict[str, float]:
    """Measure which part of a picture is red, yellow, green and blue."""
    r, g, b = np.moveaxis(np.asarray(picture.convert('RGB'), dtype=int), -1, 0)
    colours = {
        'red': (r > 2 * g) & (r > 2 * b) & (r > 90),
        'yellow': (r > 2 * b) & (g > 2 * b) & (r + g > 300),
        'green': (g > 1.5 * r) & (g > 1.5 * b) & (g > 120),
        'blue': (b > 1.5 * r) & (b > 120),
    }
    return {name: float(mask.mean()) for name, mask in colours.items()}


def cell_drawn(recording: Film, path: Path) -> Image.Image:
    """Draw, or skip the test where OpenGL does not work."""
    if not draw_cell(recording, path):
        pytest.skip('OpenGL does not work here')
    return Image.open(path)


def test_the_cell_shows_cube_both_marks_and_arm(tmp_path):
    picture = cell_drawn(lifting_recording(), tmp_path / 'cell.png')
    assert picture.size == (960, 720)
    share = shares(picture)
    assert 1e-3 < share['red'] < 2e-2  # the cube
    assert share['yellow'] > 5e-4  # start
    assert share['green'] > 5e-4  # target
    assert share['blue'] > 5e-3  # the arm's caps
    assert os.listdir(tmp_path) == ['cell.png']


def test_the_cube_is_seen_where_it_was_recorded(tmp_path):
    """From the camera, +y is to the right: the red spot is right of the start mark, as raised."""
    picture = cell_drawn(lifting_recording(), tmp_path / 'cell.png')
    r, g, b = np.moveaxis(np.asarray(picture, dtype=int), -1, 0)
    red = np.argwhere((r > 2 * g) & (r > 2 * b) & (r > 90)).mean(axis=0)
    yellow = np.argwhere((r > 2 * b) & (g > 2 * b) & (r + g > 300)).mean(axis=0)
    assert red[1] > yellow[1] + 50
    assert red[0] < yellow[0] - 50


def test_the_film_lasts_as_long_as_the_run_and_is_small(tmp_path):
    recording = lifting_recording(4.0)
    cell_drawn(recording, tmp_path / 'cell.png')
    draw_cycle(recording, tmp_path / 'cycle.gif')
    film = Image.open(tmp_path / 'cycle.gif')
    assert film.size == (640, 480)
    durations = []
    for k in range(film.n_frames):
        film.seek(k)
        durations.append(film.info['duration'])
        assert shares(film)['red'] > 2e-4
    assert sum(durations) / 1000 == pytest.approx(4.0 + 1.5, abs=0.2)
    assert film.n_frames > 30
    assert (tmp_path / 'cycle.gif').stat().st_size < 1.5e6


@pytest.mark.parametrize(
    'environment',
    [
        {'MUJOCO_GL': 'egl', '__EGL_VENDOR_LIBRARY_DIRS': '/nonexistent'},
        pytest.param(
            {'MUJOCO_GL': 'osmesa', 'LD_LIBRARY_PATH': '/nonexistent'}, marks=pytest.mark.drill
        ),
        pytest.param({'MUJOCO_GL': 'disabled'}, marks=pytest.mark.drill),
        pytest.param({'MUJOCO_GL': 'no such back end'}, marks=pytest.mark.drill),
    ],
    ids=['no driver', 'maybe no library', 'switched off', 'misspelt'],
)
def test_without_opengl_there_is_one_warning_and_everything_else_works(environment, tmp_path):
    """`import mujoco` itself fails with some libraries missing; the physics must not."""
    script = f"""
import logging, sys
sys.path.insert(0, {str(Path(__file__).parents[2] / 'support/tools')!r})
logging.basicConfig(format='%(levelname)s %(message)s')
from recordings import lifting_recording
from ur5_pick_place.sim.physics import world
from ur5_pick_place.demo import pictures
from ur5_pick_place.report.motion import motion_of
from ur5_pick_place.report.plots import joints_figure
recording = lifting_recording()
cell = pictures.draw_cell(recording, 'cell.png')
motion = motion_of(recording.samples.joints, None)
joints_figure(dict(stages=[], remarks=[]), motion).savefig('joints.png')
w = world.World()
w.step(w.q)
print('drawn' if cell else 'not drawn', w.time)
"""
    run = subprocess.run(
        [sys.executable, '-c', script],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(Path(__file__).parents[3]), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    if environment['MUJOCO_GL'] == 'osmesa' and run.stdout.startswith('drawn'):
        pytest.skip('OSMesa is installed here')
    assert run.stdout == 'not drawn 0.008\n'
    assert run.stderr.count('WARNING') == 1
    assert 'libegl1' in run.stderr
    assert os.listdir(tmp_path) == ['joints.png']


def test_the_joint_plot_has_the_error_where_there_is_a_reference():
    t = np.linspace(0.0, 2.0, 101)
    planned = np.outer(np.sin(t), np.arange(1.0, 7.0))
    measured = planned + np.radians(0.5)
    planned[40:60] = np.nan
    motion = motion_of(RecordedJoints(t, measured, measured, planned), None)
    joints, error = joints_figure({'stages': [], 'remarks': []}, motion).axes
    assert len(joints.get_lines()) == 12, 'measured and planned'
    for line in error.get_lines():
        np.testing.assert_allclose(line.get_ydata()[:39], 0.5)
        assert np.isnan(line.get_ydata()[40:60]).all()
