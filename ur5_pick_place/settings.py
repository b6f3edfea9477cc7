# SPDX-License-Identifier: Apache-2.0
"""
Frozen settings with units and bounds.

A settings class is a frozen dataclass whose fields have description, unit and range. The same
metadata checks the values of an object, validates the files of a user, nested ones too, and
describes the ROS parameters.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from ur5_pick_place.errors import InvalidInput, quoted

Kind = TypeVar('Kind', bound='Settings')

REQUIRED: Any = MISSING
"""The default of a field that every object and every file must give."""


def setting(
    default: Any,
    description: str,
    *,
    unit: str = '',
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    length: int | None = None,
    kind: type | None = None,
    of: 'type[Settings] | None' = None,
) -> Any:
    """
    Return a field of a `Settings` class.

    - `default`: bool, int, float, str, or a tuple of int, float or str; its type is the required
      type. With None the setting is optional, and code that needs its value checks for None. With
      None or `REQUIRED`, `kind` gives the type.
    - `description`: one line for users
    - `unit`: SI symbol, 'deg', 'percent' …; empty for none
    - `low`, `high`: inclusive bounds of a number, or of every entry of a tuple of numbers
    - `choices`: the allowed strings, if given
    - `length`: exact number of entries of a tuple
    - `kind`: bool, int, float, str, tuple, dict or a `Settings` class; needed without a default
      value
    - `of`: the type of the entries of a tuple or of the values of a dict; the keys of a dict are
      text
    """
    meta = {
        'description': description,
        'unit': unit,
        'low': low,
        'high': high,
        'choices': choices,
        'length': length,
        'kind': kind or type(default),
        'of': of,
    }
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class Settings:
    """Base of all settings; raises `InvalidInput` for a value of wrong type or out of bounds."""

    title: ClassVar[str] = 'settings'
    """What errors call the content of a file."""

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, _check(f.name, getattr(self, f.name), f))

    @classmethod
    def from_dict(cls: type[Kind], values: Any, where: str = '') -> Kind:
        """
        Return settings from what a file holds.

        - `values`: must be a mapping
        - `where`: its place in the file, such as 'tool.boxes[0]'; empty for the whole content

        Raises `InvalidInput`: a key is unknown or missing, or a value has the wrong type or is out
        of bounds.
        """
        what, known = where or cls.title, {f.name: f for f in fields(cls)}
        if not isinstance(values, Mapping):
            raise InvalidInput(
                f'{what} = {quoted(values)}: must be a mapping with {", ".join(known)}', where
            )
        for key in values:
            if key not in known:
                raise InvalidInput(
                    f'{what} has the unknown key {quoted(key)}; known are: {", ".join(known)}',
                    f'{where and where + "."}{key}',
                )
        for key, f in known.items():
            if f.default is MISSING and key not in values:
                raise InvalidInput(f'{what} lacks the key {key!r}', where)
        dot = where and f'{where}.'
        checked = {}
        for key, value in values.items():
            try:
                checked[key] = _check(f'{dot}{key}', value, known[key])
            except InvalidInput as error:
                error.key = error.key or f'{dot}{key}'
                raise
        try:
            return cls(**checked)
        except InvalidInput as error:
            key = f'{dot}{error.key}' if error.key else where
            raise InvalidInput(f'{where and where + ": "}{error}', key) from error

    @classmethod
    def from_list(cls: type[Kind], values: Any, where: str) -> tuple[Kind, ...]:
        """Return settings from a list of mappings, as `from_dict` does from one."""
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, '__getitem__'):
            raise InvalidInput(f'{where} = {quoted(values)}: must be a list')
        return tuple(
            v if isinstance(v, cls) else cls.from_dict(v, f'{where}[{i}]')
            for i, v in enumerate(values)
        )


def _check(name: str, value: Any, f: 'Field[Any]') -> Any:
    """Return `value` in its field's type, or raise `InvalidInput` naming value and bounds."""
    meta, default = f.metadata, f.default
    kind = meta['kind']
    if value is None and (default is None or default == ()):
        return default
    if kind is tuple:
        return _check_tuple(name, value, default, meta)
    if kind is dict:
        return _check_dict(name, value, meta)
    if issubclass(kind, Settings):
        return value if isinstance(value, kind) else kind.from_dict(value, name)
    if kind is bool:
        if not isinstance(value, bool):
            raise InvalidInput(f'{name} = {quoted(value)}: must be true or false')
        return value
    if kind is str:
        return _check_text(name, value, meta)
    return _check_number(name, value, kind, meta)


def check_ros_name(what: str, name: str) -> None:
    """Refuse a name that ROS cannot take for a topic, a service, an action or a node."""
    if not re.fullmatch(r'(~/|/)?[A-Za-z_]\w*(/[A-Za-z_]\w*)*', name, re.ASCII):
        raise InvalidInput(
            f'{what} = {quoted(name)}: must be a ROS name: letters, digits and underscores, in '
            'parts joined by /, none of which begins with a digit'
        )


def is_finite_number(value: Any) -> bool:
    """Return whether a value is an int or a float, and finite as a float."""
    try:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def _check_number(name: str, value: Any, kind: type, meta: Any) -> float | int:
    unit = f' {meta["unit"]}' if meta['unit'] else ''
    if not is_finite_number(value) or (kind is int and value != int(value)):
        wanted = 'a whole number' if kind is int else 'a finite number'
        raise InvalidInput(f'{name} = {quoted(value)}: must be {wanted}{unit and f" in{unit}"}')
    low, high = meta['low'], meta['high']
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f'{"-inf" if low is None else low} to {"inf" if high is None else high}'
        raise InvalidInput(f'{name} = {value}{unit}: must lie in {bounds}{unit}')
    number: float | int = kind(value)
    return number


def _check_text(name: str, value: Any, meta: Any) -> str:
    if not isinstance(value, str):
        cure = '; put it in quotes' * isinstance(value, (int, float))
        yaml = ', as YAML reads on, off, yes and no as true or false' * isinstance(value, bool)
        raise InvalidInput(f'{name} = {quoted(value)}: must be text{cure}{yaml}')
    if meta['choices'] and value not in meta['choices']:
        choices = ', '.join(meta['choices'])
        raise InvalidInput(f'{name} = {quoted(value)}: must be one of {choices}')
    return value


def _check_dict(name: str, value: Any, meta: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f'{name} = {quoted(value)}: must be a mapping')
    names = {_check_text(f'{name}: key', key, meta): entry for key, entry in value.items()}
    return {
        key: v if isinstance(v, meta['of']) else meta['of'].from_dict(v, f'{name}.{key}')
        for key, v in names.items()
    }


def _check_tuple(name: str, value: Any, default: Any, meta: Any) -> tuple[Any, ...]:
    if meta['of'] is not None:
        entries: tuple[Any, ...] = meta['of'].from_list(value, name)
        return entries
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, '__getitem__'):
        raise InvalidInput(f'{name} = {quoted(value)}: must be a list')
    length = meta['length']
    if length is not None and len(value) != length:
        raise InvalidInput(f'{name} = {quoted(list(value))}: must have {length} entries')
    first = default[0] if default not in (MISSING, ()) else 0.0
    if isinstance(first, str):
        return tuple(_check_text(f'{name}[{i}]', v, meta) for i, v in enumerate(value))
    kind = int if isinstance(first, int) else float
    return tuple(_check_number(f'{name}[{i}]', v, kind, meta) for i, v in enumerate(value))
