# SPDX-License-Identifier: Apache-2.0
"""The built-ins that only compute: numbers, lists, matrices, strings, poses."""

import math
import random

import numpy as np

from ur5_pick_place.kinematics.transforms import (
    inverse_transform,
    make_transform,
    matrix_from_rpy,
    rpy_from_matrix,
)
from ur5_pick_place.sim.controller.script.paths import line
from ur5_pick_place.sim.controller.script.values import (
    LONGEST_TEXT,
    BuiltIns,
    List,
    Pose,
    ScriptFault,
    Value,
    describe,
    integer,
    list_of,
    make_struct,
    number,
    pose,
    rotation,
    rotation_vector,
    text,
    to_str,
    transform,
    vector,
)

_random = random.Random(0)


def _norm(a: Value) -> float:
    if isinstance(a, List):
        return math.hypot(*(number(item) for item in a))
    return abs(number(a))


def _length(v: Value) -> int:
    if not isinstance(v, List | str):
        raise ScriptFault(f'type error: {describe(v)} has no length')
    return len(v)


def _bits_of(x: Value) -> List:
    bits = integer(x) & 0xFFFFFFFF
    return List(bool(bits >> i & 1) for i in range(32))


def _number_of_bits(l: Value) -> int:  # noqa: E741
    if not isinstance(l, List) or len(l) > 32:
        raise ScriptFault('must be a list of at most 32 booleans')
    bits = sum(1 << i for i, bit in enumerate(l) if bit is True)
    return bits - (1 << 32) if bits >= 1 << 31 else bits


def _to_num(str: Value) -> float:
    try:
        found = float(text(str))
    except ValueError:
        raise ScriptFault(f'{str!r} is not a number') from None
    is_whole = str.strip().lstrip('+-').isdigit() and abs(found) < 2**31
    return int(found) if is_whole else found


def _short(found: str) -> str:
    if len(found) > LONGEST_TEXT:
        raise ScriptFault(f'the string has {len(found)} characters, at most {LONGEST_TEXT}')
    return found


def _at(src: Value, index: Value) -> str:
    source = text(src)
    return source[integer(index, 0, len(source) - 1)]


def _part(src: Value, index: Value, len: Value = -1) -> str:
    source, start, count = text(src), integer(index, 0), integer(len)
    return source[start:] if count < 0 else source[start : start + count]


def _pose_add(p_1: Value, p_2: Value) -> Pose:
    a, b = transform(p_1), transform(p_2)
    return pose(make_transform(a[:3, :3] @ b[:3, :3], a[:3, 3] + b[:3, 3]))


def _pose_sub(p_to: Value, p_from: Value) -> Pose:
    a, b = transform(p_to), transform(p_from)
    return pose(make_transform(a[:3, :3] @ b[:3, :3].T, a[:3, 3] - b[:3, 3]))


def _distance(p_from: Value, p_to: Value) -> float:
    return float(np.linalg.norm(transform(p_to)[:3, 3] - transform(p_from)[:3, 3]))


def _interpolate(p_from: Value, p_to: Value, alpha: Value) -> Pose:
    between, _ = line(transform(p_from), transform(p_to))
    return pose(between(number(alpha)))


MATHS: BuiltIns = {
    'sin': lambda f: math.sin(number(f)),
    'cos': lambda f: math.cos(number(f)),
    'tan': lambda f: math.tan(number(f)),
    'asin': lambda f: math.asin(number(f)),
    'acos': lambda f: math.acos(number(f)),
    'atan': lambda f: math.atan(number(f)),
    'atan2': lambda x, y: math.atan2(number(x), number(y)),
    'sqrt': lambda f: math.sqrt(number(f)),
    'log': lambda b, f: math.log(number(f), number(b)),
    'pow': lambda base, exponent: math.pow(number(base), number(exponent)),
    'ceil': lambda f: integer(float(math.ceil(number(f)))),
    'floor': lambda f: integer(float(math.floor(number(f)))),
    'd2r': lambda d: math.radians(number(d)),
    'r2d': lambda r: math.degrees(number(r)),
    'random': lambda: _random.random(),
    'norm': _norm,
    'length': _length,
    'get_list_length': _length,
    'struct': make_struct,
    'integer_to_binary_list': _bits_of,
    'binary_list_to_integer': _number_of_bits,
    'to_str': lambda val: _short(to_str(val)),
    'to_num': _to_num,
    'str_cat': lambda op1, op2: _short(to_str(op1) + to_str(op2)),
    'str_len': lambda str: len(text(str)),
    'str_empty': lambda str: not text(str),
    'str_at': _at,
    'str_sub': _part,
    'str_find': lambda src, target, start_from=0: text(src).find(
        text(target), integer(start_from, 0)
    ),
    'pose_trans': lambda p_from, p_from_to: pose(transform(p_from) @ transform(p_from_to)),
    'pose_inv': lambda p_from: pose(inverse_transform(transform(p_from))),
    'pose_add': _pose_add,
    'pose_sub': _pose_sub,
    'pose_dist': lambda p_from, p_to: math.hypot(*_pose_sub(p_to, p_from)),
    'point_dist': _distance,
    'interpolate_pose': _interpolate,
    'rotvec2rpy': lambda v: list_of(rpy_from_matrix(rotation(vector(v, 3)))),
    'rpy2rotvec': lambda v: list_of(rotation_vector(matrix_from_rpy(vector(v, 3)))),
}
