# SPDX-License-Identifier: Apache-2.0
"""What one frame has been told of its place under its parent, over time."""

from bisect import bisect_left, insort
from typing import NamedTuple

from tf2_ros.exceptions import ExtrapolationException
from tf2_ros.rigid import Rigid, interpolate

NANOSECONDS = 1_000_000_000


class Sample(NamedTuple):
    """Where a frame was: stamp [ns], parent frame, T_parent_frame."""

    stamp: int
    parent: str
    T_parent_child: Rigid


class StaticCache:
    """A transform that holds at every time, so that none is its latest."""

    latest = None

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def insert(self, sample: Sample) -> bool:
        self._sample = sample
        return True

    def at(self, stamp: int) -> Sample:
        return self._sample


class TimeCache:
    """The samples of the last `length` nanoseconds before the newest, in order of time."""

    def __init__(self, frame: str, length: int) -> None:
        self._frame = frame
        self._length = length
        self._samples: list[Sample] = []

    @property
    def latest(self) -> int:
        return self._samples[-1].stamp

    def insert(self, sample: Sample) -> bool:
        """Add a sample; a second one of the same stamp replaces the first. False if too old."""
        samples = self._samples
        if samples and sample.stamp < self.latest - self._length:
            return False
        if not samples or sample.stamp > self.latest:
            samples.append(sample)
        else:
            where = bisect_left(samples, sample.stamp, key=_stamp)
            if samples[where].stamp == sample.stamp:
                samples[where] = sample
            else:
                insort(samples, sample, key=_stamp)
        oldest = self.latest - self._length
        if samples[0].stamp < oldest:
            del samples[: bisect_left(samples, oldest, key=_stamp)]
        return True

    def at(self, stamp: int) -> Sample:
        """Return the sample at a stamp, between two by interpolation; 0 means the newest."""
        samples = self._samples
        if stamp == 0:
            return samples[-1]
        where = bisect_left(samples, stamp, key=_stamp)
        if where < len(samples) and samples[where].stamp == stamp:
            return samples[where]
        if where in (0, len(samples)):
            raise ExtrapolationException(
                f'frame {self._frame!r} is wanted at {stamp / NANOSECONDS:.6f} s, but known from '
                f'{samples[0].stamp / NANOSECONDS:.6f} to {self.latest / NANOSECONDS:.6f} s'
            )
        before, after = samples[where - 1], samples[where]
        if before.parent != after.parent:
            return before
        ratio = (stamp - before.stamp) / (after.stamp - before.stamp)
        between = interpolate(before.T_parent_child, after.T_parent_child, ratio)
        return Sample(stamp, before.parent, between)


def _stamp(sample: Sample) -> int:
    return sample.stamp
