# SPDX-License-Identifier: Apache-2.0
"""The arm's numbers in serialized joint states, 500 a second, without conversion by rclpy."""

import itertools
import math
import struct
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from sensor_msgs.msg import JointState

from ur5_pick_place.kinematics.transforms import Array

_HEADER = 4  # [bytes] of CDR, before the stamp


class JointLayout:
    """
    Where numbers are in messages with the joints of one that was converted, and is valid.

    `names`: of the arm's joints. `with_velocities`: whether velocities are read.
    """

    def __init__(self, state: JointState, names: Sequence[str], with_velocities: bool) -> None:
        texts = (text.encode() + b'\0' for text in (state.header.frame_id, *state.name))
        frame, *named = ([len(text), text] for text in texts)
        # What follows the stamp, in its order; None for a number of a joint.
        items: list[int | bytes | None] = [*frame, len(named), *itertools.chain(*named)]
        begins = []
        for values in (state.position, state.velocity, state.effort):
            begins.append(len(items) + 3)  # behind the stamp's two items and a count
            items += [len(values), *[None] * len(values)]
        codes = ('d' if i is None else 'I' if isinstance(i, int) else f'{len(i)}s' for i in items)
        # Native alignment is that of CDR, from the end of its header on.
        self._format = struct.Struct('iI' + ''.join(codes))
        self._size = _HEADER + self._format.size
        self._fixed = itemgetter(*(k + 2 for k, item in enumerate(items) if item is not None))
        self._expected = tuple(item for item in items if item is not None)
        order = [list(state.name).index(name) for name in names]
        read = begins[: 1 + with_velocities]
        self._numbers = itemgetter(*(begin + i for begin in read for i in order))
        self._count = len(order)

    def read(self, data: bytes) -> tuple[float, Array, Array] | None:
        """
        Return stamp [s], positions (n,) [rad] and velocities (n,) [rad/s]; (0,) if not read.

        None if joints or their order differ, or a number is not finite.
        """
        if len(data) < self._size:  # without efforts they end with 4 bytes of padding
            return None
        found = self._format.unpack_from(data, _HEADER)
        numbers = self._numbers(found)
        if self._fixed(found) != self._expected or not math.isfinite(sum(numbers)):
            return None
        n = self._count
        return found[0] + found[1] * 1e-9, np.array(numbers[:n]), np.array(numbers[n:])
