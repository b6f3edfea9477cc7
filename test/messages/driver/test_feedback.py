# SPDX-License-Identifier: Apache-2.0
"""Where a motion is, by the feedback of its controller, as the distributions of ROS report it."""

from types import SimpleNamespace

import numpy as np
import pytest
from control_msgs.action import FollowJointTrajectory
from stop_cell import turn

from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.nodes.driver.trajectory_controller import TrajectoryController
from ur5_pick_place.nodes.messages.conversions import duration_to_msg

NAMES = [f'left_{name}' for name in JOINT_NAMES]
MOTION = turn(2.0, 3.0)


def heard(t, reported, names=NAMES):
    """Return the time in the motion that is heard, for a controller that is at `t` [s]."""
    feedback = FollowJointTrajectory.Feedback(joint_names=names)
    feedback.header.stamp.sec = 7
    q = MOTION.sample(t)[0]
    feedback.desired.positions = [q[NAMES.index(name)] for name in names if name in NAMES]
    feedback.desired.time_from_start = duration_to_msg(reported)
    controller = TrajectoryController.__new__(TrajectoryController)
    controller._joint_names = NAMES
    times = []
    listener = SimpleNamespace(on_feedback=lambda _goal, stamp, at: times.append((stamp, at)))
    controller._report_feedback(SimpleNamespace(trajectory=MOTION), feedback, listener)
    ((stamp, at),) = times
    assert stamp == 7.0
    return at


@pytest.mark.parametrize('names', [NAMES, NAMES[::-1]])
@pytest.mark.parametrize('t', [0.2, 1.111, 1.5, 2.9])
def test_the_time_is_that_of_the_desired_joints_also_if_humble_reports_the_next_point(t, names):
    following = MOTION.t[np.searchsorted(MOTION.t, t)]
    assert heard(t, t, names) == pytest.approx(t, abs=1e-6)
    assert heard(t, following, names) == pytest.approx(t, abs=1e-4)


def test_feedback_of_other_joints_leaves_the_time_as_it_is_reported():
    assert heard(1.0, 1.05, NAMES[:5]) == pytest.approx(1.05)
    assert heard(1.0, 1.05, ['finger', *NAMES[:5]]) == pytest.approx(1.05)
