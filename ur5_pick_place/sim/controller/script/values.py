# SPDX-License-Identifier: Apache-2.0
"""
URScript's values and operators.

Numbers, booleans and strings are Python's. Lists and poses never change: `x[i] = v` makes a new
one, so that assignment copies, as on a robot. A pose is x, y, z [m] and a rotation vector [rad].
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ur5_pick_place.kinematics.transforms import Array, exp_so3, log_so3, make_transform

LONGEST_LIST = 1000
LONGEST_TEXT = 1023
_LARGEST_INT = 2**31
WORK = [0]
"""Computing with lists and poses since it was last 0, worth so many loops; see `Scheduler`."""
_ROTATION_WORK, _VECTOR_WORK = 25, 15

Value: TypeAlias = Any
"""A number, a boolean, a string, `List`, `Pose`, `Struct`; None of a call that returns nothing."""


BuiltIns: TypeAlias = dict[str, Callable[..., Value]]
"""Built-in functions by name; one that returns a generator may take time."""


class ScriptFault(Exception):
    """A run-time exception; its text is that of the robot's report."""


class List(tuple[Value, ...]):
    """A list, or a matrix as a list of its rows."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """Return an element; `index`: a number, or row and column."""
        if type(index) is int and index >= 0:
            try:
                return tuple.__getitem__(self, index)
            except IndexError:
                raise ScriptFault(_out_of_range(self, index)) from None
        if type(index) is tuple:
            row, column = index
            return self[row][column]
        if type(index) is slice:  # of the interpreter alone
            return List(tuple.__getitem__(self, index))
        return tuple.__getitem__(self, as_index(self, index))


class Pose(List):
    """A pose: p[x, y, z, rx, ry, rz]."""

    __slots__ = ()


class Struct(dict[str, Value]):
    def __missing__(self, name: object) -> Value:
        raise ScriptFault(f"the struct has no member '{name}'")


def _out_of_range(values: List, index: float) -> str:
    return f'index {index:g} out of range: the list has {len(values)} elements'


def as_index(values: List, index: Value) -> int:
    """Return an index that is a whole number within the list, or raise."""
    if type(index) is float and index.is_integer():
        index = int(index)
    if type(index) is not int:
        raise ScriptFault(f'type error: {describe(index)} used as an index')
    if not 0 <= index < len(values):
        raise ScriptFault(_out_of_range(values, index))
    return index


def make_list(*items: Value) -> List:
    if any(isinstance(item, List) for item in items):
        _check_rows(items)
    return List(items)


def _check_rows(rows: tuple[Value, ...]) -> None:
    if not all(isinstance(row, List) and len(row) == len(rows[0]) for row in rows):
        raise ScriptFault('type error: the rows of a matrix must be equally long lists')
    if any(isinstance(item, (List, Struct)) for row in rows for item in row):
        raise ScriptFault('type error: a list may hold lists of numbers, but no deeper ones')
    if len(rows) * len(rows[0]) > LONGEST_LIST:
        raise ScriptFault(f'a matrix may have at most {LONGEST_LIST} elements')


def make_pose(*items: Value) -> Pose:
    return Pose([number(item) for item in items])


def make_struct(**members: Value) -> Struct:
    """Return a struct; its members may not be structs."""
    if any(isinstance(member, Struct) for member in members.values()):
        raise ScriptFault('type error: a struct may hold no other struct')
    return Struct(members)


def put(target: Value, index: Value, value: Value) -> Value:
    """Return a copy of a list, matrix or struct with one element replaced."""
    if isinstance(target, Struct):
        return make_struct(**{**target, index: value})
    if not isinstance(target, List):
        raise ScriptFault(f'type error: {describe(target)} has no elements')
    if type(index) is tuple:
        row, column = index
        return put(target, row, put(target[row], column, value))
    i = as_index(target, index)
    if isinstance(target, Pose):
        value = number(value)
    items = list(target)
    items[i] = value
    WORK[0] += len(items) >> 5
    return type(target)(items) if isinstance(target, Pose) else make_list(*items)


def describe(value: Value) -> str:
    kinds = {bool: 'a boolean', int: 'a number', float: 'a number', str: 'a string',
             List: 'a list', Pose: 'a pose', Struct: 'a struct'}  # fmt: skip
    return kinds.get(type(value), 'nothing')


def number(value: Value) -> float:
    if type(value) in (float, int) and math.isfinite(value):
        return float(value)
    found = value if type(value) is float else describe(value)
    raise ScriptFault(f'type error: {found}, must be a finite number')


def not_negative(value: Value, name: str) -> float:
    if (found := number(value)) < 0.0:
        raise ScriptFault(f'{name} = {found:g}: must not be negative')
    return found


def integer(value: Value, low: int = -(2**31), high: int = 2**31 - 1) -> int:
    """Return a whole number within bounds, or raise."""
    found = number(value)
    if not (low <= found <= high and found.is_integer()):
        raise ScriptFault(f'{value}: must be a whole number from {low} to {high}')
    return int(found)


def text(value: Value) -> str:
    if not isinstance(value, str):
        raise ScriptFault(f'type error: {describe(value)}, must be a string')
    return value


def vector(value: Value, size: int = 6) -> Array:
    """Return a list or pose of so many finite numbers as (size,), or raise."""
    if not isinstance(value, List) or len(value) != size:
        raise ScriptFault(f'type error: {to_str(value)}, must be a list of {size} numbers')
    return np.array([number(item) for item in value])


def rotation(vector: Array) -> Array:
    WORK[0] += _ROTATION_WORK
    return exp_so3(vector)


def rotation_vector(R: Array) -> Array:
    WORK[0] += _VECTOR_WORK
    return log_so3(R)


def transform(value: Value) -> Array:
    x = vector(value)
    return make_transform(rotation(x[3:]), x[:3])


def pose(T: Array) -> Pose:
    return Pose([*T[:3, 3].tolist(), *rotation_vector(T[:3, :3]).tolist()])


def list_of(values: ArrayLike) -> List:
    items = np.asarray(values, dtype=float).tolist()
    return List(List(item) if isinstance(item, list) else item for item in items)


def to_str(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f'{value:g}'
    if isinstance(value, List):
        return f'{"p" * isinstance(value, Pose)}[{", ".join(map(to_str, value))}]'
    if isinstance(value, Struct):
        return f'struct({", ".join(f"{name}={to_str(item)}" for name, item in value.items())})'
    return str(value)


def _arithmetic(function: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Return an operator for numbers, or element by element; floats take the short way."""

    def calculate(a: Value, b: Value) -> Value:
        if type(a) is float is type(b):
            return function(a, b)
        return _calculate(function, a, b)

    return calculate


add, subtract, multiply = map(_arithmetic, (operator.add, operator.sub, operator.mul))


def divide(a: Value, b: Value) -> Value:
    """Return the float a / b: of numbers, or element by element."""
    if type(b) in _NUMBERS and type(a) in _NUMBERS:
        if b == 0:
            raise ScriptFault('division by zero')
        return a / b
    return _calculate(divide, a, b)


def modulo(a: Value, b: Value) -> Value:
    """Return the remainder of a / b, with the sign of a."""
    if type(b) in _NUMBERS and type(a) in _NUMBERS:
        if b == 0:
            raise ScriptFault('modulo by zero')
        remainder = math.fmod(a, b)
        return int(remainder) if type(a) is int is type(b) else remainder
    raise ScriptFault(f'type error: {describe(a)} % {describe(b)}')


def xor(a: Value, b: Value) -> bool:
    return bool(a) != bool(b)


_NUMBERS = (float, int)


def _calculate(function: Callable[[Value, Value], Value], a: Value, b: Value) -> Value:
    if type(a) in _NUMBERS and type(b) in _NUMBERS:
        result = function(a, b)
        if type(result) is int and not -_LARGEST_INT <= result < _LARGEST_INT:
            return float(result)
        return result
    pairs: Iterable[tuple[Value, Value]]
    if isinstance(a, List) and isinstance(b, List) and len(a) == len(b):
        pairs, kind = zip(a, b, strict=True), type(a)
    elif isinstance(a, List) and type(b) in _NUMBERS:
        pairs, kind = ((x, b) for x in a), type(a)
    elif isinstance(b, List) and type(a) in _NUMBERS:
        pairs, kind = ((a, x) for x in b), type(b)
    else:
        raise ScriptFault(f'type error: {describe(a)} with {describe(b)} in a calculation')
    items = [
        function(x, y) if type(x) is float is type(y) else _calculate(function, x, y)
        for x, y in pairs
    ]
    WORK[0] += 1 + (len(items) >> 2)
    return kind(items)
