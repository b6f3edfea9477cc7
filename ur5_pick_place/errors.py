# SPDX-License-Identifier: Apache-2.0
"""
The exceptions: each message names the thing, its value, the bounds and what to do.

An expected absence, such as a missing IK branch, is a value, not an exception.
"""

import re

_LONGEST_VALUE = 120  # characters of a value that is quoted before the reason
_LONGEST = 4000  # characters; the longest list of known parameters has about 3000


def one_line(text: object) -> str:
    r"""
    Return text from outside as one printable line, so that it cannot forge log lines.

    Characters that are not printable (line ends, ESC, bidirectional marks) are escaped as in
    Python, such as `\n`; of more than 4000 characters the middle is left out.
    """
    line = str(text)
    if len(line) > _LONGEST:
        head, tail = line[: 3 * _LONGEST // 4], line[-_LONGEST // 4 :]
        line = f'{head} [... {len(line) - _LONGEST} characters ...] {tail}'
    if line.isprintable():
        return line
    return ''.join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def quoted(value: object) -> str:
    """Return a value as an error quotes it: NumPy's numbers as plain ones, the middle left out."""
    text = re.sub(r'\bnp\.\w+\(([^()]*)\)', r'\1', repr(value))
    if len(text) <= _LONGEST_VALUE:
        return text
    half = _LONGEST_VALUE // 2
    return f'{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}'


def fixed(value: float, digits: int) -> str:
    """Return a number with so many decimals; zero has no sign."""
    return f'{round(float(value), digits) + 0.0:.{digits}f}'


def text_of(error: Exception) -> str:
    """Return the text of an error, with its type if it is not ours, as of a gripper's driver."""
    is_ours = isinstance(error, Ur5PickPlaceError)
    return str(error) if is_ours else f'{type(error).__name__}: {one_line(error)}'


class Ur5PickPlaceError(Exception):
    """Base of all exceptions of this package; its text is one line, see `one_line`."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class InvalidInput(Ur5PickPlaceError, ValueError):
    """
    An input is malformed: not finite, out of range, of wrong shape, or unknown.

    `key`: the entry of a file that is wrong, such as 'stages[3].to'; empty if it is not known.
    """

    def __init__(self, message: object = '', key: str = '') -> None:
        super().__init__(message)
        self.key = key


class UnknownFrame(InvalidInput):
    """A frame that neither this package nor TF knows."""


class TimedOut(Ur5PickPlaceError):
    """A request, or something that it waits for, took longer than its limit."""


class UnknownLink(InvalidInput):
    """A tip link, or a list of tips, that this arm does not have."""


class UnknownGroup(InvalidInput):
    """A planning group that is not this arm."""


class InvalidRobotState(InvalidInput):
    """Joints in a message are missing, named twice or not finite."""


class KinematicsError(Ur5PickPlaceError):
    """The arm cannot reach a pose or follow a path."""


class NoSolution(KinematicsError):
    """No joint solution for a pose on the branch, or on any branch."""


class JointLimitViolation(KinematicsError):
    """Every solution lies outside the joint limits or the request's joint constraints."""


class InCollision(KinematicsError):
    """Every solution within the limits is in collision."""


class CollisionCheckUnavailable(Ur5PickPlaceError):
    """A library that collision checks need is not installed."""


class MissingPackage(Ur5PickPlaceError):
    """An optional Python package is not installed; names what is switched off without it."""


class PlanningError(Ur5PickPlaceError):
    """No admissible motion was found; nothing has moved."""


class PlanningCanceled(Ur5PickPlaceError):
    """A stop was requested while a motion was planned; nothing was decided about the motion."""


class IncompletePath(PlanningError):
    """
    A Cartesian path cannot be followed to its end.

    `fraction`: fraction of the path, 0 to 1, that can be followed.
    """

    def __init__(self, message: str, fraction: float) -> None:
        super().__init__(message)
        self.fraction = fraction


class BlockedPath(IncompletePath):
    """A Cartesian path cannot be followed to its end because of a collision."""


class GateRefusal(PlanningError):
    """
    The gate found a reason not to send a motion.

    `check`: which check refused, such as 'collision' or 'torque'.
    """

    def __init__(self, message: str, check: str) -> None:
        super().__init__(message)
        self.check = check


class ExecutionError(Ur5PickPlaceError):
    """A motion, output or grasp failed."""


class MissedGrasp(ExecutionError):
    """The gripper closed without a part."""
