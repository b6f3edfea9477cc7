# SPDX-License-Identifier: Apache-2.0
"""What a closed loop checks per tick: changes of velocity, pairs of bodies."""

from math import fabs

from ur5_pick_place.kinematics.scalar.constants import Numbers


def changed(
    q: Numbers,
    qd: Numbers,
    qdd: Numbers,
    velocity: Numbers,
    cycles: int,
    at: int,
    cycle: float,
    state: Numbers,
) -> None:
    """
    Fill state (3, 6), positions, velocities and accelerations, `at` cycles after a start.

    The velocities are those of `fewest_cycles`, from the start q, qd, qdd (6,) [rad, s] to
    `velocity` in `cycles`, and constant from then on. Velocity and acceleration are combinations
    of v0, a0 T and v - v0; the positions their integrals.

    """
    T = cycles * cycle
    u = min(float(at) / cycles, 1.0)
    after = max(at - cycles, 0) * cycle
    uu, uuu = u * u, u * u * u
    uuuu = uu * uu
    bent, risen = T * (uu / 2.0 - 2.0 * uuu / 3.0 + uuuu / 4.0), T * (uuu - uuuu / 2.0) + after
    steady = T * u + after
    kept, gained = u - 2.0 * uu + uuu, 3.0 * uu - 2.0 * uuu
    bends, grows = (1.0 - 4.0 * u + 3.0 * uu) / T, 6.0 * (u - uu) / T
    for i in range(6):
        v0, a0T = float(qd[i]), float(qdd[i]) * T
        dv = float(velocity[i]) - v0
        state[0, i] = float(q[i]) + (steady * v0 + bent * a0T + risen * dv)
        state[1, i] = v0 + kept * a0T + gained * dv
        state[2, i] = bends * a0T + grows * dv


def fewest_cycles(
    qd: Numbers, qdd: Numbers, velocity: Numbers, limits: Numbers, cycle: float, most: int
) -> int:
    """
    Return the fewest cycles in which all joints reach `velocity`, with no acceleration at the end.

    The velocities are cubic in time, from qd (6,) [rad/s] and qdd (6,) [rad/s^2] to `velocity`
    (6,), within the acceleration and jerk of `limits` (2, 6); the jerk is linear in time, so that
    it is largest at an end. Returns `most` if no smaller number is enough; `cycle` is the
    duration of one cycle [s].

    """
    for cycles in range(1, most + 1):
        duration, fits = cycle * cycles, True
        for i in range(6):
            a0 = float(qdd[i])
            dv = (float(velocity[i]) - float(qd[i])) / duration  # [rad/s^2]
            # The tolerance lets a change found before be found again from rounded states.
            jerk = max(fabs(6.0 * dv - 4.0 * a0), fabs(2.0 * a0 - 6.0 * dv)) / duration
            bend = 6.0 * a0 - 12.0 * dv
            u = (4.0 * a0 - 6.0 * dv) / bend if bend != 0.0 else 0.0  # of the peak
            u = min(1.0, max(0.0, u))
            peak = fabs(a0 * (1.0 - 4.0 * u + 3.0 * u * u) + 6.0 * dv * (u - u * u))
            largest, steepest = float(limits[0, i]), float(limits[1, i])
            fits = jerk <= 1.001 * steepest + 1e-9 and peak <= 1.001 * largest
            if not fits:
                break
        if fits:
            return cycles
    return most


def unproved(
    levers: Numbers, q: Numbers, spare: Numbers, q_a: Numbers, q_b: Numbers, pairs: Numbers
) -> int:
    """
    Fill `pairs` with the pairs of bodies that may come too near, and return their number.

    Pair p, of n, may come nearer by spare (n,) [m] from its joints q (n, 6). It does so by at most
    levers (n, 6) [m] times the turns of the joints, which lie between q_a and q_b (6,) [rad].

    """
    count = 0
    for pair in range(len(spare)):
        change = 0.0
        for j in range(6):
            at = float(q[pair, j])
            turn = max(fabs(float(q_a[j]) - at), fabs(float(q_b[j]) - at))
            change += float(levers[pair, j]) * turn
        if not change <= float(spare[pair]):
            pairs[count] = pair
            count += 1
    return count
