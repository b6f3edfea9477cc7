# SPDX-License-Identifier: Apache-2.0
"""Freedrive: switches controllers to and from it, and keeps freedrive mode enabled."""

import time
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from controller_manager_msgs.srv import ListControllers
from rclpy.task import Future
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.nodes.cell.context import Cell
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager, active_names
from ur5_pick_place.nodes.driver.driver_link import PROGRAM_RUNNING, LatchedTopic
from ur5_pick_place.nodes.messages.refusals import reason_of
from ur5_pick_place.task import events
from ur5_pick_place.task.station import Station

_CONTROLLER = 'freedrive_mode_controller'
_KEEP_ALIVE = 0.3  # [s], steady clock; the controller leaves freedrive after 1 s without a message
_LIST_TIME = 1.0  # [s] the controller manager may take to list its controllers


class State(Enum):
    """What is known of freedrive."""

    OFF = auto()
    ENTERING = auto()  # the planner begins nothing any more
    KEPT_ON = auto()  # this node keeps it enabled
    ON = auto()  # another client may do so, or an earlier run of this node did
    # Off, without the trajectory controller: that would hold the joints of this moment, and an arm
    # that is jogged from the pendant while the program is stopped would jump back to them at Play.
    # It is activated once the program runs.
    RETURN_DUE = auto()


class Freedrive:
    """
    Switches between the trajectory controller and the driver's freedrive mode, on request.

    An earlier run of this node may have left the freedrive controller active, and other clients
    may activate and end it, also while this node keeps it on. That is checked at the start, before
    each switch, when another client enables freedrive, and as long as it is on.

    `checks_modes`: whether the program counts as stopped until the driver reports it.
    `publish_state`: publishes the state of the machine; the planner begins nothing in `freedrive`.
    """

    def __init__(
        self,
        cell: Cell,
        controllers: ControllerManager,
        station: Station,
        checks_modes: bool,
        publish_state: Callable[[], None],
    ) -> None:
        node = self._node = cell.node
        self._controllers, self._controller = controllers, cell.robot.controller
        self._station, self._publish_state = station, publish_state
        self.state = State.OFF
        self._runs = self._runs_if_unknown = not checks_modes
        self._latest: Future[None] | None = None  # done when the latest switch has ended
        self._is_ending = self._has_found_out = False
        self._offs = 0  # requests to switch it off
        self._was_stopped = True  # until the planner is known
        self._list = controllers.lists(_LIST_TIME)
        topic = f'{_CONTROLLER}/enable_freedrive_mode'
        self._enable = node.create_publisher(Bool, topic, 10)
        node.create_subscription(Bool, topic, self._on_enabled, 10)
        LatchedTopic(node, Bool, PROGRAM_RUNNING, self._on_program, self._forget)
        node.reader.every(_KEEP_ALIVE, self._keep_on)
        node.create_service(SetBool, '~/freedrive', self._serve)

    @property
    def is_on(self) -> bool:
        """Whether the freedrive controller is active instead of the trajectory controller."""
        return self.state in (State.ON, State.KEPT_ON)

    def _become(self, state: State) -> None:
        self.state = state
        self._station.machine.is_in_freedrive = self.is_on or state is State.ENTERING
        self._publish_state()

    # -- requests and stops ----------------------------------------------------------------------

    async def _serve(
        self, request: SetBool.Request, reply: SetBool.Response
    ) -> SetBool.Response:
        try:
            if request.data:
                await self._enter()
            else:
                self._offs += 1
                await self.switch(False)
            reply.success, reply.message = True, f'freedrive {"on" if request.data else "off"}'
            self._station.emit(events.FREEDRIVE, is_on=request.data)
        except Exception as error:  # whatever it is, it must not end the node
            reply.success, reply.message = False, reason_of(self._node, error)
        return reply

    async def _enter(self) -> None:
        machine, offs, stops = self._station.machine, self._offs, self._station.machine.stops
        if not self.is_on:  # with a wrong payload the arm sinks or rises in freedrive
            begin = partial(machine.start, 'confirm_payload', self._station.run.confirm_payload())
            confirmed = await self._node.ended(begin)
            if not confirmed.ok:
                why = confirmed.reason
                raise ExecutionError(f'freedrive refused, payload not confirmed: {why}')

        def check() -> None:
            if machine.stops != stops or machine.stop_reason:
                raise ExecutionError('freedrive refused: a stop was requested meanwhile')
            if self._offs != offs:
                raise ExecutionError('freedrive refused: it was switched off meanwhile')
            if reason := self._station.port.why_not_ready:
                raise ExecutionError(f'freedrive refused: {reason}')

        if not self.is_on:
            self._become(State.ENTERING)
        try:
            await self.switch(True, check)
        finally:
            if self.state is State.ENTERING:
                self._become(State.OFF)

    async def end(self) -> str:
        """End freedrive if it is on, or about to be; return what could not be ended, or ''."""
        if not (self.is_on or self.is_switching):
            return ''
        try:
            await self.switch(False)
        except Ur5PickPlaceError as error:
            return (
                'freedrive is disabled, but its controller may still be on: call ~/freedrive '
                f'with false ({error})'
            )
        return ''

    def on_tick(self, is_stopped: bool, is_planner_known: bool) -> None:
        """
        End freedrive at a stop.

        A new stop ends freedrive, whichever client began it. Freedrive that another client begins
        after the stop, or that was on when this node started, is left on.
        """
        is_new_stop = is_stopped and not self._was_stopped
        if is_planner_known:
            self._was_stopped = is_stopped
        ends = is_stopped and (self.state is State.KEPT_ON or (is_new_stop and self.is_on))
        if ends and not self._is_ending:
            self._is_ending = True
            self._node.begin(self._end_at_stop)

    async def _end_at_stop(self) -> None:
        still_on = await self.end()
        self._is_ending = False
        if still_on:
            self._node.get_logger().error(still_on)

    # -- switching -------------------------------------------------------------------------------

    @property
    def is_switching(self) -> bool:
        """Whether a switch has not ended yet."""
        return self._latest is not None and not self._latest.done()

    async def switch(self, is_on: bool, check: Callable[[], None] = lambda: None) -> None:
        """
        Enter freedrive, or leave it with the arm where it is; one switch after the other.

        `check`: called before and after the switch; raises if freedrive must not be entered.

        Raises `ExecutionError`: the controllers could not be switched, or `check` forbids it; they
        are as before, but freedrive is disabled if it was to end.
        """
        mine: Future[None] = Future()
        before, self._latest = self._latest, mine
        try:
            if before is not None:
                await before
            await self._switch_to(is_on, check)
            try:
                check()
            except ExecutionError:
                await self._switch_to(False, lambda: None)
                raise
        finally:
            mine.set_result(None)

    async def _switch_to(self, is_on: bool, check: Callable[[], None]) -> None:
        if not is_on:  # first, as the controller manager may not answer
            self._enable.publish(Bool(data=False))
            if self.state is State.KEPT_ON:
                self._become(State.ON)
        active = await self._controllers.active()
        on, off = (_CONTROLLER, self._controller) if is_on else (self._controller, _CONTROLLER)
        is_too_early = not is_on and not self._runs and on not in active
        activated = [] if is_too_early or on in active else [on]
        deactivated = [off] if off in active else []
        try:
            check()
            if activated or deactivated:
                await self._controllers.switch(activated, deactivated)
        except ExecutionError:
            self._adopt(_CONTROLLER in active)
            raise
        left = State.RETURN_DUE if is_too_early else State.OFF
        self._become(State.KEPT_ON if is_on else left)
        self._keep_on()

    async def _return(self) -> None:
        """Activate the trajectory controller, in place of what the driver has reactivated."""
        try:
            await self.switch(False)
        except Ur5PickPlaceError as error:
            self._node.get_logger().warning(f'freedrive has ended, but {error}', once=True)

    # -- what the driver and other clients do ----------------------------------------------------

    def _on_program(self, message: Bool) -> None:
        self._runs = message.data

    def _forget(self) -> None:
        self._runs = self._runs_if_unknown

    def _keep_on(self) -> None:
        if self.state is State.RETURN_DUE and self._runs and not self.is_switching:
            self._node.begin(self._return)
            return
        if self.state is State.KEPT_ON:
            self._enable.publish(Bool(data=True))
        if self.is_on or not self._has_found_out:
            self._look()

    def _on_enabled(self, message: Bool) -> None:
        """Look whether another client has activated the freedrive controller."""
        if message.data and not self.is_on and time.monotonic() - self._list.last > _KEEP_ALIVE:
            self._look()

    def _look(self) -> None:
        if self._list.is_there and not self.is_switching:
            take = partial(self._on_listed, self._latest)
            self._list.send_if_due(ListControllers.Request(), take)

    def _on_listed(self, latest: 'Future[None] | None', listed: Any) -> None:
        """Adopt what the controller manager reports, unless a switch has followed `latest`."""
        if self._latest is latest:
            self._has_found_out = True
            self._adopt(_CONTROLLER in active_names(listed))

    def _adopt(self, is_active: bool) -> None:
        """Take the state of the controller as it is, whoever has switched it."""
        if is_active and self.state in (State.OFF, State.ENTERING):
            self._become(State.ON)
        elif not is_active and self.state is State.KEPT_ON:
            # The driver, which deactivates with the program, activates freedrive again at Play.
            self._become(State.OFF if self._runs else State.RETURN_DUE)
            self._node.get_logger().warning(
                f'freedrive has ended: {_CONTROLLER} is no longer active, and this node did not '
                'deactivate it; see controller_manager/list_controllers for what is active now'
            )
        elif not is_active and self.state is State.ON:
            self._become(State.OFF)
