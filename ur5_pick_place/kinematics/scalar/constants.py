# SPDX-License-Identifier: Apache-2.0
"""Constants of several parts of the scalar kinematics."""

from typing import Any

Numbers = Any
"""A float64 array, read or written entry by entry."""

PI = 3.141592653589793
TAU = 6.283185307179586
NAN, INFINITY = float('nan'), float('inf')
TINY = 1e-300  # divides in the place of zero
SMALL_ANGLE = 1e-4  # rad; below it series replace quotients of the form 0/0

# Two roots merge into one where tan^2(phi) or sin^2(theta_3) is below DOUBLE_ROOT: rounding of the
# pose by 1e-15 m moves either by about 1e-14, and merging moves the tool by less than 2e-14 m.
DOUBLE_ROOT = 1e-13

# Below this |sin(theta_5)| theta_6 is free: any choice turns the tool by less than this [rad].
WRIST_SINGULAR = 1e-12
