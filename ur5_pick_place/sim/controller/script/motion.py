# SPDX-License-Identifier: Apache-2.0
"""
The built-ins that move the arm, and those for contact and torques.

Their times are robot time: the speed slider stretches them.
"""

import math
from collections.abc import Callable

import numpy as np

from ur5_pick_place.kinematics.transforms import Array, inverse_transform, log_so3
from ur5_pick_place.sim.controller.script import paths
from ur5_pick_place.sim.controller.script.arm import Arm, tcp_jacobian
from ur5_pick_place.sim.controller.script.robot import Robot
from ur5_pick_place.sim.controller.script.scheduler import Scheduler, Wait
from ur5_pick_place.sim.controller.script.values import (
    List,
    Pose,
    ScriptFault,
    Value,
    integer,
    not_negative,
    number,
    to_str,
    transform,
    vector,
)

_LOOKAHEAD, _GAIN = (0.03, 0.2), (100.0, 2000.0)
_LIMIT_MARGIN = 1e-6  # [rad]
_SINGULARITY = 154  # error code: position in singularity
_CONTACT_FORCE = 10.0  # [N]
_MOBILITY = np.array([5e-4] * 3 + [5e-3] * 3)  # [m/s per N, rad/s per N m] of a compliant axis


class Motion:
    def __init__(self, robot: Robot, arm: Arm, threads: Scheduler) -> None:
        self._robot, self._arm, self._threads = robot, arm, threads

    # joints

    def servoj(
        self, q: Value, a: Value = 0.0, v: Value = 0.0, t: Value = 0.002,
        lookahead_time: Value = 0.1, gain: Value = 300.0,
    ) -> Wait:  # fmt: skip
        target = vector(q)
        lookahead = min(max(number(lookahead_time), _LOOKAHEAD[0]), _LOOKAHEAD[1])
        stiffness = min(max(number(gain), _GAIN[0]), _GAIN[1])
        return self._steer(
            lambda dt: self._arm.servo(target, lookahead, stiffness, dt), _positive(t, 't')
        )

    def speedj(self, qd: Value, a: Value = 1.4, t: Value = None) -> Wait:
        target, rate = self._arm.limited(vector(qd)), _positive(a, 'a')
        needed = float(np.abs(target - self._arm.qd).max()) / rate
        return self._reach(lambda dt: self._arm.ramp(target, rate, dt), needed, t)

    def stopj(self, a: Value) -> Wait:
        rate = _positive(a, 'a')
        duration = float(np.abs(self._arm.qd).max()) / rate
        yield from self._steer(lambda dt: self._arm.ramp(np.zeros(6), rate, dt), duration)
        self._arm.qd = np.zeros(6)

    # the TCP

    def speedl(self, xd: Value, a: Value = 1.2, t: Value = None, aRot: Value = None) -> Wait:
        target, rates = vector(xd), self._rates(a, aRot)
        needed = self._change(target, rates)
        return self._reach(lambda dt: self._tool_ramp(target, rates, dt), needed, t)

    def stopl(self, a: Value, aRot: Value = None) -> Wait:
        rest, rates = np.zeros(6), self._rates(a, aRot)
        while (duration := self._change(rest, rates)) > 1e-9:
            yield from self._steer(lambda dt: self._tool_ramp(rest, rates, dt), duration)
        self._arm.qd = rest

    def servoc(self, pose: Value, a: Value = 1.2, v: Value = 0.25, r: Value = 0.0) -> Wait:
        """Approach a pose for one cycle, with at most `v` [m/s], so that it can stop there."""
        T = self._tool_goal(pose)
        speed, rates = _positive(v, 'v'), self._rates(a, None)
        here = self._robot.forward(self._arm.q) @ self._robot.tcp
        way = np.concatenate([T[:3, 3] - here[:3, 3], log_so3(T[:3, :3] @ here[:3, :3].T)])
        _, length = paths.line(here, T)
        twist = way / max(length, 1e-9) * min(speed, math.sqrt(2.0 * rates[0] * length))
        return self._reach(lambda dt: self._tool_ramp(twist, rates, dt), 0.0)

    # moves

    def movej(
        self, q: Value, a: Value = 1.4, v: Value = 1.05, t: Value = 0.0, r: Value = 0.0
    ) -> Wait:
        rate, speed, duration = _positive(a, 'a'), _positive(v, 'v'), number(t)
        radius, end = not_negative(r, 'r'), self._joint_goal(q)
        yield from self._halt_before(rate)
        move = paths.JointMove(self._robot, self._arm.base, end, rate, speed, duration)
        yield from self._run(move, radius)

    def movel(
        self, pose: Value, a: Value = 1.2, v: Value = 0.25, t: Value = 0.0, r: Value = 0.0
    ) -> Wait:
        T = self._tool_goal(pose)
        return self._tool_move(lambda here: paths.line(here, T), a, v, t, r)

    def movep(self, pose: Value, a: Value = 1.2, v: Value = 0.25, r: Value = 0.0) -> Wait:
        return self.movel(pose, a, v, 0.0, r)

    def movec(
        self, pose_via: Value, pose_to: Value, a: Value = 1.2, v: Value = 0.25, r: Value = 0.0,
        mode: Value = 0,
    ) -> Wait:  # fmt: skip
        via, T, fixed = self._tool_goal(pose_via), self._tool_goal(pose_to), number(mode) == 1.0
        return self._tool_move(lambda here: paths.arc(here, via, T, fixed), a, v, 0.0, r)

    def optimovej(self, q: Value, a: Value = 0.3, v: Value = 0.3, r: Value = 0.0) -> Wait:
        speed = _positive(v, 'v', 1.0) * float(self._robot.qd_max.min())
        return self.movej(q, _positive(a, 'a', 1.0) * 20.0, speed, 0.0, r)

    def optimovel(self, pose: Value, a: Value = 0.3, v: Value = 0.3, r: Value = 0.0) -> Wait:
        rate, speed = _positive(a, 'a', 1.0) * 5.0, _positive(v, 'v', 1.0) * 1.5
        return self.movel(pose, rate, speed, 0.0, r)

    # how they are executed

    def _steer(
        self, law: Callable[[float], None], duration: float, keeps_speed: bool = False
    ) -> Wait:
        """Follow a law that is no move: what rests of moves is dropped."""
        self._arm.tails = []
        return self._follow(law, duration, keeps_speed)

    def _reach(self, law: Callable[[float], None], needed: float, t: Value = None) -> Wait:
        """Follow a law for `t` [s], or until its speed is reached; the arm keeps that speed."""
        duration = max(needed, self._robot.step_time) if t is None else number(t)
        return self._steer(law, duration, True)

    def _follow(
        self, law: Callable[[float], None], duration: float, keeps_speed: bool = False
    ) -> Wait:
        """Follow a law, which takes parts of the duration [s], until it is over."""
        while duration > 1e-9:
            dt = self._threads.take(duration)
            duration -= dt
            if dt > 0.0:
                self._arm.claim(dt, keeps_speed)
                law(dt)
            yield from self._threads.rest()

    def _tool_move(
        self, path_from: Callable[[Array], tuple[Callable[[float], Array], float]],
        a: Value, v: Value, t: Value, r: Value,
    ) -> Wait:  # fmt: skip
        rate, speed, duration = _positive(a, 'a'), _positive(v, 'v'), number(t)
        radius = not_negative(r, 'r')
        while True:
            yield from self._halt_before(rate)
            start = self._arm.base
            path, length = path_from(self._robot.forward(start) @ self._robot.tcp)
            try:
                move = paths.ToolMove(self._robot, start, path, length, rate, speed, duration)
                yield from self._run(move, radius)
                return
            except paths.OutOfReach as error:  # a person may move the arm and let it go on
                self._robot.error(_SINGULARITY, 0, 2, str(error))
                self._robot.protective_stop()
                self._arm.tails = []
                yield

    def _halt_before(self, rate: float) -> Wait:
        """Stop an arm that moves otherwise than in a blend."""
        if self._arm.is_adrift:
            yield from self.stopj(rate)

    def _run(self, move: paths.Move, radius: float) -> Wait:
        """Run a move to its end, or to where the next may begin, `radius` [m] before it."""
        arm = self._arm
        arm.waypoint = move.end
        end = self._blend_time(move, radius) if radius > 0.0 else move.duration
        done = 0.0

        def law(dt: float) -> None:
            nonlocal done
            done += dt
            last = move.duration if done > move.duration - 1e-9 else done
            arm.place(*move.at(last), dt)

        yield from self._follow(law, max(end, self._robot.step_time))
        if end < move.duration:
            arm.tails.append((move, done))

    def _blend_time(self, move: paths.Move, radius: float) -> float:
        """Return when the TCP comes within `radius` of the end, at the earliest half-way."""
        if isinstance(move, paths.ToolMove):
            return move.profile.time_before_end(radius)
        goal = self._robot.forward(move.end) @ self._robot.tcp
        low, high = 0.5 * move.duration, move.duration
        for _ in range(30):
            t = 0.5 * (low + high)
            T = self._robot.forward(move.at(t)[0]) @ self._robot.tcp
            is_within = np.linalg.norm(T[:3, 3] - goal[:3, 3]) <= radius
            low, high = (low, t) if is_within else (t, high)
        return high

    # goals and speeds

    def _joint_goal(self, goal: Value) -> Array:
        robot = self._robot
        if isinstance(goal, Pose):
            found = robot.inverse(transform(goal) @ inverse_transform(robot.tcp), self._arm.base)
            if found is None:
                raise ScriptFault(f'no inverse kinematics solution for {to_str(goal)}')
            return found
        q = vector(goal)
        if np.any(q < robot.q_min - _LIMIT_MARGIN) or np.any(q > robot.q_max + _LIMIT_MARGIN):
            raise ScriptFault(f'joint position {to_str(goal)} is outside the limits of the joints')
        return q

    def _tool_goal(self, goal: Value) -> Array:
        if isinstance(goal, Pose):
            return transform(goal)
        return self._robot.forward(vector(goal)) @ self._robot.tcp

    def _rates(self, a: Value, a_rot: Value) -> tuple[float, float]:
        linear = _positive(a, 'a')
        return linear, linear if a_rot is None else _positive(a_rot, 'aRot')

    def _change(self, target: Array, rates: tuple[float, float], J: Array | None = None) -> float:
        """Return the time [s] to a twist (6,) from the present one, by this Jacobian or here."""
        if J is None:
            J = tcp_jacobian(self._robot, self._arm.q)
        change = target - J @ self._arm.qd
        linear, angular = math.hypot(*change[:3]), math.hypot(*change[3:])
        return max(linear / rates[0], angular / rates[1])

    def _tool_ramp(self, target: Array, rates: tuple[float, float], dt: float) -> None:
        """Approach a twist (6,) for `dt` [s], linear and angular part in equal time."""
        arm = self._arm
        J = tcp_jacobian(self._robot, arm.q + 0.5 * dt * arm.qd)
        needed = self._change(target, rates, J)
        part = min(1.0, dt / needed) if needed > 0.0 else 1.0
        twist = (1.0 - part) * (J @ arm.qd) + part * target
        try:
            qd = arm.limited(np.asarray(np.linalg.solve(J, twist), float))
        except np.linalg.LinAlgError:
            qd = arm.qd * (1.0 - part)
        arm.place(arm.q + 0.5 * dt * (arm.qd + qd), qd, dt)


class Force:
    """
    In force mode compliant axes of a frame move with a speed in proportion to the missing force.

    The law is ours; UR does not publish its own.
    """

    def __init__(self, robot: Robot, arm: Arm) -> None:
        self._robot, self._arm = robot, arm
        self._damping, self._gain = 0.025, 1.0

    def force_mode(
        self, task_frame: Value, selection_vector: Value, wrench: Value, type: Value,
        limits: Value,
    ) -> None:  # fmt: skip
        T, selected = transform(task_frame), vector(selection_vector) != 0.0
        goal, bounds = vector(wrench), np.abs(vector(limits))
        if integer(type, 1, 3) != 2:
            raise ScriptFault(f'force_mode: type {type} is not simulated, only 2: a fixed frame')
        robot = self._robot
        both = np.kron(np.eye(2), T[:3, :3])

        def compliance(q: Array) -> Array:
            missing = goal + both.T @ robot.wrench
            wish = missing * _MOBILITY * self._gain * (1.0 - self._damping)
            twist = np.where(selected, np.clip(wish, -bounds, bounds), 0.0)
            try:
                qd = np.linalg.solve(tcp_jacobian(robot, q), both @ twist)
                return self._arm.limited(np.asarray(qd, float))
            except np.linalg.LinAlgError:
                return np.zeros(6)

        self._arm.compliance = compliance

    def end_force_mode(self) -> None:
        self._arm.compliance = None
        self._arm.take_up()

    def force_mode_set_damping(self, damping: Value) -> None:
        self._damping = min(max(number(damping), 0.0), 1.0)

    def force_mode_set_gain_scaling(self, scaling: Value) -> None:
        self._gain = min(max(number(scaling), 0.0), 2.0)

    def tool_contact(self, direction: Value = None) -> int:
        """Return 1 in contact against the direction, otherwise 0."""
        force = self._robot.wrench[:3]
        first = direction[:3] if isinstance(direction, List) else direction
        way = np.zeros(3) if direction is None else vector(first, 3)
        length = float(np.linalg.norm(way))
        against = -float(force @ way) / length if length > 1e-9 else float(np.linalg.norm(force))
        return int(against > _CONTACT_FORCE)

    def direct_torque(
        self, torque: Value, friction_comp: Value = True, viscous_scale: Value = None,
        coulomb_scale: Value = None,
    ) -> None:  # fmt: skip
        raise ScriptFault('direct_torque: the simulated arm is moved by position, not by torque')


def _positive(value: Value, name: str, most: float = math.inf) -> float:
    found = number(value)
    if not 0.0 < found <= most:
        bound = 'greater than 0' if found <= 0.0 else f'at most {most:g}'
        raise ScriptFault(f'{name} = {found:g}: must be {bound}')
    return found
