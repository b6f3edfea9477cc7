# SPDX-License-Identifier: Apache-2.0
"""The dynamics of the arm with the tool that the parameters describe."""

import numpy as np

from ur5_pick_place.kinematics import Model
from ur5_pick_place.nodes.cell.robot_settings import RobotSettings
from ur5_pick_place.planning.dynamics import Dynamics
from ur5_pick_place.planning.scene.inertias import Load


# Not in robot_settings: the IK service imports that module, and must start without pinocchio.
def arm_dynamics(model: Model, settings: RobotSettings) -> Dynamics:
    """Return the dynamics of the arm with its tool."""
    tool = Load(settings.payload_mass or 0.0, np.array(settings.payload_centre))
    return Dynamics(model, [tool])
