# SPDX-License-Identifier: Apache-2.0
"""Arms whose joints sit a little beside and askew of where the DH table has them."""

from dataclasses import replace

import numpy as np

from ur5_pick_place.kinematics import Model, load_model
from ur5_pick_place.kinematics.transforms import exp_se3, make_transform


def calibrated_arm(
    ur_type: str, rng: np.random.Generator, metres: float = 1e-3, radians: float = 2e-3
) -> Model:
    """Return an arm each of whose joints is off by normal deviates of these sizes per axis."""
    nominal = load_model(ur_type)
    straight = make_transform(np.eye(3), nominal.d[:, None] * [0.0, 0.0, 1.0])
    off = rng.normal(0.0, [metres] * 3 + [radians] * 3, (6, 6))
    return replace(nominal, mounts=straight @ exp_se3(off), calibration='random')
