# SPDX-License-Identifier: Apache-2.0
"""
Parse messages from their bytes, in a time that hardly grows with the numbers in them.

rclpy makes a Python object of every triangle and every number before it calls a callback, and
blocks all other callbacks meanwhile: a mesh of 10,000 triangles takes 75 ms, a thousand boxes
33 ms. Here sequences of numbers, and of messages that consist of numbers of one type, become
arrays without a copy, and other long sequences are refused.
"""

import functools
import importlib
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
from rosidl_parser.definition import (
    AbstractNestedType,
    AbstractString,
    Array,
    BasicType,
    NamespacedType,
)

from ur5_pick_place.errors import InvalidInput

MAX_ITEMS = 512  # of a sequence that is read item by item
_NUMBERS = {
    'boolean': '?', 'octet': 'u1', 'char': 'u1', 'float': 'f4', 'double': 'f8',
    **{f'{sign}int{bits}': f'{"u" if sign else "i"}{bits // 8}'
       for sign in ('', 'u') for bits in (8, 16, 32, 64)},
}  # fmt: skip


class Unreadable(InvalidInput):
    """
    A message that cannot be parsed completely.

    - `id`: the last field `id` before the error; empty if there was none
    """

    def __init__(self, message: str, id: str) -> None:
        super().__init__(message)
        self.id = id


def read_message(data: bytes, kind: type) -> SimpleNamespace:
    """
    Return the fields of a serialized message.

    A message of k numbers of one type, such as a pose, is an array (k,); a sequence of n such is
    (n, k). Strings are str, other messages namespaces, other sequences lists.

    Raises `Unreadable`: the bytes end early, or a sequence that is read item by item exceeds
    `MAX_ITEMS`.
    """
    if len(data) < 4:
        raise Unreadable(f'message of {len(data)} bytes: it has no header', '')
    reader = _Reader(data)
    try:
        found: SimpleNamespace = reader.message(kind)
    except Unreadable:
        raise
    except (struct.error, ValueError, IndexError) as error:
        why = f'message of {len(data)} bytes cannot be read: {error}'
        raise Unreadable(why, reader.id) from error
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 4  # after the encapsulation's header
        self._order = '<' if data[1] & 1 else '>'
        self.id = ''

    def message(self, kind: type) -> Any:
        if (numbers := _numbers_of(kind)) is not None:
            return self._array(*numbers)
        found = SimpleNamespace()
        for name, of in _fields(kind):
            value = self._value(of)
            if name == 'id' and isinstance(value, str):
                self.id = value
            setattr(found, name, value)
        return found

    def _value(self, of: Any) -> Any:
        if isinstance(of, BasicType):
            return self._array(_NUMBERS[of.typename], 1)[0].item()
        if isinstance(of, AbstractString):
            return self._string()
        if isinstance(of, NamespacedType):
            return self.message(class_of(of))
        assert isinstance(of, AbstractNestedType)
        count = of.size if isinstance(of, Array) else self._count()
        return self._items(of.value_type, count)

    def _items(self, of: Any, count: int) -> Any:
        if isinstance(of, BasicType):
            return self._array(_NUMBERS[of.typename], count)
        if isinstance(of, NamespacedType):
            numbers = _numbers_of(class_of(of))
            if numbers is not None:
                kind, size = numbers
                return self._array(kind, count * size).reshape(-1, size)
        if count > MAX_ITEMS:
            raise Unreadable(
                f'message holds a list of {count}: at most {MAX_ITEMS}; split or simplify it',
                self.id,
            )
        return [self._value(of) for _ in range(count)]

    def _array(self, kind: str, count: int) -> np.ndarray:
        if not count:
            return np.empty(0, dtype=kind)
        dtype = np.dtype(self._order + kind)
        start = self._aligned(dtype.itemsize)
        found = np.frombuffer(self._data, dtype, count, start)
        self._at = start + found.nbytes
        return found

    def _count(self) -> int:
        start = self._aligned(4)
        (count,) = struct.unpack_from(self._order + 'I', self._data, start)
        self._at = start + 4
        return int(count)

    def _string(self) -> str:
        length, start = self._count(), self._at
        if start + length > len(self._data):
            raise ValueError(f'a text of {length} bytes is cut off')
        self._at = start + length
        return bytes(self._data[start : self._at]).rstrip(b'\0').decode('utf-8', 'replace')

    def _aligned(self, size: int) -> int:
        return self._at + (4 - self._at) % size


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    names = kind.get_fields_and_field_types()  # type: ignore[attr-defined]
    return tuple(zip(names, kind.SLOT_TYPES, strict=True))  # type: ignore[attr-defined]


@functools.cache
def _numbers_of(kind: type) -> tuple[str, int] | None:
    """Return type and count of the numbers, if a message is numbers of one type; else None."""
    types, count = set(), 0
    for _, of in _fields(kind):
        size = 1
        if isinstance(of, Array):
            size, of = of.size, of.value_type
        if isinstance(of, NamespacedType):
            inner = _numbers_of(class_of(of))
        else:
            inner = (_NUMBERS[of.typename], 1) if isinstance(of, BasicType) else None
        if inner is None:
            return None
        types.add(inner[0])
        count += size * inner[1]
    return (types.pop(), count) if len(types) == 1 else None


def class_of(of: NamespacedType) -> type:
    """Return the class of a message, as a slot names it."""
    return _class_named(tuple(of.namespaced_name()))


def type_name(kind: type, separator: str = '/msg/') -> str:
    """Return the name of a message's class, as `geometry_msgs/msg/Pose`."""
    return f'{kind.__module__.split(".")[0]}{separator}{kind.__name__}'


@functools.cache
def _class_named(name: tuple[str, ...]) -> type:
    found: type = getattr(importlib.import_module('.'.join(name[:-1])), name[-1])
    return found
