# SPDX-License-Identifier: Apache-2.0
"""
The dynamics are those of the published tables.

They equal a second derivation from frames and energies, and MuJoCo's model of the cell; the
equation of motion holds together; and overloaded joints are named.
"""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from calibration_files import calibrated_arm

from ur5_pick_place.errors import GateRefusal, InvalidInput
from ur5_pick_place.kinematics import HOME, UR_TYPES, Model, link_frames, load_model
from ur5_pick_place.planning.dynamics import Dynamics, check_torque, link_inertias
from ur5_pick_place.planning.scene.inertias import Load
from ur5_pick_place.sim.physics.cell import ARM, HAND, load_cell

UR5 = load_model('ur5')
GRIPPER = Load(
    0.76, (0.01, -0.02, 0.06), np.array([[3e-3, 1e-4, 0], [1e-4, 2e-3, 0], [0, 0, 4e-3]])
)
PART = Load(2.0, (0.0, 0.03, 0.145))
HAND_BODIES = [f'{HAND}{name}' for name in ('gripper', 'finger_left', 'finger_right')]
ARMS = ('ur5', 'ur10e')  # inertias without and with products


def askew(m: Model, rng: np.random.Generator) -> Model:
    """Return the arm with calibrated mounts and offsets of joints."""
    return replace(calibrated_arm(m.name, rng), offset=rng.uniform(-3, 3, 6))


def bodies(
    arm: str, loads: tuple[Load, ...]
) -> list[tuple[int, float, np.ndarray, np.ndarray]]:
    """List DH frame, mass [kg], centre [m] and inertia [kg m2] of each body."""
    links = [
        (i, link.mass, link.lever, link.inertia)
        for i, link in enumerate(link_inertias(arm), 1)
    ]
    return links + [(6, load.mass, load.centre, load.inertia) for load in loads]


def mass_matrix(m: Model, q: np.ndarray, carried: list) -> np.ndarray:
    """Sum J^T M J over all bodies, from the frames of the kinematics."""
    frames = link_frames(m, q)
    axes = frames[:6] if m.mounts is None else frames[:6] @ m.mounts
    M = np.zeros((6, 6))
    for i, mass, centre, inertia in carried:
        R, p = frames[i, :3, :3], frames[i, :3, :3] @ centre + frames[i, :3, 3]
        J_w = np.where(np.arange(6) < i, axes[:, :3, 2].T, 0.0)
        J_v = np.cross(J_w.T, p - axes[:, :3, 3]).T
        M += mass * J_v.T @ J_v + J_w.T @ R @ inertia @ R.T @ J_w
    return M


def potential(m: Model, q: np.ndarray, carried: list) -> float:
    """Weigh all bodies [J]."""
    frames = link_frames(m, q)
    return sum(9.81 * mass * (frames[i] @ [*centre, 1.0])[2] for i, mass, centre, _ in carried)


def derivative(f, q: np.ndarray) -> np.ndarray:
    """Differentiate f by each joint, to eighth order, so that 1e-11 of it is right."""
    h, weights = 0.02, (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    return np.array(
        [
            sum(w * (f(q + k * e) - f(q - k * e)) for k, w in enumerate(weights, 1)) / h
            for e in np.eye(6) * h
        ]
    )


def coriolis(m: Model, q: np.ndarray, qd: np.ndarray, carried: list) -> np.ndarray:
    """Give the matrix of Christoffel symbols times qd."""
    dM = derivative(lambda x: mass_matrix(m, x, carried), q)  # dM[k, i, j] = dM_ij / dq_k
    symbols = 0.5 * (dM.transpose(1, 2, 0) + dM.transpose(1, 0, 2) - dM)  # [i, j, k]
    return symbols @ qd


@pytest.mark.parametrize('name', ARMS)
@pytest.mark.parametrize('loads', [(), (GRIPPER, PART)], ids=['bare', 'loaded'])
def test_torques_equal_a_second_derivation_from_frames_and_energies(name, loads, rng):
    carried, nominal = bodies(name, loads), load_model(name)
    for m in (nominal, askew(nominal, rng)):
        arm = Dynamics(m, loads)
        for q, qd, qdd in rng.uniform(-3, 3, (5, 3, 6)):
            M, C = mass_matrix(m, q, carried), coriolis(m, q, qd, carried)
            g = derivative(lambda x, m=m: potential(m, x, carried), q)
            assert np.abs(arm.inverse(q, 0.0, qdd) - g - M @ qdd).max() < 1e-9
            assert np.abs(arm.gravity(q) - g).max() < 1e-9
            assert np.abs(arm.inverse(q, qd, qdd) - (M @ qdd + C @ qd + g)).max() < 1e-9


@pytest.mark.parametrize('ur_type', UR_TYPES)
def test_the_simulated_cell_is_the_same_arm(ur_type, rng):
    """
    MuJoCo's M without its rotors, and its C qd + g, with the gripper open as one load.

    The cell has the figures of UR's robot description, which we round to 10 digits.
    """
    model = load_cell(ur_type=ur_type)
    model.opt.gravity[2] = -9.81
    data = mujoco.MjData(model)
    arm = Dynamics(load_model(ur_type), (gripper_of(model, data),))
    full = np.zeros((model.nv, model.nv))
    for q, qd in rng.uniform(-3, 3, (6, 2, 6)):
        data.qpos[ARM], data.qvel[ARM] = q, qd
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, full)
        M = full[ARM, ARM] - np.diag(model.dof_armature[ARM])
        assert np.abs(arm.inverse(q, 0.0, np.eye(6)) - arm.gravity(q) - M).max() < 1e-8
        bias = data.qfrc_bias[ARM]
        assert np.abs(arm.inverse(q, qd, 0.0) - bias).max() < 1e-8
        data.qvel[ARM] = 0.0
        mujoco.mj_forward(model, data)
        assert np.abs(arm.gravity(q) - data.qfrc_bias[ARM]).max() < 1e-9


def gripper_of(model: mujoco.MjModel, data: mujoco.MjData) -> Load:
    """Join the cell's gripper and its open fingers to one load, seen from tool0."""
    mujoco.mj_forward(model, data)
    flange = data.body('wrist_3_link')
    R_world_tool = flange.xmat.reshape(3, 3)
    pieces = [model.body(name).id for name in HAND_BODIES]
    mass = model.body_mass[pieces]
    centres = (data.xipos[pieces] - flange.xpos) @ R_world_tool
    centre = mass @ centres / mass.sum()
    inertia = np.zeros((3, 3))
    for k, piece in enumerate(pieces):
        R = R_world_tool.T @ data.ximat[piece].reshape(3, 3)
        r = centres[k] - centre
        inertia += R @ np.diag(model.body_inertia[piece]) @ R.T
        inertia += mass[k] * (r @ r * np.eye(3) - np.outer(r, r))
    return Load(float(mass.sum()), centre, (inertia + inertia.T) / 2)


@pytest.mark.parametrize('arm', UR_TYPES)
def test_every_link_is_a_body_that_can_exist(arm):
    """No principal moment exceeds the other two together, but for what the sheets round."""
    for link in link_inertias(arm):
        smallest, middle, largest = np.linalg.eigvalsh(link.inertia)
        assert smallest > 0.0
        assert largest <= 1.02 * (smallest + middle)


@pytest.mark.parametrize('arm', UR_TYPES)
def test_an_arm_holds_its_rated_payload_stretched_out_and_not_ten_times_it(arm):
    m, still = load_model(arm), np.zeros((1, 6))
    assert check_torque(np.zeros(1), still, still, still, lifting(m, m.payload)) < 1.0
    with pytest.raises(GateRefusal, match='would need'):
        check_torque(np.zeros(1), still, still, still, lifting(m, 10 * m.payload))


def lifting(m: Model, mass: float) -> Dynamics:
    return Dynamics(m, [Load(mass, (0.0, 0.0, 0.0))])


def test_states_may_come_in_any_stack(rng):
    arm = Dynamics(UR5)
    q, qd, qdd = rng.uniform(-3, 3, (3, 4, 5, 6))
    torque = arm.inverse(q, qd, qdd)
    assert torque.shape == (4, 5, 6)
    assert np.array_equal(torque[2, 3], arm.inverse(q[2, 3], qd[2, 3], qdd[2, 3]))
    assert np.array_equal(arm.gravity(q)[1, 1], arm.gravity(q[1, 1]))


def test_an_overloaded_joint_is_named_with_time_torque_and_limit():
    """Stretched out, 25 kg at the flange are about 240 N m at the shoulder."""
    stretched = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    q, still = np.array([HOME, HOME, stretched]), np.zeros((3, 6))
    heavy = Dynamics(UR5, (Load(25.0, (0.0, 0.0, 0.0)),))
    with pytest.raises(
        GateRefusal, match=r'shoulder_lift_joint would need 2\d\d\.\d N m at 2\.000 s'
    ):
        check_torque(np.arange(3.0), q, still, still, heavy)
    fits = Dynamics(UR5, (Load(5.0, (0.0, 0.0, 0.0)),))
    assert check_torque(np.arange(3.0), q, still, still, fits) < 1.0  # its rated payload


def test_torques_that_are_not_numbers_are_refused():
    still = np.zeros((2, 6))
    endless = Dynamics(UR5, [Load(1.7e308, (0.0, 0.0, 0.1))])
    with np.errstate(all='ignore'), pytest.raises(GateRefusal, match='would need nan N m'):
        check_torque(np.arange(2.0), np.array([HOME, HOME]), still, still, endless)


@pytest.mark.parametrize(
    ('make', 'message'),
    [
        (lambda: Dynamics(replace(UR5, name='ur4')), "of 'ur4': must be those of one of ur3, ur5"),
        (lambda: Load(-1.0, (0, 0, 0)), 'load of -1.0 kg: must be a finite mass'),
        (lambda: Dynamics(UR5).gravity(np.zeros(5)), r'q has shape \(5,\)'),
        (lambda: Dynamics(UR5).gravity([0, 0, np.nan, 0, 0, 0]), 'elbow_joint'),
        (lambda: Dynamics(UR5).inverse(HOME, np.inf, 0.0), 'not all finite'),
    ],
)
def test_bad_input_is_refused_with_its_value(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
