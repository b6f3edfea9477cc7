# SPDX-License-Identifier: Apache-2.0
"""
The exception family: every refusal names the thing, its value, the bounds and what to do.

An expected absence, such as a missing IK branch, is a value and no exception.

"""

_LONGEST = 4000  # characters; the longest list of known parameters has some 3000


def one_line(text: object) -> str:
    r"""
    Return text that may come from outside as one line that can forge nothing in a log.

    What is not printable (line ends, ESC, marks that turn the direction of writing) is written as
    in Python, so `\n`; of more than 4000 characters the middle is left out.

    """
    line = str(text)
    if len(line) > _LONGEST:
        head, tail = line[: 3 * _LONGEST // 4], line[-_LONGEST // 4 :]
        line = f'{head} [... {len(line) - _LONGEST} characters ...] {tail}'
    if line.isprintable():
        return line
    return ''.join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


class Ur5PickPlaceError(Exception):
    """Base of everything this package raises on purpose; its text is `one_line`."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class InvalidInput(Ur5PickPlaceError, ValueError):
    """A caller gave something malformed: not finite, out of range, misshapen, unknown."""


class UnknownFrame(InvalidInput):
    """A frame that neither we nor TF know."""


class TimedOut(Ur5PickPlaceError):
    """What a request may wait for did not come within its timeout."""


class UnknownLink(InvalidInput):
    """A tip link, or a list of tips, that this arm does not have."""


class UnknownGroup(InvalidInput):
    """A planning group that does not mean this arm."""


class InvalidRobotState(InvalidInput):
    """Joints of a message that are missing, named twice or not finite."""


class KinematicsError(Ur5PickPlaceError):
    """The arm's geometry forbids it."""


class NoSolution(KinematicsError):
    """No joint solution for a pose on the branch, or on any branch."""


class JointLimitViolation(KinematicsError):
    """Every solution lies outside the joint limits or the request's joint constraints."""


class InCollision(KinematicsError):
    """Every solution within the limits touches something."""


class CollisionCheckUnavailable(Ur5PickPlaceError):
    """A library that collision checks need is not installed."""


class PlanningError(Ur5PickPlaceError):
    """No admissible motion was found; nothing has moved."""


class IncompletePath(PlanningError):
    """
    A Cartesian path cannot be followed to its end.

    Attributes
    ----------
    fraction : float
        Share of the path, 0 to 1, that can be followed.

    """

    def __init__(self, message: str, fraction: float) -> None:
        super().__init__(message)
        self.fraction = fraction


class BlockedPath(IncompletePath):
    """A Cartesian path cannot be followed to its end because of what stands in its way."""


class GateRefusal(PlanningError):
    """
    The gate found a reason not to send a motion.

    Attributes
    ----------
    check : str
        Which check refused, one of `planning.gate.CHECKS`.

    """

    def __init__(self, message: str, check: str) -> None:
        super().__init__(message)
        self.check = check


class ExecutionError(Ur5PickPlaceError):
    """A motion, pin or grasp did not do what was asked."""


class MissedGrasp(ExecutionError):
    """The gripper closed and holds nothing."""
