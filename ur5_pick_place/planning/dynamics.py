# SPDX-License-Identifier: Apache-2.0
"""
Joint torques of a motion: the arm with tool and payload as rigid bodies, by pinocchio.

M(q) qdd + C(q, qd) qd + g(q) = torque, without friction and without the motor rotors, which UR
does not publish. Gravity pulls at 9.81 m/s2 in the direction that the mounting of the base gives.
"""

import copy
import threading
from collections.abc import Sequence

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ur5_pick_place.errors import GateRefusal, InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES, Model, check_joints
from ur5_pick_place.kinematics.model import ARMS
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import Array, exp_so3, is_finite, make_transform
from ur5_pick_place.planning.scene.inertias import Load

GRAVITY = 9.81
"""[m/s2]"""
# A caller's own DH table gets the UR5's inertias, as it gets its limits.
_SAME_AS = {'dh': 'ur5', 'ur3_lab': 'ur3'}


class Dynamics:
    """
    The dynamics of one arm and what it carries; safe to share between threads.

    `m`: ideal or calibrated; a caller's own DH table gets the UR5's inertias. `loads`: tool and
    payload, fixed to tool0. `mounting`: of the base.

    Raises `InvalidInput`: the inertias of the arm are unknown.
    """

    def __init__(
        self, m: Model, loads: Sequence[Load] = (), mounting: Mounting = FLOOR
    ) -> None:
        self.torque_max = m.effort_max
        self._arm = _build(m)
        self._arm.gravity.linear = -GRAVITY * mounting.up_base
        self._T_joint_tool = _after_joint(m, 5)
        self._of_thread = threading.local()  # its pool: a copy of the arm with its data
        for load in loads:
            self._append(load)

    def _append(self, load: Load) -> None:
        self._of_thread = threading.local()
        body = pin.Inertia(load.mass, load.centre, load.inertia)
        self._arm.appendBodyToJoint(6, body, self._T_joint_tool)

    def with_load(self, load: Load) -> 'Dynamics':
        """Return the dynamics with a further load fixed to tool0."""
        other = copy.copy(self)
        other._arm = self._arm.copy()
        other._append(load)
        return other

    def gravity(self, q: ArrayLike) -> Array:
        """Return g(q): the torques that hold the arm, shape (..., 6) [N m]."""
        return self.inverse(q, 0.0, 0.0)

    def inverse(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Array:
        """
        Return the torques of a motion.

        `q`, `qd`, `qdd` (..., 6): joint positions [rad], velocities [rad/s] and accelerations
        [rad/s2].

        Returns (..., 6) [N m].
        """
        shape, states = _states(q, qd, qdd)
        pool = getattr(self._of_thread, 'pool', None)
        if pool is None:
            pool = self._of_thread.pool = pin.ModelPool(self._arm, 1)
        torque = pin.rneaInParallel(1, pool, *states)  # one call: no thread beside this one
        return np.ascontiguousarray(torque.T).reshape(shape)


def check_torque(t: Array, q: Array, qd: Array, qdd: Array, dynamics: Dynamics) -> float:
    """
    Return the largest fraction of a torque limit that a motion uses, or refuse it.

    `t` (n,) [s]. `q`, `qd`, `qdd` (n, 6): the motion as the controller interpolates it [rad, s].
    `dynamics`: includes the tool, and the part where it is carried.

    Returns the largest fraction of a joint's limit, 0 to 1.

    Raises `GateRefusal`: names joint, time, torque and limit.
    """
    torque = np.abs(dynamics.inverse(q, qd, qdd))
    used = torque / dynamics.torque_max
    i, joint = np.unravel_index(used.argmax(), used.shape)
    if not used[i, joint] <= 1.0:
        raise GateRefusal(
            f'{JOINT_NAMES[joint]} would need {torque[i, joint]:.1f} N m at {t[i]:.3f} s, limit '
            f'{dynamics.torque_max[joint]:.0f} N m: slow the motion down, carry less, or keep '
            'the load nearer to the base',
            'torque',
        )
    return float(used[i, joint])


def slowdown_for_torque(q: Array, qd: Array, qdd: Array, dynamics: Dynamics) -> Array:
    """
    Return the factor (n,) by which each state of a motion must be slower to keep torque limits.

    Below 1 if it may be faster; infinite if gravity alone exceeds a limit.
    """
    gravity = dynamics.gravity(q)
    inertial = dynamics.inverse(q, qd, qdd) - gravity
    room = dynamics.torque_max - np.sign(inertial) * gravity
    needed = np.abs(inertial) / np.where(room > 0.0, room, np.nan)
    return np.asarray(np.sqrt(np.nan_to_num(needed, nan=np.inf).max(axis=1)))


def link_inertias(arm: str) -> list[pin.Inertia]:
    """
    Return the inertias of the six links, in their DH frames, of an arm by its `Model.name`.

    Raises `InvalidInput`: they are unknown; names the arms whose inertias are known.
    """
    kind = _SAME_AS.get(arm, arm)
    if kind not in ARMS:
        raise InvalidInput(f'inertias of {arm!r}: must be those of one of {", ".join(ARMS)}')
    found = []
    for link in ARMS[kind]['links']:
        xx, yy, zz, xy, xz, yz = link['inertia']
        matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        found.append(pin.Inertia(link['mass'], np.array(link['centre']), matrix))
    return found


def _build(m: Model) -> pin.Model:
    """Return the chain of six revolute joints with a link each."""
    arm = pin.Model()
    frames = chain(arm, m, pin.SE3.Identity())[1:]
    for link, (joint, frame) in zip(link_inertias(m.name), frames, strict=True):
        arm.appendBodyToJoint(joint, link, frame)
    return arm


def chain(arm: pin.Model, m: Model, base: pin.SE3) -> list[tuple[int, pin.SE3]]:
    """
    Add the six joints of `m` to an empty model, with `base` at the given pose in its world.

    Returns, for each DH frame 0 to 6, the joint that moves it, 0 = none, and its pose in that
    joint.
    """
    frames = [(0, base)]
    for i, name in enumerate(JOINT_NAMES):
        before, placement = frames[-1]
        joint = arm.addJoint(before, pin.JointModelRZ(), placement * _mount(m, i), name)
        frames.append((joint, _after_joint(m, i)))
    return frames


def _mount(m: Model, i: int) -> pin.SE3:
    """Return the pose of joint i at q = 0 in DH frame i: its mount, turned by its offset."""
    mount = make_transform(np.eye(3), [0.0, 0.0, m.d[i]]) if m.mounts is None else m.mounts[i]
    return pin.SE3(mount) * pin.SE3(exp_so3([0.0, 0.0, m.offset[i]]), np.zeros(3))


def _after_joint(m: Model, i: int) -> pin.SE3:
    """Return the pose of DH frame i + 1 in joint i, which turns about z: Tx(a) Rx(alpha)."""
    return pin.SE3(exp_so3([m.alpha[i], 0.0, 0.0]), np.array([m.a[i], 0.0, 0.0]))


def _states(
    q: ArrayLike, qd: ArrayLike, qdd: ArrayLike
) -> tuple[tuple[int, ...], list[Array]]:
    """Return the shape (..., 6) of states, and three arrays (6, n) of all states by columns."""
    joints = np.broadcast_arrays(check_joints(q), qd, qdd)
    if not all(map(is_finite, joints)):
        raise InvalidInput('velocities or accelerations are not all finite')
    rows = (np.ascontiguousarray(values, dtype=np.float64).reshape(-1, 6) for values in joints)
    return joints[0].shape, [values.T for values in rows]
