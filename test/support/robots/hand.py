# SPDX-License-Identifier: Apache-2.0
"""Commands the simulated world as a person with a teach pendant would."""

import numpy as np

from ur5_pick_place.kinematics import inverse, load_model
from ur5_pick_place.kinematics.model import CYCLE
from ur5_pick_place.sim.physics.cell import PART_SIZE, upright
from ur5_pick_place.sim.physics.world import World

TURN = np.diag([-1.0, -1.0, 1.0, 1.0])  # base_link <- base
TCP = upright(0.0, 0.0, 0.145, 0.0)  # tool <- tcp
TOOL_DOWN = np.diag([1.0, -1.0, -1.0, 1.0])
GRASP_HEIGHT = PART_SIZE / 2


def quintic(n: int) -> np.ndarray:
    """Sample rest-to-rest progress from 0 to 1, shape (n, 1)."""
    x = np.arange(1, n + 1)[:, None] / n
    return x**3 * (10 - 15 * x + 6 * x**2)


class Hand:
    """Commands a world as a person with a teach pendant would."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.q = world.q
        self.model = load_model('ur5')
        self.torques: list[float] = []

    def joints(self, x: float, y: float, z: float, yaw: float) -> np.ndarray:
        """Find the joints nearest to the present ones, tool down, TCP at x, y, z."""
        T_base_tool = TURN @ upright(x, y, z, yaw) @ TOOL_DOWN @ np.linalg.inv(TCP)
        q, ok = inverse(self.model, T_base_tool)
        assert ok.any(), f'({x}, {y}, {z}) is out of reach'
        near = self.q + (q[ok] - self.q + np.pi) % (2 * np.pi) - np.pi
        return near[np.abs(near - self.q).max(axis=1).argmin()]

    def go(self, x: float, y: float, z: float, yaw: float, duration: float = 0.8) -> None:
        """Move the TCP there, joints along a quintic."""
        goal = self.joints(x, y, z, yaw)
        for q in self.q + quintic(round(duration / CYCLE)) * (goal - self.q):
            self.world.step(q)
            self.torques.append(self.world.external_torque)
        self.q = goal

    def wait(self, duration: float) -> None:
        """Stay where the last command was."""
        for _ in range(round(duration / CYCLE)):
            self.world.step(self.q)
            self.torques.append(self.world.external_torque)

    def grip(self, closed: bool) -> None:
        """Close or open, and wait until that is done."""
        self.world.hand.close(closed)
        self.wait(0.8)


def hand_over(world: World, x: float, y: float, yaw: float) -> Hand:
    """Bring the open gripper around a spot of the table, at grasp height."""
    hand = Hand(world)
    hand.go(x, y, 0.15, yaw, duration=1.2)
    hand.go(x, y, GRASP_HEIGHT, yaw)
    hand.wait(0.2)
    return hand
