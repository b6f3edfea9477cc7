# SPDX-License-Identifier: Apache-2.0
"""
Frozen settings with units and bounds.

A settings class is a frozen dataclass whose fields have description, unit and range. The same
metadata checks the values of an object and describes the ROS parameters.

"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from ur5_pick_place.errors import InvalidInput

Kind = TypeVar('Kind', bound='Settings')


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
) -> Any:
    """
    Return a field of a `Settings` class.

    Parameters
    ----------
    default
        bool, int, float, str, or a tuple of int, float or str; its type is the required type.
        None = the user must give a value before it is used; then `kind` is the type.
    description : str
        One line for users.
    unit : str
        SI symbol, 'deg', 'percent' …; empty for none.
    low, high : float, optional
        Inclusive bounds of a number, or of every entry of a tuple of numbers.
    choices : tuple of str
        The allowed strings, if given.
    length : int, optional
        Exact number of entries of a tuple.
    kind : type, optional
        float, str or tuple; needed with the default None.

    """
    meta = {
        'description': description,
        'unit': unit,
        'low': low,
        'high': high,
        'choices': choices,
        'length': length,
        'kind': kind or type(default),
    }
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class Settings:
    """Base of all settings; raises `InvalidInput` for a value of wrong type or out of bounds."""

    def __post_init__(self) -> None:
        for f in fields(self):
            checked = check_setting(f.name, getattr(self, f.name), f.default, f.metadata)
            object.__setattr__(self, f.name, checked)

    @classmethod
    def from_dict(cls: type[Kind], values: dict[str, Any]) -> Kind:
        """Return settings from a mapping, or raise `InvalidInput` naming the known keys."""
        known = [f.name for f in fields(cls)]
        for key in values:
            if key not in known:
                raise InvalidInput(f'unknown setting {key!r}; known are: {", ".join(known)}')
        return cls(**values)


def check_setting(name: str, value: Any, default: Any, meta: Any) -> Any:
    """Return `value` in its field's type, or raise `InvalidInput` naming value and bounds."""
    kind = meta['kind']
    if value is None and default is None:
        return None
    if kind is tuple:
        return _check_tuple(name, value, default or (), meta)
    if kind is bool:
        if not isinstance(value, bool):
            raise InvalidInput(f'{name} = {value!r}: must be true or false')
    elif kind is str:
        if not isinstance(value, str):
            raise InvalidInput(f'{name} = {value!r}: must be text')
        if meta['choices'] and value not in meta['choices']:
            raise InvalidInput(f'{name} = {value!r}: must be one of {", ".join(meta["choices"])}')
    else:
        return _check_number(name, value, kind, meta)
    return value


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
        raise InvalidInput(f'{name} = {value!r}: must be {wanted}{unit and f" in{unit}"}')
    low, high = meta['low'], meta['high']
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f'{"-inf" if low is None else low} to {"inf" if high is None else high}'
        raise InvalidInput(f'{name} = {value}{unit}: must lie in {bounds}{unit}')
    number: float | int = kind(value)
    return number


def _check_tuple(name: str, value: Any, default: tuple[Any, ...], meta: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, '__getitem__'):
        raise InvalidInput(f'{name} = {value!r}: must be a list')
    length = meta['length']
    if length is not None and len(value) != length:
        raise InvalidInput(f'{name} = {list(value)!r}: must have {length} entries')
    if default and isinstance(default[0], str):
        entry = {**meta, 'kind': str}
        return tuple(check_setting(f'{name}[{i}]', v, '', entry) for i, v in enumerate(value))
    kind = int if default and isinstance(default[0], int) else float
    return tuple(_check_number(f'{name}[{i}]', v, kind, meta) for i, v in enumerate(value))
