# SPDX-License-Identifier: Apache-2.0
"""Taught places by joints and by pose, and what was mounted when they were taught."""

import numpy as np

from ur5_pick_place.kinematics import HOME, forward, load_model
from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.task.places.poses import (
    Provenance,
    TaughtPose,
    matrix_from_numbers,
    numbers_from_matrix,
)

MODEL = load_model('ur5')
TOOL = make_transform(np.eye(3), [0.0, 0.0, 0.145])
NOW = Provenance('ur5', '', numbers_from_matrix(TOOL), 0.9)
Q = HOME + 0.1


def by_joints(q=Q, provenance=NOW):
    pose = numbers_from_matrix(forward(MODEL, q) @ matrix_from_numbers(provenance.tool))
    time = '2020-01-01T00:00:00+00:00'
    return TaughtPose(pose, provenance, time, tuple(q.tolist()), 'left-up-up')


def by_pose(x=0.4):
    T = make_transform(np.diag([1.0, -1.0, -1.0]), [-x, 0.2, 0.02])
    return TaughtPose(numbers_from_matrix(T), NOW, '2020-01-01T00:00:00+00:00')


POSES = {'home': by_joints(), 'start': by_pose(), 'target': by_joints(Q + 0.1)}
