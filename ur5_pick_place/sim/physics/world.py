# SPDX-License-Identifier: Apache-2.0
"""
The simulated cell: a UR arm, its gripper and cubes in MuJoCo, with its own clock, without ROS.

The frame `world` has z up and 0 at the table's top; `base_link` is where the arm is mounted on it,
for an arm that stands on the table the same frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.mounting import Mounting
from ur5_pick_place.kinematics.transforms import Array, inverse_transform
from ur5_pick_place.settings import Settings, setting
from ur5_pick_place.sim.grippers import DIGITAL, GRIPPERS, VACUUM
from ur5_pick_place.sim.layouts import LAYOUTS, home
from ur5_pick_place.sim.physics.arm import ARM_TYPES, load_arm
from ur5_pick_place.sim.physics.cell import (
    ARM,
    HAND,
    MAX_PARTS,
    PART_SIZE,
    TABLE_X,
    TABLE_Y,
    load_cell,
    part_name,
    pose_arm,
    pose_part,
    upright,
)
from ur5_pick_place.sim.physics.engine import mujoco
from ur5_pick_place.sim.physics.hand import Cup, Fingers, Hand
from ur5_pick_place.sim.physics.scene_boxes import SolidBox
from ur5_pick_place.sim.physics.servo_lag import LaggedReference

_FREEDRIVE_DAMPING = 2.0  # [N m s/rad], about that of the real arm

_FARTHEST = 10.0  # [m] of a part; MuJoCo starts anew beyond 1e10
_FEEDER_CLEARANCE = 0.08  # [m]; two cubes that touch at corners are 64 mm apart


@dataclass(frozen=True)
class CellSettings(Settings):
    """Settings of the simulated cell."""

    ur_type: str = setting('ur5', 'robot type', choices=ARM_TYPES)
    gripper: str = setting(
        DIGITAL,
        'fingers on a tool output, a suction cup on two, or fingers behind an action server',
        choices=GRIPPERS,
    )
    mounting: str = setting(
        'floor',
        'how the base is mounted: floor, wall, ceiling, or its roll and pitch [deg], "0 30"; the '
        'scene file tells how high',
    )
    servo_lag: float = setting(
        0.03, 'lag of the arm behind its setpoint; real arms lag too', unit='s', low=0.0, high=0.2
    )
    part_x: float = setting(
        0.0,
        'initial x of the cube on the table; part_x = part_y = 0: the start of the demo',
        unit='m',
        low=TABLE_X[0],
        high=TABLE_X[1],
    )
    part_y: float = setting(
        0.0, 'initial y of the cube on the table', unit='m', low=TABLE_Y[0], high=TABLE_Y[1]
    )
    part_yaw: float = setting(
        0.0, 'initial rotation of the cube about z', unit='deg', low=-180.0, high=180.0
    )
    parts: int = setting(
        1, 'number of cubes; all but the first wait on a shelf to be fed', low=1, high=MAX_PARTS
    )

    def __post_init__(self) -> None:
        if self.gripper not in GRIPPERS:
            raise InvalidInput(
                f'gripper = {self.gripper!r}: the simulated cell has {", ".join(GRIPPERS)}: name '
                'another kind, or a class of your own under /**/pick_place, not under /**'
            )
        super().__post_init__()
        Mounting.read(self.mounting)

    @property
    def feeder(self) -> tuple[float, float, float]:
        """Initial x and y of the cube [m] and its rotation [rad]."""
        x, y = self.part_x, self.part_y
        if x == y == 0.0:
            x, y, _ = LAYOUTS[self.ur_type].start
        return x, y, math.radians(self.part_yaw)


class World:
    """
    The simulated cell, stepped by one driver cycle at a time.

    The joint servos are position controllers with inverse-dynamics feed-forward for the arm and
    its empty gripper, limited to the joints' torques.

    Of several cubes, "the cube" or "the part" is the one that was fed last.

    `settings`: the arm, number of cubes, position of the feeder, and servo lag. `q` (6,): joint
    positions to start from, at rest [rad]; home if not given. `boxes`: what else stands in the
    cell. `table_height`: of the table over the origin of `base_link` [m].

    - `T_base_link_world`: (4, 4)
    """

    def __init__(
        self,
        settings: CellSettings = CellSettings(),
        q: ArrayLike | None = None,
        boxes: Sequence[SolidBox] = (),
        table_height: float = 0.0,
    ) -> None:
        mounting = Mounting.read(settings.mounting)
        q = home(mounting) if q is None else _check_joints(q)
        self.T_base_link_world = mounting.T_base_link_level(table_height)
        self.settings, self.cycle = settings, load_arm(settings.ur_type).cycle
        self._model = load_cell(
            settings.parts,
            boxes,
            settings.ur_type,
            settings.gripper,
            inverse_transform(self.T_base_link_world),
        )
        self._data = mujoco.MjData(self._model)
        self._planned = mujoco.MjData(self._model)  # the state for inverse dynamics
        self.hand: Hand = (
            Cup(self._model, self._data, settings.parts)
            if settings.gripper == VACUUM
            else Fingers(self._model, self._data)
        )
        self._steps = round(self.cycle / self._model.opt.timestep)
        self._cycles = 0
        self._reference = LaggedReference(settings.servo_lag, self.cycle, self._steps)
        self._driven = False
        self._kp = self._model.actuator_gainprm[ARM, 0].copy()
        self._kv = -self._model.actuator_biasprm[ARM, 2]
        self._torque = self._inverse_dynamics(q, 0.0, 0.0)
        self._contact_torque = np.zeros((self._steps, 6))
        self._part = 0  # the one that was fed last
        x, y, yaw = settings.feeder
        pose_arm(self._model, self._data, q, np.zeros(2))
        self._put_part(upright(x, y, PART_SIZE / 2, yaw))

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._cycles * self.cycle

    def step(self, q_command: ArrayLike | None) -> None:
        """
        Advance the world by one cycle of its driver.

        `q_command` (6,): joint setpoint [rad] for the end of the cycle, as `servoj` takes it. At
        the start and after freedrive the measured position is the previous setpoint. None is
        freedrive: gravity is compensated, and motion is lightly damped.

        Raises `InvalidInput`: the setpoint is not six finite numbers; nothing has moved.
        """
        if q_command is None:
            self._step_freedrive()
        else:
            self._step_driven(_check_joints(q_command))
        self._driven = q_command is not None
        self._cycles += 1
        mujoco.mj_kinematics(self._model, self._data)  # a step leaves them one step old
        self.hand.advance(self.cycle)

    def let_go(self) -> None:
        """Forget earlier setpoints: the next leads from where the arm is, and as it moves."""
        self._driven = False

    def _step_driven(self, q_command: Array) -> None:
        if not self._driven:
            self._reference.start_at(self.q, self.qd)
        q, qd, qdd = self._reference.advance(q_command)
        # A servo pulls with kp (ctrl - q) - kv qd; so it pulls kp (q_ref - q) + kv (qd_ref - qd).
        ctrl = q + self._kv / self._kp * qd
        for i in range(self._steps):
            feedforward = self._inverse_dynamics(q[i], qd[i], qdd[i])
            self._data.ctrl[ARM] = ctrl[i] + feedforward / self._kp
            self._step_physics(i)

    def _step_freedrive(self) -> None:
        for i in range(self._steps):
            q, qd = self._data.qpos[ARM], self._data.qvel[ARM]
            gravity = self._inverse_dynamics(q, 0.0, 0.0)
            wanted = gravity - _FREEDRIVE_DAMPING * qd
            self._data.ctrl[ARM] = q + (self._kv * qd + wanted) / self._kp
            self._step_physics(i)

    def _step_physics(self, i: int) -> None:
        self.hand.step()
        mujoco.mj_step(self._model, self._data)
        self._torque = self._data.actuator_force[ARM].copy()
        self._contact_torque[i] = self._data.qfrc_constraint[ARM]

    def _inverse_dynamics(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike
    ) -> Array:
        """Return the torque [N m] of a motion of arm and empty gripper, with rotor inertia."""
        model, planned = self._model, self._planned
        planned.qpos[ARM], planned.qvel[ARM], planned.qacc[ARM] = q, qd, qdd
        torque = np.empty(model.nv)
        mujoco.mj_kinematics(model, planned)
        mujoco.mj_comPos(model, planned)
        mujoco.mj_comVel(model, planned)
        mujoco.mj_rne(model, planned, 1, torque)
        return np.asarray(torque[ARM] + model.dof_armature[ARM] * planned.qacc[ARM])

    @property
    def q(self) -> Array:
        """Joint positions, shape (6,) [rad]."""
        return np.array(self._data.qpos[ARM])

    @property
    def qd(self) -> Array:
        """Joint velocities, shape (6,) [rad/s]."""
        return np.array(self._data.qvel[ARM])

    @property
    def effort(self) -> Array:
        """Torque of the joint motors at the end of the last cycle, shape (6,) [N m]."""
        return self._torque.copy()

    @property
    def external_torque(self) -> float:
        """
        Largest joint torque that the measured motion does not explain [N m], mean of the cycle.

        In a contact the motor of a joint supplies torque beyond the inverse dynamics of the
        measured motion: 0.6 N m in normal motion with the cube, above 100 N m in a collision.
        Hard braking adds none.
        """
        return float(np.abs(self.contact_torque).max())

    @property
    def contact_torque(self) -> Array:
        """Torque of contacts on the joints, shape (6,) [N m], mean of the cycle."""
        return np.asarray(self._contact_torque.mean(axis=0))

    @property
    def T_world_tcp(self) -> Array:
        """Pose of the point between the finger pads, shape (4, 4)."""
        return _pose_of(self._data.site(f'{HAND}tcp'))

    @property
    def T_world_part(self) -> Array:
        """Pose of the cube's centre, shape (4, 4)."""
        return _pose_of(self._data.body(part_name(self._part)))

    @property
    def T_world_parts(self) -> Array:
        """Poses of the centres of all cubes fed so far, the first one first, shape (n, 4, 4)."""
        fed = range(self._part + 1)
        return np.array([_pose_of(self._data.body(part_name(k))) for k in fed])

    def place_part(self, x: float, y: float, yaw: float, z: float | None = None) -> None:
        """
        Place the cube upright and at rest.

        `x` and `y`: position of its centre [m]. `yaw`: rotation about z [rad]. `z`: height of its
        centre [m]; default: on the table.
        """
        height = PART_SIZE / 2 if z is None else z
        if not (np.abs([x, y, height]) <= _FARTHEST).all() or not np.isfinite(yaw):
            raise InvalidInput(
                f'part at ({x}, {y}, {height}) m, yaw {yaw} rad: must lie within {_FARTHEST:g} m '
                'of the base in x, y and z, and yaw be finite'
            )
        self.hand.release()
        self._put_part(upright(x, y, height, yaw))

    def _put_part(self, T_world_part: Array) -> None:
        pose_part(self._data, T_world_part, self._part)
        mujoco.mj_kinematics(self._model, self._data)

    def feed_part(self) -> str:
        """
        Place the next waiting cube at the feeder; return which one it is.

        Raises `InvalidInput`: no cube is left, or a cube is too close to the feeder.
        """
        n = self._part + 1
        if n == self.settings.parts:
            raise InvalidInput(f'all {n} parts were fed: increase `parts`')
        x, y, yaw = self.settings.feeder
        away = np.linalg.norm(self.T_world_parts[:, :3, 3] - [x, y, PART_SIZE / 2], axis=1)
        if away.min() < _FEEDER_CLEARANCE:
            raise InvalidInput(
                f'part {away.argmin() + 1} is {1e3 * away.min():.0f} mm from the feeder: must be '
                f'at least {1e3 * _FEEDER_CLEARANCE:.0f} mm away; remove it first'
            )
        self._part = n
        self.place_part(x, y, yaw)
        return f'part {n + 1} of {self.settings.parts}'


def _pose_of(thing: Any) -> Array:
    """Return the pose, shape (4, 4), of a body or site of MuJoCo's data."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = thing.xmat.reshape(3, 3), thing.xpos
    return T


def _check_joints(q: ArrayLike) -> Array:
    q = np.asarray(q, dtype=float)
    if q.shape != (6,) or not np.isfinite(q).all():
        raise InvalidInput(f'joint positions {q.tolist()}: must be six finite numbers [rad]')
    return q
