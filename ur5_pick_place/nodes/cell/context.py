# SPDX-License-Identifier: Apache-2.0
"""What the parts of a node share: the arm, its scene, its frames, and the node itself."""

from dataclasses import dataclass

import numpy as np

from ur5_pick_place.nodes.cell.robot_settings import RobotSettings, RobotSetup, load_cell
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.tf.frames import Frames, StampSettings
from ur5_pick_place.planning.scene.inertias import Load


@dataclass(frozen=True)
class Cell(RobotSetup):
    """The cell as a node sees it."""

    node: SerialNode
    robot: RobotSettings  # the parameters that it was loaded by
    frames: Frames

    @property
    def tool_load(self) -> Load:
        """The load of the tool that the parameters describe."""
        return Load(self.robot.payload_mass or 0.0, np.array(self.robot.payload_centre))


def make_cell(
    node: SerialNode, robot: RobotSettings, stamps: StampSettings, keep: float = 0.0
) -> Cell:
    """Return the cell of a node; `keep` as of `Frames`, errors as `load_cell`."""
    setup = load_cell(robot)
    frames = Frames(node, robot.tf_prefix, setup.T_tool_tcp, setup.model, stamps, keep)
    return Cell(**vars(setup), node=node, robot=robot, frames=frames)
