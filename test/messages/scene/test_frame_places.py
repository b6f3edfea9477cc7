# SPDX-License-Identifier: Apache-2.0
"""Places read from TF frames: what is taken, and what is refused by name."""

import math

import numpy as np
import pytest

from ur5_pick_place.errors import InvalidInput, UnknownFrame
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, make_transform
from ur5_pick_place.nodes.tf.frame_places import FramePlaces
from ur5_pick_place.task.cycle.file import PlaceSettings

NOW = 100.0  # [s]


def frame(x=0.4, yaw=0.3, tilt=0.0, z=0.02):
    """Return a frame that is turned by yaw about z, then by tilt about its y [rad]."""
    cy, sy, ct, st = math.cos(yaw), math.sin(yaw), math.cos(tilt), math.sin(tilt)
    R = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]) @ [[ct, 0, st], [0, 1, 0], [-st, 0, ct]]
    return make_transform(R, [x, 0.1, z])


class SomeFrames:
    def __init__(self):
        self.stamp, self.poses, self.error = NOW - 0.1, [frame()] * 5, None

    def recent(self, frame_id, step, count):
        assert (frame_id, count * step) == ('part_0', 0.5)
        if self.error:
            raise self.error
        return self.stamp, self.poses


@pytest.fixture
def frames():
    return SomeFrames()


@pytest.fixture
def places(frames):
    named = {'home': PlaceSettings(), 'part': PlaceSettings('part_0'), 'target': PlaceSettings()}
    return FramePlaces(frames, named, lambda: NOW)


def test_the_tcp_points_down_at_the_origin_turned_as_the_x_axis_lies(places, frames):
    for tilt in (0.0, 0.3, math.pi):  # also with z down, as some tags have it
        frames.poses = [frame(yaw=0.3, tilt=tilt)] * 3
        assert places.read()
        T = T_BASE_LINK_BASE @ places.T_base['part']
        np.testing.assert_allclose(T[:3, 3], [0.4, 0.1, 0.02], atol=1e-12)
        np.testing.assert_allclose(T[:3, 2], [0.0, 0.0, -1.0], atol=1e-12)
        sign = math.copysign(1.0, math.cos(tilt))
        x_axis = sign * np.array([math.cos(0.3), math.sin(0.3), 0.0])
        np.testing.assert_allclose(T[:3, 0], x_axis, atol=1e-12)


@pytest.mark.parametrize(
    ('change', 'reason'),
    [
        ({'stamp': NOW - 0.8}, "'part_0' is 0.80 s old, more than max_age = 0.5 s"),
        ({'stamp': NOW + 0.8}, "'part_0' is stamped 0.80 s ahead, more than max_age = 0.5 s"),
        ({'stamp': 0.0}, "'part_0' is static, so that its age is unknown: publish it on /tf"),
        ({'poses': [frame()]}, "'part_0' was seen only once: plan again"),
        ({'poses': [frame(0.43), frame()]}, "'part_0' moved by 30.0 mm and 0 deg, more than max"),
        ({'poses': [frame(), frame(yaw=0.6)]}, "'part_0' moved by 0.0 mm and 17 deg"),
        ({'poses': [frame(tilt=1.4)] * 2}, "x axis of the TF frame 'part_0' is 80 deg from lev"),
        ({'error': UnknownFrame("TF frame 'part_0' is not known")}, "'part_0' is not known"),
        ({'error': InvalidInput('position (nan, 0, 0) is not finite')}, "'part_0': position (nan"),
    ],
)
def test_a_frame_that_cannot_be_relied_on_is_refused_by_name(places, frames, change, reason):
    vars(frames).update(change)
    with pytest.raises(InvalidInput) as refusal:
        places.read()
    assert str(refusal.value).startswith('part: ') and reason in str(refusal.value)


def test_a_part_that_moved_since_it_was_planned_for_is_not_gripped(places, frames):
    places.read()
    frames.poses = [frame(0.415)] * 3
    places.check_unmoved()
    frames.poses = [frame(0.425)] * 3
    with pytest.raises(InvalidInput, match=r'moved by 25.0 mm .* since ~/plan: plan again'):
        places.check_unmoved()
    frames.stamp = NOW - 3.0
    with pytest.raises(InvalidInput, match='is 3.00 s old'):
        places.check_unmoved()


def test_such_a_place_is_not_taught(places):
    places.check_taught('target')
    with pytest.raises(InvalidInput, match='part is not taught: ~/plan reads it from the TF'):
        places.check_taught('part')
