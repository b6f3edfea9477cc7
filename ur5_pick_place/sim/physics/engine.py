# SPDX-License-Identifier: Apache-2.0
"""
MuJoCo, imported so that without OpenGL the physics still works and only pictures are missing.

MuJoCo selects its OpenGL back end from `MUJOCO_GL` on import, and that import fails if libraries
are missing. All modules of this package import `mujoco` from here.
"""

import os

__all__ = ['mujoco']

if 'DISPLAY' not in os.environ:
    os.environ.setdefault('MUJOCO_GL', 'egl')  # the default, GLFW, needs a display
try:
    import mujoco
except (AttributeError, ImportError, OSError, RuntimeError):
    os.environ['MUJOCO_GL'] = 'disabled'
    import mujoco
