# SPDX-License-Identifier: Apache-2.0
"""
Places that are read from TF frames when a cycle is planned: of a tag, a camera, a conveyor.

The TCP grips at the frame's origin, pointing straight down as at the taught places. Seen from
above, its x axis has the direction of the frame's. A frame whose x axis is more than 45 degrees
from level is refused, as it shows no direction on the table.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from ur5_pick_place.errors import InvalidInput, UnknownFrame
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, Array
from ur5_pick_place.nodes.tf.frames import Frames
from ur5_pick_place.task.cycle.file import PlaceSettings

_SAMPLES = 10  # that are compared within max_age
_MAX_TURN = math.radians(10.0)  # that a frame may turn meanwhile
_LEVEL = math.cos(math.radians(45.0))  # smallest horizontal share of the x axis


class FramePlaces:
    """
    Reads the places of a cycle that have a frame.

    `places`: all places of the cycle. `now`: returns ROS time [s]. `mounting`: what is level.

    - `T_base`: the TCP at each place by name, (4, 4), as read last
    """

    def __init__(
        self,
        frames: Frames,
        places: Mapping[str, PlaceSettings],
        now: Callable[[], float],
        mounting: Mounting = FLOOR,
    ) -> None:
        self._frames, self._now, self._mounting = frames, now, mounting
        self._places = {name: place for name, place in places.items() if place.from_frame}
        self.T_base: dict[str, Array] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def check_taught(self, name: str) -> None:
        """Refuse to teach a place that is read from a frame."""
        if name in self:
            raise InvalidInput(
                f'{name} is not taught: ~/plan reads it from the TF frame '
                f'{self._places[name].from_frame!r}, as the cycle file says'
            )

    def read(self) -> bool:
        """
        Read all places; return whether there are any.

        Raises `InvalidInput`: a frame is unknown, static, too old, ahead of time, moving or
        tilted; names the place.
        """
        self.T_base = {name: self._read(name) for name in self._places}
        return bool(self._places)

    def check_unmoved(self) -> None:
        """Refuse a run if a place has moved since `read`; errors as there."""
        for name, T_planned in self.T_base.items():
            self._check_jump(name, self._read(name), T_planned, 'since ~/plan: plan again')

    def _read(self, name: str) -> Array:
        place = self._places[name]
        try:
            stamp, poses = self._frames.recent(
                place.from_frame, place.max_age / _SAMPLES, _SAMPLES
            )
        except UnknownFrame as error:
            raise InvalidInput(f'{name}: {error}') from error
        except InvalidInput as error:
            raise InvalidInput(f'{name}: TF frame {place.from_frame!r}: {error}') from error
        self._check_age(name, stamp)
        if len(poses) < 2:
            raise InvalidInput(
                f'{name}: the TF frame {place.from_frame!r} was seen only once: plan again when '
                'it has been published for a moment'
            )
        T, *earlier = (self._tcp(name, pose) for pose in poses)
        for T_earlier in earlier:
            self._check_jump(name, T, T_earlier, f'within {place.max_age:g} s: let it rest')
        return T

    def _check_age(self, name: str, stamp: float) -> None:
        place = self._places[name]
        frame, age = f'{name}: the TF frame {place.from_frame!r}', self._now() - stamp
        if stamp == 0.0:
            raise InvalidInput(
                f'{frame} is static, so that its age is unknown: publish it on /tf, or teach '
                f'{name} as a place of its own'
            )
        if not -place.max_age <= age <= place.max_age:
            old = f'is {age:.2f} s old' if age > 0.0 else f'is stamped {-age:.2f} s ahead'
            raise InvalidInput(
                f'{frame} {old}, more than max_age = {place.max_age:g} s: check what publishes '
                'it, and its clock (use_sim_time)'
            )

    def _tcp(self, name: str, T_base_link_frame: Array) -> Array:
        """Return T_base_tcp, (4, 4), for the pose of a frame."""
        x, y, _ = self._mounting.R_up_base_link @ T_base_link_frame[:3, 0]
        if math.hypot(x, y) < _LEVEL:
            raise InvalidInput(
                f'{name}: the x axis of the TF frame {self._places[name].from_frame!r} is '
                f'{math.degrees(math.acos(math.hypot(x, y))):.0f} deg from level: must be at most '
                '45 deg, as the gripper is turned by it'
            )
        px, py, pz = map(float, T_base_link_frame[:3, 3])
        T_down = self._mounting.tool_down(px, py, pz, math.atan2(y, x))
        return np.asarray(T_BASE_BASE_LINK @ T_down)

    def _check_jump(self, name: str, T: Array, T_before: Array, when: str) -> None:
        place = self._places[name]
        moved = float(np.linalg.norm(T[:3, 3] - T_before[:3, 3]))
        turned = math.acos(float(np.clip(T[:3, 0] @ T_before[:3, 0], -1.0, 1.0)))
        if moved <= place.max_jump and turned <= _MAX_TURN:
            return
        raise InvalidInput(
            f'{name}: the TF frame {place.from_frame!r} moved by {1e3 * moved:.1f} mm and '
            f'{math.degrees(turned):.0f} deg, more than max_jump = {1e3 * place.max_jump:g} mm or '
            f'{math.degrees(_MAX_TURN):.0f} deg, {when}'
        )
