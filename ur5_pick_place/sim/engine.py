# SPDX-License-Identifier: Apache-2.0
"""
MuJoCo, imported so that a missing OpenGL costs the pictures and not the physics.

MuJoCo picks its OpenGL back end from `MUJOCO_GL` when it is imported, and with some libraries
missing that import itself fails. Everybody here takes `mujoco` from this module.

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
