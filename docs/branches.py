# SPDX-License-Identifier: Apache-2.0
"""Draw `concepts/branches.png`: one pose of a UR5 on each of its eight branches."""

from pathlib import Path

import matplotlib.pyplot as plt
import mujoco
import numpy as np

from ur5_pick_place.kinematics import BRANCHES, inverse, load_model
from ur5_pick_place.sim.physics.cell import CellPose, apply_pose, lay_marks, load_cell

TOOL_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])
TOOL_DOWN[:3, 3] = -0.35, -0.25, 0.4  # [m] in `base`, whose x axis points backwards


def main():
    solutions, ok = inverse(load_model('ur5'), TOOL_DOWN)
    assert ok.all()
    model = load_cell(is_drawn=True)
    data, away = mujoco.MjData(model), np.eye(4)
    away[:3, 3] = -9.0  # cube and marks
    lay_marks(model, data, away, away)
    camera = mujoco.MjvCamera()
    camera.lookat, camera.distance = (0.14, 0.1, 0.28), 1.45  # [m]
    camera.azimuth, camera.elevation = 105.0, -12.0  # [deg]
    figure, axes = plt.subplots(2, 4, figsize=(11, 6.4))
    with mujoco.Renderer(model, 600, 550) as renderer:
        for name, q, panel in zip(BRANCHES, solutions, axes.flat, strict=True):
            apply_pose(model, data, CellPose(q, np.zeros(2), away))
            mujoco.mj_forward(model, data)
            renderer.update_scene(data, camera)
            panel.imshow(renderer.render())
            panel.set_title(name, fontsize=14)
            panel.set_axis_off()
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.95, wspace=0.02, hspace=0.1)
    figure.savefig(Path(__file__).with_name('concepts') / 'branches.png', dpi=100)


if __name__ == '__main__':
    main()
