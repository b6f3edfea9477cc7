# SPDX-License-Identifier: Apache-2.0
"""Sets of six linear equations, by Gauss."""

from math import fabs


def determinant(A: list[float]) -> float:
    """Return the determinant of A (6, 6), and overwrite A; by Gauss with pivots."""
    det = 1.0
    for i in range(6):
        pivot = i
        for row in range(i + 1, 6):
            if fabs(A[6 * row + i]) > fabs(A[6 * pivot + i]):
                pivot = row
        if A[6 * pivot + i] == 0.0:
            return 0.0
        if pivot != i:
            det = -det
            for k in range(6):
                A[6 * i + k], A[6 * pivot + k] = A[6 * pivot + k], A[6 * i + k]
        det *= A[6 * i + i]
        for row in range(i + 1, 6):
            share = A[6 * row + i] / A[6 * i + i]
            for k in range(i, 6):
                A[6 * row + k] -= share * A[6 * i + k]
    return det


def eliminate(A: list[float]) -> bool:
    """
    Solve six equations, A (6, 7) by rows, by Gauss; column 6 becomes the solution.

    The matrix is symmetric and positive definite: what is below its diagonal is not looked at, and
    no row need be exchanged. For `substitute` the shares of the rows are left there, and on the
    diagonal the inverses of the pivots. False if it is singular.

    """
    for i in range(6):
        for k in range(i, 7):
            entry = A[7 * i + k]
            for j in range(i):
                entry -= A[7 * i + j] * A[7 * j + k]
            A[7 * i + k] = entry
        if not A[8 * i] > 0.0:
            return False
        A[8 * i] = 1.0 / A[8 * i]
        for k in range(i + 1, 6):
            A[7 * k + i] = A[7 * i + k] * A[8 * i]
    _substitute_back(A)
    return True


def substitute(A: list[float]) -> None:
    """Solve the equations again, for another column 6 of A (6, 7) as `eliminate` leaves it."""
    for i in range(6):
        for k in range(i):
            A[7 * i + 6] -= A[7 * i + k] * A[7 * k + 6]
    _substitute_back(A)


def _substitute_back(A: list[float]) -> None:
    """Replace column 6 of A (6, 7) by the solution, as it is after the elimination."""
    for i in range(5, -1, -1):
        entry = A[7 * i + 6] * A[8 * i]
        for k in range(5, i, -1):
            entry -= A[7 * k + i] * A[7 * k + 6]
        A[7 * i + 6] = entry


def invert(A: list[float]) -> bool:
    """Replace A (6, 12), [M, 1] by rows, by [1, M^-1], by Gauss and Jordan; False if singular."""
    for i in range(6):
        best = i
        for row in range(i + 1, 6):
            if fabs(A[12 * row + i]) > fabs(A[12 * best + i]):
                best = row
        pivot = A[12 * best + i]
        if not fabs(pivot) > 0.0:
            return False
        for k in range(12):
            entry = A[12 * best + k]
            A[12 * best + k] = A[12 * i + k]
            A[12 * i + k] = entry / pivot
        for row in range(6):
            share = A[12 * row + i]
            if row != i and share != 0.0:
                for k in range(12):
                    A[12 * row + k] -= share * A[12 * i + k]
    return True
