# SPDX-License-Identifier: Apache-2.0
"""Calibration files as the driver ships and measures them, and calibrated arms without one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from twists import exp_se3

from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.kinematics.transforms import make_transform

# What the driver ships for the UR5: x, y, z [m], roll, pitch, yaw [rad] of each joint.
SHIPPED = {
    'shoulder': (0, 0, 0.089159, 0, 0, 0),
    'upper_arm': (0, 0, 0, 1.570796327, 0, 0),
    'forearm': (-0.425, 0, 0, 0, 0, 0),
    'wrist_1': (-0.39225, 0, 0.10915, 0, 0, 0),
    'wrist_2': (0, -0.09465, -1.941303950897609e-11, 1.570796327, 0, 0),
    'wrist_3': (
        0,
        0.0823,
        -1.688001216681175e-11,
        1.570796326589793,
        3.141592653589793,
        3.141592653589793,
    ),
}


def write(path: Path, links: dict) -> Path:
    entries = {
        link: dict(zip(('x', 'y', 'z', 'roll', 'pitch', 'yaw'), map(float, pose), strict=True))
        for link, pose in links.items()
    }
    path.write_text(yaml.safe_dump({'kinematics': {**entries, 'hash': 'calib_1234'}}))
    return path


def calibrated_arm(
    ur_type: str, rng: np.random.Generator, metres: float = 1e-3, radians: float = 2e-3
) -> Model:
    """Return an arm each of whose joints is off by normal deviates of these sizes per axis."""
    nominal = load_model(ur_type)
    straight = make_transform(np.eye(3), nominal.d[:, None] * [0.0, 0.0, 1.0])
    off = rng.normal(0.0, [metres] * 3 + [radians] * 3, (6, 6))
    return replace(nominal, mounts=straight @ exp_se3(off), calibration='random')
