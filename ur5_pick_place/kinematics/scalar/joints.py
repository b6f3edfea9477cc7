# SPDX-License-Identifier: Apache-2.0
"""Joint angles: differences, whole turns, limits, and arctangents of many at once."""

from math import ceil, copysign, cos, fabs, floor, sin

from ur5_pick_place.kinematics.scalar.constants import INFINITY, PI, TAU, TINY, Numbers

_TAN_22_5_DEG = 0.41421356237309503
_BELOW_PI = 3.9e-17  # by this share PI is less than pi
_ROUND = 6755399441055744.0  # what it is added to has no digits left after the point
# A right angle, the first with so few digits that 4 million times it is exact
_RIGHT, _RIGHT_REST = 1.5707963267341256, 6.077100506506192e-11
_PER_RIGHT = 0.6366197723675814
_MANY_TURNS = 1e6  # rad; beyond it the right angle has too few digits


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


def sines_of(angles: list[float], count: int, sines: list[float], cosines: list[float]) -> None:
    """
    Fill sines and cosines (count,) of angles [rad].

    As `angles_of`, several at once. The rest r + low beside the nearest multiple of 90 degrees has
    sine and cosine by polynomials in r^2, at Chebyshev's points, within 1.4e-17.

    """
    for k in range(count):
        rights = (angles[k] * _PER_RIGHT + _ROUND) - _ROUND
        off, rest = angles[k] - rights * _RIGHT, rights * _RIGHT_REST
        r = off - rest
        low = (off - r) - rest
        quadrant = rights - 4.0 * ((0.25 * rights - 0.375 + _ROUND) - _ROUND)
        z = r * r
        series = 1.5918115263265974e-10
        series = series * z - 2.505113165023518e-08
        series = series * z + 2.7557316101617874e-06
        series = series * z - 0.00019841269836756774
        series = series * z + 0.008333333333330948
        series = series * z - 0.16666666666666666
        s = r + (r * z * series + (low - 0.5 * z * low))
        series = -1.1382623647474604e-11
        series = series * z + 2.087614614655861e-09
        series = series * z - 2.7557317271145144e-07
        series = series * z + 2.480158729876456e-05
        series = series * z - 0.0013888888888887398
        series = series * z + 0.041666666666666664
        c = 1.0 - (0.5 * z - (z * z * series - r * low))
        is_odd = fabs(quadrant - 2.0) == 1.0
        sine, cosine = c if is_odd else s, s if is_odd else c
        sines[k] = -sine if quadrant > 1.5 else sine
        cosines[k] = -cosine if fabs(quadrant - 1.5) < 1.0 else cosine
    for k in range(count):
        if not fabs(angles[k]) <= _MANY_TURNS:
            sines[k], cosines[k] = sin(angles[k]), cos(angles[k])


def wrapped(angle: float) -> float:
    """Return an angle within ±5 pi [rad] wrapped to (-pi, pi]."""
    angle -= TAU if angle > PI else 0.0
    angle -= TAU if angle > PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    angle += TAU if angle <= -PI else 0.0
    return angle
