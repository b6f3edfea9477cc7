# SPDX-License-Identifier: Apache-2.0
"""
Which messages of a browser are let in: known types, known fields, finite numbers.

The page's own client sends nothing else that the cockpit uses; in particular viser's requests for
a public address, uploads and the browser's storage are not on the list. Needs neither viser nor
ROS.

"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec.msgpack

LARGEST = 16_384
"""Bytes of a message; the client's largest, of a camera, takes 400."""

_FAR = 100.0  # [m] of anything on the page from its origin
_LONGEST = 200  # characters of a name or a value
_UNIT = 0.01  # how far the norm of a quaternion may be from 1

Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def _is_finite(value: float) -> bool:
    return abs(value) <= 1e9 if isinstance(value, int) else math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(_is_number, value))


def _is_position(value: Any) -> bool:
    return _is_list(value, 3) and max(map(abs, value)) <= _FAR


def _is_vector(value: Any) -> bool:
    return _is_list(value, 3)


def _is_rotation(value: Any) -> bool:
    return _is_list(value, 4) and abs(math.hypot(*value) - 1.0) <= _UNIT


def _is_pixels(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000


def _is_value(value: Any) -> bool:
    return isinstance(value, bool) or _is_number(value) or _is_text(value)


def _is_update(value: Any) -> bool:
    # Other properties would change the page, not what a user may enter.
    return isinstance(value, dict) and list(value) == ['value'] and _is_value(value['value'])


_HANDLE: Mapping[str, Check] = {'name': _is_text, 'owner': _is_text}
_FIELDS: Mapping[str, Mapping[str, Check]] = {
    'ViewerCameraMessage': {
        'wxyz': _is_rotation,
        'position': _is_vector,
        'fov': _is_number,
        'near': _is_number,
        'far': _is_number,
        'image_height': _is_pixels,
        'image_width': _is_pixels,
        'look_at': _is_vector,
        'up_direction': _is_vector,
    },
    'GuiUpdateMessage': {'uuid': _is_text, 'updates': _is_update},
    'GuiButtonHoldMessage': {'uuid': _is_text, 'frequency': _is_number},
    'TransformControlsUpdateMessage': {
        **_HANDLE,
        'wxyz': _is_rotation,
        'position': _is_position,
    },
    'TransformControlsDragStartMessage': _HANDLE,
    'TransformControlsDragEndMessage': _HANDLE,
}
_OPTIONAL = {'owner'}


def problem_of(
    data: bytes | str, value_problem: Callable[[str, Any], str] = lambda _uuid, _value: ''
) -> str:
    """
    Return what is wrong with a message of a browser; empty if it may be let in.

    `value_problem` takes the uuid of a control and the value that is to be entered there.

    """
    if isinstance(data, str):
        return 'text: must be binary'
    if len(data) > LARGEST:
        return f'{len(data)} bytes: at most {LARGEST}'
    try:
        message = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError, TypeError) as error:
        return f'not msgpack: {type(error).__name__}'
    if not isinstance(message, dict) or not isinstance(message.get('type'), str):
        return 'no message with a type'
    kind = message.pop('type')
    fields = _FIELDS.get(kind)
    if fields is None:
        return f'type {kind[:_LONGEST]!r} is not accepted'
    if not fields.keys() - _OPTIONAL <= message.keys() <= fields.keys():
        return f'{kind}: fields must be {", ".join(fields)}'
    bad = [name for name, value in message.items() if not fields[name](value)]
    if bad:
        return f'{kind}: bad {", ".join(bad)}'
    if kind == 'GuiUpdateMessage':
        return value_problem(message['uuid'], message['updates']['value'])
    return ''

