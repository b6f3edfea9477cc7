# SPDX-License-Identifier: Apache-2.0
"""The built-ins that only compute: numbers, lists, strings, poses."""

import math
import random as _random

import numpy as np

from ur5_pick_place.kinematics.transforms import (
    exp_so3,
    inverse_transform,
    log_so3,
    make_transform,
    matrix_from_rpy,
    rpy_from_matrix,
)
from ur5_pick_place.sim.controller.script.values import (
    LONGEST_TEXT,
    List,
    Pose,
    ScriptFault,
    Struct,
    Value,
    describe,
    integer,
    list_of,
    make_struct,
    number,
    pose,
    text,
    transform,
    vector,
)
from ur5_pick_place.sim.controller.script.values import to_str as _to_str

_RANDOM = _random.Random(0)


def sin(f: Value) -> float:
    return math.sin(number(f))


def cos(f: Value) -> float:
    return math.cos(number(f))


def tan(f: Value) -> float:
    return math.tan(number(f))


def asin(f: Value) -> float:
    return math.asin(number(f))


def acos(f: Value) -> float:
    return math.acos(number(f))


def atan(f: Value) -> float:
    return math.atan(number(f))


def atan2(x: Value, y: Value) -> float:
    return math.atan2(number(x), number(y))


def sqrt(f: Value) -> float:
    return math.sqrt(number(f))


def log(b: Value, f: Value) -> float:
    return math.log(number(f), number(b))


def pow(base: Value, exponent: Value) -> float:
    return math.pow(number(base), number(exponent))


def ceil(f: Value) -> int:
    return integer(float(math.ceil(number(f))))


def floor(f: Value) -> int:
    return integer(float(math.floor(number(f))))


def d2r(d: Value) -> float:
    return math.radians(number(d))


def r2d(r: Value) -> float:
    return math.degrees(number(r))


def random() -> float:
    return _RANDOM.random()


def norm(a: Value) -> float:
    if isinstance(a, List):
        return math.hypot(*(number(item) for item in a))
    return abs(number(a))


def length(v: Value) -> int:
    if not isinstance(v, List | str):
        raise ScriptFault(f'type error: {describe(v)} has no length')
    return len(v)


def get_list_length(v: Value) -> int:
    return length(v)


def size(v: Value) -> Value:
    if isinstance(v, List) and v and isinstance(v[0], List):
        return List([len(v), len(v[0])])
    return length(v)


def transpose(m: Value) -> List:
    return list_of(_matrix(m).T)


def inv(m: Value) -> Value:
    if isinstance(m, Pose):
        return pose_inv(m)
    try:
        return list_of(np.linalg.inv(_matrix(m)))
    except np.linalg.LinAlgError as error:
        raise ScriptFault(f'the matrix has no inverse: {error}') from None


def _matrix(m: Value) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    if not (isinstance(m, List) and m and isinstance(m[0], List)):
        raise ScriptFault(f'type error: {describe(m)}, must be a matrix')
    return np.array(m, dtype=float)


def struct(**members: Value) -> Struct:
    return make_struct(**members)


def integer_to_binary_list(x: Value) -> List:
    bits = integer(x) & 0xFFFFFFFF
    return List(bool(bits >> i & 1) for i in range(32))


def binary_list_to_integer(l: Value) -> int:  # noqa: E741
    if not isinstance(l, List) or len(l) > 32:
        raise ScriptFault('must be a list of at most 32 booleans')
    bits = sum(1 << i for i, bit in enumerate(l) if bit is True)
    return bits - (1 << 32) if bits >= 1 << 31 else bits


# strings


def to_str(val: Value) -> str:
    return _short(_to_str(val))


def to_num(str: Value) -> float:
    try:
        found = float(text(str))
    except ValueError:
        raise ScriptFault(f'{str!r} is not a number') from None
    is_whole = str.strip().lstrip('+-').isdigit() and abs(found) < 2**31
    return int(found) if is_whole else found


def str_cat(op1: Value, op2: Value) -> str:
    return _short(_to_str(op1) + _to_str(op2))


def str_len(str: Value) -> int:
    return len(text(str))


def str_empty(str: Value) -> bool:
    return not text(str)


def str_at(src: Value, index: Value) -> str:
    source = text(src)
    if not source:
        raise ScriptFault('the string is empty')
    return source[integer(index, 0, len(source) - 1)]


def str_sub(src: Value, index: Value, len: Value = -1) -> str:
    source = text(src)
    start, count = integer(index, 0), integer(len)
    return source[start:] if count < 0 else source[start : start + count]


def str_find(src: Value, target: Value, start_from: Value = 0) -> int:
    return text(src).find(text(target), integer(start_from, 0))


def _short(found: str) -> str:
    if len(found) > LONGEST_TEXT:
        raise ScriptFault(f'the string has {len(found)} characters, at most {LONGEST_TEXT}')
    return found


# poses


def pose_trans(p_from: Value, p_from_to: Value) -> Pose:
    return pose(transform(p_from) @ transform(p_from_to))


def pose_inv(p_from: Value) -> Pose:
    return pose(inverse_transform(transform(p_from)))


def pose_add(p_1: Value, p_2: Value) -> Pose:
    a, b = transform(p_1), transform(p_2)
    return pose(make_transform(a[:3, :3] @ b[:3, :3], a[:3, 3] + b[:3, 3]))


def pose_sub(p_to: Value, p_from: Value) -> Pose:
    a, b = transform(p_to), transform(p_from)
    return pose(make_transform(a[:3, :3] @ b[:3, :3].T, a[:3, 3] - b[:3, 3]))


def pose_dist(p_from: Value, p_to: Value) -> float:
    difference = pose_sub(p_to, p_from)
    return math.hypot(*difference)


def point_dist(p_from: Value, p_to: Value) -> float:
    return float(np.linalg.norm(transform(p_to)[:3, 3] - transform(p_from)[:3, 3]))


def interpolate_pose(p_from: Value, p_to: Value, alpha: Value) -> Pose:
    a, b, part = transform(p_from), transform(p_to), number(alpha)
    turn = log_so3(a[:3, :3].T @ b[:3, :3])
    between = a[:3, 3] + part * (b[:3, 3] - a[:3, 3])
    return pose(make_transform(a[:3, :3] @ exp_so3(part * turn), between))


def rotvec2rpy(rotation_vector: Value) -> List:
    return list_of(rpy_from_matrix(exp_so3(vector(rotation_vector, 3))))


def rpy2rotvec(rpy_vector: Value) -> List:
    return list_of(log_so3(matrix_from_rpy(vector(rpy_vector, 3))))


def wrench_trans(T_from_to: Value, w_from: Value) -> List:
    T, w = inverse_transform(transform(T_from_to)), vector(w_from)
    force = T[:3, :3] @ w[:3]
    torque = T[:3, :3] @ w[3:] + np.cross(T[:3, 3], force)
    return list_of([*force, *torque])
