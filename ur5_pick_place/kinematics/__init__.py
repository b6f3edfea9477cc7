# SPDX-License-Identifier: Apache-2.0
"""
Analytic kinematics of the UR family: forward, inverse on named branches, singularities.

Radians, metres, float64; twists linear part first; quaternions x, y, z, w; `T_a_b` maps b to a.
`base` is the controller's base frame, `tool` is DH frame 6, tool0. Needs NumPy only.
"""

from ur5_pick_place.kinematics.branches import (
    BRANCHES,
    Singularity,
    branch_index,
    classify,
    singularity,
)
from ur5_pick_place.kinematics.forward import (
    LINK_NAMES,
    arm_corners,
    check_joints,
    forward,
    jacobian,
    link_frames,
    link_pose,
)
from ur5_pick_place.kinematics.inverse import (
    Solution,
    all_solutions,
    all_variants,
    inverse,
    solutions_near,
)
from ur5_pick_place.kinematics.loading import load_model
from ur5_pick_place.kinematics.model import HOME, JOINT_NAMES, UR_TYPES, Model
from ur5_pick_place.kinematics.reasons import MissingBranch, explain

__all__ = [
    'BRANCHES',
    'HOME',
    'JOINT_NAMES',
    'LINK_NAMES',
    'UR_TYPES',
    'MissingBranch',
    'Model',
    'Singularity',
    'Solution',
    'all_solutions',
    'all_variants',
    'arm_corners',
    'branch_index',
    'check_joints',
    'classify',
    'explain',
    'forward',
    'inverse',
    'jacobian',
    'link_frames',
    'link_pose',
    'load_model',
    'singularity',
    'solutions_near',
]
