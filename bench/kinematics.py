# SPDX-License-Identifier: Apache-2.0
"""Inverse kinematics beside EAIK and ur-analytic-ik, a resolved-rate step beside pinocchio."""

import collections
import tracemalloc
from dataclasses import replace
from statistics import median

import numpy as np
import peers
import pinocchio as pin
from measure import Row, compare

from ur5_pick_place.kinematics import HOME, forward, inverse, jacobian, load_model
from ur5_pick_place.kinematics.transforms import (
    Array,
    exp_so3,
    inverse_transform,
    log_se3,
    make_transform,
)
from ur5_pick_place.planning.dynamics import Dynamics, check_torque
from ur5_pick_place.planning.scene.inertias import Load

UR5 = load_model('ur5')
SINGLES, BATCH, SAMPLES = 200, 10_000, 300
_DAMPING = 1e-4


def measure() -> list[Row]:
    """Run all of it."""
    rng = np.random.default_rng(5)
    with peers.silent():
        parts = _one_pose, _batch, _calibrated, _rate_step, _torques
        return [row for part in parts for row in part(rng)]


def _one_pose(rng: np.random.Generator) -> list[Row]:
    q = rng.uniform(-np.pi, np.pi, (SINGLES, 6))
    random = list(forward(UR5, q))
    singular = list(forward(UR5, q * [1, 1, 1, 1, 0, 1]))

    def ours(poses: list[Array] = random) -> None:
        for T in poses:
            inverse(UR5, T)

    def through(solve: peers.Solve) -> object:
        return lambda: [solve(T) for T in random]

    others = {}
    if both := peers.eaik(UR5):
        others['EAIK'] = through(both[0])
    if solve := peers.ur_analytic_ik(UR5):
        others['ur-analytic-ik'] = through(solve)
    rows = compare('inverse, one pose', ours, others, SINGLES, {'EAIK': 0.5})
    at_random = {'ours at random poses': ours}
    return rows + compare(
        'inverse, wrist singular',
        lambda: ours(singular),
        at_random,
        SINGLES,
        {'ours at random poses': 10.0},
    )


def _batch(rng: np.random.Generator) -> list[Row]:
    poses = forward(UR5, rng.uniform(-np.pi, np.pi, (BATCH, 6)))
    others = {}
    if both := peers.eaik(UR5):
        others['EAIK, one by one'] = lambda: collections.deque(map(both[0], poses), maxlen=0)
        others['EAIK, batched'] = lambda: both[1](poses)
    rows = compare(
        f'inverse, each of {BATCH:,}',
        lambda: inverse(UR5, poses),
        others,
        BATCH,
        {'EAIK, one by one': 0.08},
    )
    tracemalloc.start()
    inverse(UR5, poses)
    peak = tracemalloc.get_traced_memory()[1] / BATCH
    tracemalloc.stop()
    return [*rows, Row(f'memory, each of {BATCH:,}', peak, 'bytes', goal=700.0)]


def _calibrated(rng: np.random.Generator) -> list[Row]:
    """Time an arm each of whose joints is off by 0.5 mm and 1 mrad; median over poses."""
    straight = make_transform(np.eye(3), UR5.d[:, None] * [0.0, 0.0, 1.0])
    off = rng.normal(0.0, [5e-4] * 3 + [1e-3] * 3, (6, 6))
    mounts = straight @ make_transform(exp_so3(off[:, 3:]), off[:, :3])
    arm = replace(UR5, mounts=mounts, calibration='random')
    joints = rng.uniform(-np.pi, np.pi, (SINGLES, 6))
    found = [
        compare(
            '',
            lambda T=T, q=q, seeded=seeded: inverse(arm, T, seed=q if seeded else None),
            {'nominal arm': lambda T=T: inverse(UR5, T)},
            items=1,
        )[0]
        for seeded in (False, True)
        for q, T in zip(joints, forward(arm, joints), strict=True)
    ]
    return [
        Row(
            what,
            median(row.ours for row in rows),
            'us',
            'nominal arm',
            median(row.theirs for row in rows),
            median(row.ratio for row in rows),
            goal=12.0,
        )
        for what, rows in (
            ('inverse, calibrated arm', found[:SINGLES]),
            ('inverse, calibrated, seeded', found[SINGLES:]),
        )
    ]


def _rate_step(rng: np.random.Generator) -> list[Row]:
    """Joint speeds towards a goal: forward, body Jacobian, logarithm, damped solve."""
    joints = HOME + rng.uniform(-0.3, 0.3, (SINGLES, 6))
    T_goal_base = inverse_transform(forward(UR5, HOME))
    goal = pin.SE3(T_goal_base)
    arm, tool = _in_pinocchio()
    data = arm.createData()

    def ours(q: Array) -> Array:
        return _damped(jacobian(UR5, q), log_se3(T_goal_base @ forward(UR5, q)))

    def theirs(q: Array) -> Array:
        pin.computeJointJacobians(arm, data, q)
        pin.updateFramePlacement(arm, data, tool)
        J = pin.getFrameJacobian(arm, data, tool, pin.ReferenceFrame.LOCAL)
        return _damped(J, pin.log6(goal * data.oMf[tool]).vector)

    np.testing.assert_allclose(ours(joints[0]), theirs(joints[0]), atol=1e-12)
    return compare(
        'resolved-rate step',
        lambda: [ours(q) for q in joints],
        {'pinocchio': lambda: [theirs(q) for q in joints]},
        SINGLES,
    )


def _damped(J: Array, xi: Array) -> Array:
    return -J.T @ np.linalg.solve(J @ J.T + _DAMPING * np.eye(6), xi)


def _in_pinocchio() -> tuple[pin.Model, int]:
    """Return the UR5 as a model of pinocchio, and the index of its tool frame."""
    arm, before = pin.Model(), pin.SE3.Identity()
    for i in range(6):
        up = pin.SE3(np.eye(3), np.array([0.0, 0.0, UR5.d[i]]))
        arm.addJoint(i, pin.JointModelRZ(), before * up, f'joint_{i}')
        before = pin.SE3(pin.utils.rotate('x', UR5.alpha[i]), np.array([UR5.a[i], 0.0, 0.0]))
    return arm, arm.addFrame(pin.Frame('tool0', 6, before, pin.FrameType.OP_FRAME))


def _torques(rng: np.random.Generator) -> list[Row]:
    """Time the torque check of a motion of 300 samples with a load: at most 5 ms."""
    arm = Dynamics(UR5, (Load(2.0, (0.0, 0.0, 0.1)),))
    t, q = np.linspace(0.0, 1.0, SAMPLES), HOME + rng.normal(0.0, 0.1, (SAMPLES, 6))
    (row,) = compare('torques', lambda: check_torque(t, q, 0.1 * q, 0.1 * q, arm), {}, items=1)
    return [Row(f'torques of {SAMPLES} samples', row.ours, 'us', goal=5000.0)]
