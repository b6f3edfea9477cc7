# SPDX-License-Identifier: Apache-2.0
"""Recorded joints come back as they were written, or are refused with file and line."""

import math
from pathlib import Path

import numpy as np
import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics import JOINT_NAMES
from ur5_pick_place.trials.joints_file import add_joints, read_joints

NOTHING = [math.nan] * 6


def samples(rng: np.random.Generator, begin: float) -> list[tuple]:
    return [(begin + 0.008 * i, *rng.uniform(-6, 6, (3, 6))) for i in range(5)]


def test_runs_are_told_apart_and_come_back_to_a_microradian(tmp_path: Path, rng) -> None:
    path, first, second = tmp_path / 'joints.csv', samples(rng, 3.0), samples(rng, 1.0)
    second[2] = (*second[2][:3], NOTHING)
    add_joints(path, 'ik', first)
    add_joints(path, 'gradient', second)
    runs = read_joints(path)
    assert list(runs) == ['ik', 'gradient']
    for name, rows in (('ik', first), ('gradient', second)):
        expected = [np.array(column) for column in zip(*rows, strict=True)]
        for array, values in zip(vars(runs[name]).values(), expected, strict=True):
            assert np.allclose(array, values, atol=0.51e-6, rtol=0.0, equal_nan=True)


def test_a_person_finds_the_columns_by_name(tmp_path: Path, rng) -> None:
    add_joints(tmp_path / 'joints.csv', 'ik', samples(rng, 0.0))
    heading = (tmp_path / 'joints.csv').read_text().splitlines()[0].split(',')
    assert heading[:2] == ['method', 'time']
    assert heading[2:8] == [f'{name}.position' for name in JOINT_NAMES]
    assert heading[8] == 'shoulder_pan_joint.velocity'
    assert heading[14] == 'shoulder_pan_joint.reference'


@pytest.mark.parametrize(
    ('line', 'cell', 'value', 'words'),
    [
        (0, 0, 'methods', 'must begin with the heading method,time,shoulder_pan_joint.position'),
        (2, 1, '0.000000', 'line 3: time 0.0 s: must be after 0.0 s'),
        (3, 4, 'nan', "line 4: elbow_joint.position = 'nan': must be a finite number"),
        (3, 4, '', "line 4: elbow_joint.position = ''"),
        (3, 10, 'x', "line 4: elbow_joint.velocity = 'x'"),
        (3, 16, 'inf', "line 4: elbow_joint.reference = 'inf'"),
        (1, 19, '0,0', 'line 2: 21 columns: must be 20'),
        (1, 0, '"', 'unexpected end of data'),
        (1, 0, '\udcff', "can't decode"),
    ],
)
def test_a_broken_file_is_refused(line, cell, value, words, tmp_path: Path, rng) -> None:
    path = tmp_path / 'joints.csv'
    add_joints(path, 'ik', samples(rng, 0.0))
    lines = [text.split(',') for text in path.read_text().splitlines()]
    lines[line][cell] = value
    text = '\n'.join(','.join(cells) for cells in lines)
    path.write_bytes(text.encode(errors='surrogateescape'))
    with pytest.raises(InvalidInput) as refused:
        read_joints(path)
    assert str(path) in str(refused.value) and words in str(refused.value)


def test_a_file_that_is_empty_or_missing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'joints.csv'
    with pytest.raises(InvalidInput, match='No such file'):
        read_joints(path)
    path.write_text('')
    with pytest.raises(InvalidInput, match='must begin with'):
        read_joints(path)
