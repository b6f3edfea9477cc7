# SPDX-License-Identifier: Apache-2.0
"""Places as handles to drag: where a drag ends, the task node is requested to teach the place."""

import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import viser

from ur5_pick_place.cockpit.view import wxyz_of
from ur5_pick_place.kinematics.transforms import (
    T_BASE_LINK_BASE,
    Array,
    make_transform,
    matrix_from_quat,
)
from ur5_pick_place.nodes.messages.conversions import numbers_to_matrix
from ur5_pick_place.task import events

# The tool looks down, a handle up: half a turn about x.
_T_TCP_HANDLE = np.diag([1.0, -1.0, -1.0, 1.0])
_SCALE = 0.2
_ANSWER = 5.0  # [s] for the task node to answer
_ABANDONED = 10.0  # [s] without motion: the browser that dragged has gone
_COLOURS = {'start': (60, 170, 90), 'target': (60, 110, 220)}
_OTHER = (170, 120, 60)
_LINE = 32  # characters of a line at a handle
_DRAG, _FOLLOWS = 'not taught yet: drag me', 'follows a TF frame: updated by Plan'
_SAME = 1e-4  # [m] and of a rotation matrix, between an event and TF
_UNTAUGHT = (0.40, 0.20, 0.20)  # [m] of a place that is not taught yet

Send = Callable[[str, Array], object]


class PlaceHandle:
    """
    The handle of one place.

    `number`: index of the place: handles of untaught places stand apart by it. `size`: edges of
    the part [m]. `send`: takes the name and the pose of the TCP (4, 4) at the end of a drag.
    `on_drag`: same, during a drag.
    """

    def __init__(
        self,
        server: viser.ViserServer,
        name: str,
        number: int,
        size: Sequence[float],
        send: Send,
        on_drag: Send,
    ) -> None:
        self.name, self._send, self._on_drag = name, send, on_drag
        self._taught: Array | None = None
        self._is_movable = True
        self._requested = 0.0  # steady clock; 0 if no reply is awaited
        self._dragged = 0.0  # steady clock of its last motion; 0 if nobody drags
        self._by = -1  # the browser that drags
        self._server = server
        x, y, z = _UNTAUGHT
        self._handle = server.scene.add_transform_controls(
            f'/places/{name}', scale=_SCALE, depth_test=False, opacity=0.8
        )
        server.scene.add_box(
            f'/places/{name}/part', color=_COLOURS.get(name, _OTHER),
            dimensions=(float(size[0]), float(size[1]), float(size[2])), opacity=0.45,
            cast_shadow=False,
        )
        self._label = server.scene.add_label(
            f'/places/{name}/label', name, position=(0.0, 0.0, 0.09), anchor='bottom-center'
        )
        self._move(make_transform(np.eye(3), [x, y - 0.2 * number, z]) @ _T_TCP_HANDLE)
        self._show_note(_DRAG)
        self._handle.on_update(self._drag)

    @property
    def T_base_link_tcp(self) -> Array:
        """The handle's present pose as one of the TCP, (4, 4)."""
        wxyz = np.array(self._handle.wxyz, dtype=float)
        R = matrix_from_quat(wxyz[[1, 2, 3, 0]] / np.linalg.norm(wxyz))
        return make_transform(R, self._handle.position) @ _T_TCP_HANDLE

    @property
    def is_dragged(self) -> bool:
        return self._dragged > 0.0

    async def _drag(self, event: Any) -> None:
        if not self._is_movable:
            self._move(self.T_base_link_tcp if self._taught is None else self._taught)
        elif event.phase != 'end':
            self._show_note('')
            self._dragged, self._by = time.monotonic(), event.client_id
            self._on_drag(self.name, self.T_base_link_tcp)
        elif not self.is_dragged or event.client_id != self._by:
            return  # another browser's
        elif event.client_id not in self._server.get_clients():
            self._dragged = 0.0  # viser ends the drags of a browser that goes
            self.show_refusal('the browser that dragged has gone')
        else:
            self._dragged, self._requested = 0.0, time.monotonic()
            self._show_note('waiting for pick_place…')
            self._send(self.name, self.T_base_link_tcp)

    @property
    def is_taught(self) -> bool:
        return self._taught is not None

    def show_taught(self, T: Array, note: str = '') -> None:
        """Show the taught pose of the TCP (4, 4)."""
        self._taught, self._requested = T, 0.0
        if not self.is_dragged:
            self._move(T)
        self._show_note(note)

    def show_refusal(self, reason: str) -> None:
        """Show why the pose was refused, and return to the taught one."""
        self._requested = 0.0
        if self._taught is not None and not self.is_dragged:
            self._move(self._taught)
        self._show_note(f'refused: {reason.removeprefix(f"{self.name} not taught: ")}')

    def forget_refusal(self) -> None:
        if self.is_taught:
            self._show_note('')

    def follow(self, T: Array) -> None:
        """
        Show the pose of the TCP (4, 4) that TF has, if no drag and no answer is under way.

        Plan may update it without an event.
        """
        if self.is_dragged or self._requested:
            return
        if self._taught is None or np.abs(T - self._taught).max() > _SAME:
            self.show_taught(T)

    def update(self, is_offered: bool, is_movable: bool = True) -> None:
        """Give up an answer that does not come; show what is offered and can be dragged."""
        if is_movable != self._is_movable:
            self._is_movable = is_movable
            for key in ('disable_axes', 'disable_sliders', 'disable_rotations'):
                setattr(self._handle, key, not is_movable)
            if not self.is_taught:
                self._show_note(_DRAG if is_movable else _FOLLOWS)
        if self.is_dragged and time.monotonic() > self._dragged + _ABANDONED:
            self._dragged = 0.0
            self.show_refusal('the drag did not end')
        if self._requested and time.monotonic() > self._requested + _ANSWER:
            self.show_refusal('pick_place did not answer')
        self._handle.visible = is_offered

    def _show_note(self, text: str) -> None:
        note = f'{self.name}: {text}' if text else self.name
        self._label.text = textwrap.fill(note, _LINE, max_lines=3, placeholder='…')

    def _move(self, T: Array) -> None:
        T = T @ _T_TCP_HANDLE
        self._handle.position, self._handle.wxyz = T[:3, 3], wxyz_of(T)


class PlaceHandles:
    """
    All handles, by the events of the task node.

    `size`: edges of the part [m]. `send` and `on_drag`: see `PlaceHandle`.
    """

    def __init__(
        self, server: viser.ViserServer, size: Sequence[float], send: Send, on_drag: Send
    ) -> None:
        self._server, self._size, self._send, self._on_drag = server, size, send, on_drag
        self.all: dict[str, PlaceHandle] = {}

    def offer(self, names: Sequence[str], movable: Sequence[str]) -> None:
        """Show a handle for each of `names`; a drag teaches the `movable` ones."""
        for name in names:
            if name not in self.all:
                self.all[name] = PlaceHandle(
                    self._server, name, len(self.all), self._size, self._send, self._on_drag
                )
        for name, handle in self.all.items():
            handle.update(name in names, name in movable)

    def on_event(self, event: dict[str, Any]) -> None:
        """Take an event `taught`, `started` or `refused`."""
        if event['event'] == events.TAUGHT and (handle := self.all.get(str(event.get('place')))):
            if (T := pose_of(event.get('pose'))) is not None:
                warning = str(event.get('warning') or '')
                handle.show_taught(T, f'taught; {warning}' if warning else '')
        elif event['event'] == events.STARTED:
            for handle in self.all.values():
                handle.forget_refusal()
        elif event['event'] == events.REFUSED:
            name = str(event.get('request', '')).removesuffix('_pose')
            if handle := self.all.get(name):
                handle.show_refusal(str(event.get('reason', '')))


def pose_of(numbers: Any) -> Array | None:
    """Return T_base_link_tcp of an event, whose pose in `base` is xyz, xyzw; None if malformed."""
    try:
        values = np.array(numbers, dtype=np.float64).reshape(7)
        return np.asarray(T_BASE_LINK_BASE @ numbers_to_matrix(values))
    except (TypeError, ValueError, OverflowError):
        return None
