# SPDX-License-Identifier: Apache-2.0
"""Joint angles: differences, whole turns, limits, and arctangents of many at once."""

from math import ceil, copysign, fabs, floor

from ur5_pick_place.kinematics.scalar.constants import INFINITY, PI, TAU, TINY, Numbers

_TAN_22_5_DEG = 0.41421356237309503
_BELOW_PI = 3.9e-17  # by this share PI is less than pi


def nearest(path: Numbers, begin: int, end: int, q: Numbers, away: Numbers) -> int:
    """
    Return the row of path (n, 6) [rad], from begin to before end, that is nearest to q (6,).

    Its largest joint difference is the smallest. Fills away (6,) with its differences [rad].

    """
    best, smallest = begin, -1.0
    for row in range(begin, end):
        largest = 0.0
        for i in range(6):
            largest = max(largest, fabs(float(path[row, i]) - float(q[i])))
            if largest >= smallest >= 0.0:
                break
        if smallest < 0.0 or largest < smallest:
            best, smallest = row, largest
    for i in range(6):
        away[i] = fabs(float(path[best, i]) - float(q[i]))
    return best


def largest_gap(q_a: Numbers, q_b: Numbers) -> float:
    """Return the largest difference of joints q_a and q_b (6,) [rad]."""
    gap = 0.0
    for i in range(6):
        gap = max(gap, fabs(float(q_a[i]) - float(q_b[i])))
    return gap


def between(q_a: Numbers, q_b: Numbers, share: float, q: Numbers) -> None:
    """Fill q (6,) with joints at a share of the way from q_a to q_b (6,) [rad]."""
    for i in range(6):
        q[i] = float(q_a[i]) + share * (float(q_b[i]) - float(q_a[i]))


def turn_near(
    q: Numbers, seed: Numbers, low: Numbers, high: Numbers, distances: Numbers
) -> None:
    """
    Turn joints q (n, 6) [rad] by whole turns to be nearest a seed (6,) between low and high (6,).

    Fills distances (n,) with the largest joint difference to the seed [rad]; infinity where no
    whole turn of a joint lies within, whose row is then of no use.

    """
    for row in range(len(q)):
        largest = 0.0
        for j in range(6):
            angle, desired = float(q[row, j]), float(seed[j])
            least, most, turned = float(low[j]), float(high[j]), float(q[row, j])
            if not -PI <= desired - angle <= PI:
                turned += TAU * floor((desired - angle) / TAU + 0.5)
            if not least <= turned <= most:
                turns = ceil((least - angle) / TAU)
                if turned > most:
                    turns = floor((most - angle) / TAU)
                turned = angle + TAU * turns
                if not least <= turned <= most:
                    largest = INFINITY
                    break
            q[row, j] = turned
            largest = max(largest, fabs(turned - desired))
        distances[row] = largest


def is_within(q: Numbers, low: Numbers, high: Numbers) -> bool:
    """Return whether all joints q (n, 6) lie between low and high (6,) [rad]."""
    for row in range(len(q)):
        for j in range(6):
            if not float(low[j]) <= float(q[row, j]) <= float(high[j]):
                return False
    return True


def angles_of(sines: list[float], cosines: list[float], count: int, angles: list[float]) -> None:
    """
    Fill angles (count,) [rad] with atan2 of sines and cosines, which may have any common factor.

    Without calls and branches, so that the compiled form takes several at once. The quotient t is
    the tangent of the angle to the nearest multiple of 45 degrees; the polynomial in t^2 is that
    of (arctan(t) / t - 1) / t^2 at Chebyshev's points, within 1.5e-17.

    """
    for k in range(count):
        y, x = fabs(sines[k]), fabs(cosines[k])
        low, high = y if y < x else x, x if y < x else y
        is_middle = low > _TAN_22_5_DEG * high
        over, under = low - high if is_middle else low, low + high if is_middle else high
        t = over / (under if under > TINY else TINY)
        z = t * t
        series = 0.022750525406052224
        series = series * z - 0.044833345062807464
        series = series * z + 0.05736332130703195
        series = series * z - 0.06649613689550408
        series = series * z + 0.07691055157849669
        series = series * z - 0.09090852557145968
        series = series * z + 0.11111109636533431
        series = series * z - 0.14285714266096602
        series = series * z + 0.19999999999898407
        series = series * z - 0.3333333333333325
        angle = t + t * z * series
        multiple = 0.25 * PI if is_middle else 0.0
        multiple, angle = 0.5 * PI - multiple if x < y else multiple, -angle if x < y else angle
        is_behind = cosines[k] < 0.0
        multiple, angle = PI - multiple if is_behind else multiple, -angle if is_behind else angle
        angle = multiple + (angle + _BELOW_PI * multiple)
        angles[k] = copysign(angle, sines[k])


def wrapped(angle: float) -> float:
    """Return an angle within ±5 pi [rad] wrapped to (-pi, pi]."""
    angle -= TAU if angle > PI else 0.0
    angle -= TAU if angle > PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    return angle
