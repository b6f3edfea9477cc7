# SPDX-License-Identifier: Apache-2.0
"""
Which messages of a browser are let in: known types with their fields, numbers within bounds.

The page's own client sends nothing else that the cockpit uses; in particular viser's requests for
a public address, uploads and the browser's storage are not on the list. Needs neither viser nor
ROS.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from ur5_pick_place.errors import one_line

LARGEST = 16_384
"""Bytes of a message; the client's largest, of a camera, takes 400."""

_LONGEST = 200  # characters of what is said about a message
_UNIT = 0.01  # how far the norm of a quaternion may be from 1

_Text = Annotated[str, msgspec.Meta(max_length=200)]
_Pixels = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
_Coordinate = Annotated[float, msgspec.Meta(ge=-100.0, le=100.0)]  # [m] from the page's origin
_Number = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]  # bounds refuse NaN too
_Vector = tuple[_Number, _Number, _Number]
_Rotation = tuple[_Number, _Number, _Number, _Number]


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    """A message whose field `type` is the name of its class."""


class ViewerCameraMessage(_Message, tag=True):
    wxyz: _Rotation
    position: _Vector
    fov: _Number
    near: _Number
    far: _Number
    image_height: _Pixels
    image_width: _Pixels
    look_at: _Vector
    up_direction: _Vector


class _Entered(_Message):
    """Other properties would change the page, not what a user may enter."""

    value: bool | _Number | _Text


class GuiUpdateMessage(_Message, tag=True):
    uuid: _Text
    updates: _Entered


class GuiButtonHoldMessage(_Message, tag=True):
    uuid: _Text
    frequency: _Number


class TransformControlsUpdateMessage(_Message, tag=True):
    name: _Text
    wxyz: _Rotation
    position: tuple[_Coordinate, _Coordinate, _Coordinate]
    owner: _Text = ''


class TransformControlsDragStartMessage(_Message, tag=True):
    name: _Text
    owner: _Text = ''


class TransformControlsDragEndMessage(_Message, tag=True):
    name: _Text
    owner: _Text = ''


_DECODER = msgspec.msgpack.Decoder(
    ViewerCameraMessage
    | GuiUpdateMessage
    | GuiButtonHoldMessage
    | TransformControlsUpdateMessage
    | TransformControlsDragStartMessage
    | TransformControlsDragEndMessage
)


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
        message = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return one_line(str(error))[:_LONGEST]
    rotation = getattr(message, 'wxyz', None)
    if rotation and abs(math.hypot(*rotation) - 1.0) > _UNIT:
        return f'{type(message).__name__}: wxyz must be a unit quaternion'
    if isinstance(message, GuiUpdateMessage):
        return value_problem(message.uuid, message.updates.value)
    return ''
