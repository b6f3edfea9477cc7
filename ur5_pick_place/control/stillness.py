# SPDX-License-Identifier: Apache-2.0
"""Whether the arm is at rest, and whether it moves without our command, from its joints alone."""

from collections import deque

import numpy as np

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.kinematics.transforms import Array

_WINDOW = 0.15  # [s] in which no joint may turn by more than _TURN
_BRAKED = 0.7  # share of its speed that a braking arm has in the second half of that window
_LONGEST_BRAKING = 2.0  # [s]
_TURN = 1e-3  # [rad]; an encoder's noise is a hundredth of that
# A slow arm drifts if it turned by more than _TURN in this time, and still turns: by more than
# _ENDED in the window above.
_DRIFT_TIME = 1.5  # [s]
_ENDED = 5e-5  # [rad]
_FAST = 1.5  # times _TURN, above which a slow arm counts as fast: hysteresis
_DRIFT = 0.01  # [rad] that an idle arm may drift; a settling servo turns a fifth of it
_SETTLING = 1.0  # [s] of the robot's time to come to rest after a motion or at the start
_KEEP_EVERY = 0.05  # [s]; at 500 messages a second, all of them would be too many to compare


class Stillness:
    """
    The measured joints of the last 0.15 s, and whether the arm moved in that time.

    An arm that turns less than 1 mrad in that time is slow. It drifts, which counts as motion, if
    it has turned by more in the last 1.5 s while it was slow. What it turned before that
    does not count: an arm that was stopped is at rest as soon as it is slow.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Array]] = deque()
        self._slow: deque[tuple[float, Array]] = deque()  # samples since the arm became slow
        self._kept = -np.inf  # stamp at which one was last kept, or found not to be slow [s]

    def update(self, stamp: float, q: Array) -> None:
        """Record measured joints (6,) [rad] with their stamp [s]."""
        if self._samples and stamp < self._samples[-1][0]:
            self.forget()  # the driver was restarted, or its clock was set back
        elif self._samples and stamp == self._samples[-1][0]:
            self._samples.pop()
        self._samples.append((stamp, q))
        while len(self._samples) > 2 and self._samples[1][0] <= stamp - _WINDOW:
            self._samples.popleft()
        if stamp - self._kept >= _KEEP_EVERY:
            self._kept = stamp
            self._keep(stamp, q)

    def forget(self) -> None:
        """Drop all samples: the arm is not at rest until it has been observed for 0.15 s again."""
        self._samples.clear()
        self._slow.clear()
        self._kept = -np.inf

    @property
    def is_at_rest(self) -> bool:
        """Whether the joints were observed for 0.15 s and did not move."""
        turn = self._turn()
        return turn is not None and not self._moves(turn)

    @property
    def why_not_at_rest(self) -> str:
        """Return why the arm does not count as at rest, or ''."""
        if self.is_at_rest:
            return ''
        if self.is_moving:
            return 'the arm is moving'
        return 'joint_states do not show yet whether the arm is at rest'

    @property
    def is_moving(self) -> bool:
        """Whether the joints were observed for 0.15 s and moved."""
        turn = self._turn()
        return turn is not None and self._moves(turn)

    @property
    def is_cruising(self) -> bool:
        """Whether the joints moved, and did not slow down: nothing brakes the arm."""
        samples = list(self._samples)
        if not self.is_moving or len(samples) < 3:  # two cannot show that it slows down
            return False
        middle = len(samples) // 2
        return _rate(samples[middle:]) > _BRAKED * _rate(samples[: middle + 1])

    def moves_on(self, seconds: float) -> bool:
        """Return whether nothing brakes an arm that was to stop `seconds` ago."""
        return self.is_moving if seconds > _LONGEST_BRAKING else self.is_cruising

    def _keep(self, stamp: float, q: Array) -> None:
        turn = self._turn()
        if turn is None or turn > (_FAST * _TURN if self._slow else _TURN):
            self._slow.clear()
            return
        self._slow.append((stamp, q))
        while self._slow[0][0] < stamp - _DRIFT_TIME:
            self._slow.popleft()

    def _moves(self, turn: float) -> bool:
        """Return whether an arm moves that turned by `turn` [rad] in the last 0.15 s."""
        slow = list(self._slow)
        drift = float(np.abs(slow[-1][1] - slow[0][1]).max()) if slow else 0.0
        return turn > _TURN or (turn > _ENDED and drift > _TURN)

    def _turn(self) -> float | None:
        """Return the largest joint motion [rad]; None if observed for less than 0.15 s."""
        samples = list(self._samples)  # a copy, as joints may come from another thread meanwhile
        # The sum of `update`, as another one rounds to the other side where stamps are on a grid.
        if not samples or samples[0][0] > samples[-1][0] - _WINDOW:
            return None
        return _span([q for _, q in samples])


def _rate(samples: list[tuple[float, Array]]) -> float:
    """Return how fast the joint that turned most turned [rad/s]."""
    return _span([q for _, q in samples]) / max(samples[-1][0] - samples[0][0], 1e-6)


def _span(samples: list[Array]) -> float:
    """Return by how much the joint that turned most turned [rad]."""
    q = np.array(samples)
    return float((q.max(axis=0) - q.min(axis=0)).max()) if len(samples) else 0.0


class ForeignMotion:
    """
    Compares the arm with the joints at which it rests between our motions.

    Times are stamps of joint states [s]: a slow simulation brakes for seconds of wall clock.
    """

    def __init__(self) -> None:
        self.stillness = Stillness()
        self._q_rest: Array | None = None
        self._moving_since = 0.0

    def expect_motion(self, stamp: float) -> None:
        """Expect motion from `stamp` [s] on, by us, by hand or by the robot: it is no fault."""
        self._q_rest, self._moving_since = None, stamp

    def motion(self, q: Array, stamp: float) -> str:
        """
        Return a fault if the arm at joints `q` (6,) [rad] at `stamp` moves without our motion.

        Slow motions are detected too, because the arm is compared with where it came to rest.
        """
        if not self.stillness.is_moving:
            self._moving_since = stamp
        if self._q_rest is None and self.stillness.is_at_rest:
            self._q_rest = q
        if self._q_rest is None:
            what = 'moves' if stamp - self._moving_since > _SETTLING else ''
        else:
            drift = np.abs(q - self._q_rest)
            joint = int(drift.argmax())
            is_far = drift[joint] > _DRIFT
            what = f'turned {JOINT_NAMES[joint]} by {drift[joint]:.3f} rad' if is_far else ''
        return what and (
            f'foreign motion: the arm {what} without a command of this node; end the client or '
            'controller that moves it'
        )
