# SPDX-License-Identifier: Apache-2.0
"""Draw `concepts/branches.png`: one pose of a UR5 on each of its eight branches."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ur5_pick_place.kinematics import BRANCHES, forward, inverse, load_model

TOOL_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])
TOOL_DOWN[:3, 3] = -0.35, -0.25, 0.20  # [m] in `base`, whose x axis points backwards


def points(model, q):
    """Return the centres of the links of an arm, (n, 3) [m] in `base`."""
    a2, a3, d1, d4, d5, _ = model.lengths
    # Along the chain: the shoulder and the elbow lie beside the DH frames, on the arm itself.
    T = np.eye(4)
    found = [T[:3, 3].copy()]

    def move(axis, distance):
        T[:3, 3] += distance * T[:3, axis]
        found.append(T[:3, 3].copy())

    def turn(angle, alpha=0.0):
        c, s, ca, sa = np.cos(angle), np.sin(angle), np.cos(alpha), np.sin(alpha)
        T[:3, :3] = T[:3, :3] @ [[c, -s * ca, s * sa], [s, c * ca, -c * sa], [0, sa, ca]]

    turn(q[0])
    move(2, d1)
    turn(0, np.pi / 2)
    side = 0.13
    move(2, side)
    turn(q[1])
    move(0, a2)
    move(2, -side)
    turn(q[2])
    move(0, a3)
    move(2, d4)
    turn(q[3], np.pi / 2)
    move(2, d5)
    found.append(forward(model, q)[:3, 3])
    return np.array(found)


def main():
    model = load_model('ur5')
    solutions, ok = inverse(model, TOOL_DOWN)
    assert ok.all()
    figure = plt.figure(figsize=(11, 6.2))
    for row, (name, q) in enumerate(zip(BRANCHES, solutions, strict=True)):
        axes = figure.add_subplot(2, 4, row + 1, projection='3d')
        path = points(model, q) * [-1, -1, 1]  # in base_link
        end = path[-1]
        axes.plot(*path.T, color='#2b6ca3', linewidth=6, solid_joinstyle='round')
        axes.plot(*path[:-1].T, 'o', color='#1c2f45', markersize=4)
        axes.plot(*np.transpose([end, end - [0, 0, 0.12]]), color='#e07b00', linewidth=4)
        axes.plot(0, 0, 0, 's', color='#555555', markersize=10)
        axes.set_title(name, fontsize=14, pad=-8)
        axes.set(xlim=(-0.3, 0.6), ylim=(-0.3, 0.6), zlim=(-0.1, 0.6))
        axes.set_box_aspect((0.9, 0.9, 0.7), zoom=1.5)
        axes.view_init(elev=16, azim=-75)
        axes.set_axis_off()
    figure.subplots_adjust(left=0, right=1, bottom=0, top=0.96, wspace=0, hspace=0.08)
    figure.savefig(Path(__file__).with_name('concepts') / 'branches.png', dpi=100)


if __name__ == '__main__':
    main()
