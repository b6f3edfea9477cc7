# SPDX-License-Identifier: Apache-2.0
"""Read the arm's joints from a topic on which other devices publish too."""

import itertools
import math
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.nodes.messages.conversions import (
    is_of_this_arm,
    joints_from_state,
    to_seconds,
    velocities_from_state,
)
from ur5_pick_place.nodes.ros.distro import TakenMessage
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader, Period
from ur5_pick_place.nodes.tf.timeline import Timeline

_TOPIC = 'joint_states'

# Deep enough to lose none in a stall of this PC: 0.5 s of an e-Series. All queued messages are
# taken together and the newest is used, so that old joints are not mistaken for the present ones.
_DEPTH = 250
_QOS = QoSProfile(depth=_DEPTH, reliability=ReliabilityPolicy.BEST_EFFORT)
_LARGEST = 16_384  # [bytes] of a message that is converted; six joints take 300
# [s] of silence after which a publisher has gone. A driver does not restart that fast.
_GONE = 1.0
_NONE: Array = np.empty(0)
_HEADER = 4  # [bytes] of CDR, before the stamp


class JointLayout:
    """
    Where numbers are in messages with the joints of one that was converted, and is valid.

    The others, up to 500 a second, are then read without conversion by rclpy.

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


@dataclass(frozen=True)
class Joints:
    """The arm's joints in a message."""

    stamp: float  # when it was measured [s]
    # (6,) [rad], [rad/s]; `qd` is empty where velocities are not read
    q: Array
    qd: Array
    # stamp and joints of the valid messages that were taken with it, oldest first
    earlier: tuple[tuple[float, Array], ...]
    stamp_gap: float  # largest interval between stamps of these messages and the one before [s]


class OneSource:
    """
    Tells whether one publisher alone sends the arm's joints.

    With two, nobody knows whose joints are the arm's.

    `node`: its graph names the publishers.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: dict[bytes, float] = {}  # steady time of the last message [s], by publisher
        self._numbers: dict[bytes, int] = {}  # of the last message, where only it tells them apart
        self._problem, self._named = '', 0.0

    def problem(
        self, state: JointState, names: Sequence[str], publisher: bytes, number: int
    ) -> str:
        """
        Return why the joints of a message that has just come are not to be used; '' if they are.

        One without some of the joints is judged by its reader. `publisher` and `number` as in
        `TakenMessage`.
        """
        return self.judge(publisher, number) if set(names).issubset(state.name) else ''

    def judge(self, publisher: bytes, number: int) -> str:
        """Return the same of a message with all joints of the arm."""
        now = time.monotonic()
        self._seen[publisher or self._by_number(number)] = now
        if len(self._seen) > 1:
            self._seen = {p: t for p, t in self._seen.items() if now - t < _GONE}
            self._numbers = {p: n for p, n in self._numbers.items() if p in self._seen}
        if len(self._seen) < 2:
            self._problem = ''
        elif not self._problem or now - self._named > _GONE:  # a name may be known later
            self._problem, self._named = self._describe(), now
        return self._problem

    def _by_number(self, number: int) -> bytes:
        """Return a name for the publisher of a message: that whose last number is next below."""
        if not number:
            return b''
        below = {p: last for p, last in self._numbers.items() if last < number}
        publisher = max(below, key=below.__getitem__, default=b'from number %d on' % number)
        self._numbers[publisher] = number
        return publisher

    def _describe(self) -> str:
        names = {
            bytes(info.endpoint_gid): f'{info.node_namespace.rstrip("/")}/{info.node_name}'
            for info in self._node.get_publishers_info_by_topic(_TOPIC)
        }
        known = [names[publisher] for publisher in self._seen if publisher in names]
        found = ' and '.join(known if len(known) == len(self._seen) else names.values())
        return (
            f'{len(self._seen)} publishers send joint_states of this arm, '
            f'{found or "unknown nodes"}: end all but '
            'one, or give each arm a ROS_DOMAIN_ID or a namespace of its own'
        )


class _Sample(NamedTuple):
    """The arm's part of a message; `problem` = why its numbers are not to be used."""

    stamp: float
    q: Array
    qd: Array
    problem: str = ''
    is_whole: bool = True  # whether it has all joints of the arm


class JointListener:
    """
    Subscribes to `joint_states`; ignores messages of other devices.

    `names`: names of the arm's joints, with the prefix. `on_joints`: takes `Joints`. `on_bad`:
    takes a description of the error in a message of this arm, or of a second publisher.
    `with_velocities`: whether velocities are read, and a message without them is an error.

    - `poll`: takes the messages that are queued now
    """

    def __init__(
        self,
        node: SerialNode,
        names: Sequence[str],
        on_joints: Callable[[Joints], object],
        on_bad: Callable[[str], object],
        period: float | Period,
        with_velocities: bool = True,
    ) -> None:
        self._on_joints, self._on_bad = on_joints, on_bad
        self._history: Timeline[Array] | None = None
        self._names, self._with_velocities = list(names), with_velocities
        self._stamp: float | None = None
        self._source = OneSource(node)
        self._reader = BoundedReader(node, JointState, _TOPIC, _LARGEST)
        self._layout: JointLayout | None = None
        self.poll = node.reader.subscribe(JointState, _TOPIC, self._take, _QOS, period)

    def record_in(self, history: Timeline[Array]) -> None:
        """Add all valid joints (6,) [rad] to a history from now on."""
        self._history = history

    def _take(self, waiting: Sequence[TakenMessage]) -> None:
        problem, samples = '', []
        for message in waiting:
            if sample := self._read(message.data):
                samples.append(sample)
                if sample.is_whole:
                    problem = self._source.judge(message.publisher, message.number) or problem
        if problem:
            if self._history is not None:
                self._history.forget(problem)
            self._on_bad(problem)
        elif samples:
            self._use(samples)

    def _read(self, data: bytes) -> _Sample | None:
        """Return the arm's part of a message; None if it has none, or cannot be read."""
        if self._layout and (found := self._layout.read(data)):
            return _Sample(*found)
        state = self._reader.read(data)
        if state is None or not is_of_this_arm(state, self._names):
            return None
        stamp, qd = to_seconds(state.header.stamp), _NONE
        try:
            q = joints_from_state(state, self._names)
            if self._with_velocities:
                qd = velocities_from_state(state, self._names)
        except InvalidInput as error:
            is_whole = set(self._names).issubset(state.name)
            return _Sample(stamp, _NONE, _NONE, str(error), is_whole)
        self._layout = JointLayout(state, self._names, self._with_velocities)
        return _Sample(stamp, q, qd)

    def _use(self, samples: Sequence[_Sample]) -> None:
        stamps = [sample.stamp for sample in samples]
        before = stamps[0] if self._stamp is None else self._stamp
        gap = max(abs(b - a) for a, b in itertools.pairwise([before, *stamps]))
        self._stamp = stamps[-1]
        valid = []
        for sample in samples:
            if sample.problem:
                self._on_bad(sample.problem)  # even if valid ones follow
                continue
            valid.append(sample)
            if self._history is not None:
                self._history.add(sample.stamp, sample.q)
        if valid:
            *others, (stamp, q, qd, *_) = valid
            earlier = tuple((sample.stamp, sample.q) for sample in others)
            self._on_joints(Joints(stamp, q, qd, earlier, gap))
