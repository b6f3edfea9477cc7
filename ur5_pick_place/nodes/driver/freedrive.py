# SPDX-License-Identifier: Apache-2.0
"""Freedrive: switches controllers to and from it, and keeps freedrive mode enabled."""

import time
from collections.abc import Awaitable, Callable

from rclpy.task import Future
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from ur5_pick_place.errors import ExecutionError, Ur5PickPlaceError
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.driver.driver_link import PROGRAM_RUNNING, LatchedTopic
from ur5_pick_place.nodes.messages.refusals import reason_of
from ur5_pick_place.nodes.pick_place.task_port import TaskPort
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.service_calls import steady_timer
from ur5_pick_place.outcome import Outcome
from ur5_pick_place.task import events
from ur5_pick_place.task.job import Steps
from ur5_pick_place.task.machine import Machine

_CONTROLLER = 'freedrive_mode_controller'
_KEEP_ALIVE = 0.3  # [s], steady clock; the controller leaves freedrive after 1 s without a message
_LIST_TIME = 1.0  # [s] the controller manager may take to list its controllers


class Freedrive:
    """
    Switches between the trajectory controller and the driver's freedrive mode.

    An earlier run of this node may have left the freedrive controller active, and other clients
    may activate and end it, also while this node keeps it on. That is checked at the start, before
    each switch, when another client enables freedrive, and as long as it is on.

    While the program on the robot is stopped, the trajectory controller is not activated: it would
    hold the joints of that moment, and an arm that was jogged from the pendant meanwhile would
    jump back to them at Play. It is activated once the program runs.

    `controller`: the trajectory controller to return to. `checks_modes`: whether the program
    counts as stopped until the driver reports it. `on_change`: called when `is_on` may have
    changed without a call of `switch`.

    Attributes
    ----------
    is_on : bool
        Whether the freedrive controller is active instead of the trajectory controller.
    is_kept_on : bool
        Whether this node keeps freedrive enabled.

    """

    def __init__(
        self,
        node: SerialNode,
        controllers: ControllerManager,
        controller: str,
        checks_modes: bool,
        on_change: Callable[[], None],
    ) -> None:
        self.is_on = False
        self.is_kept_on = False
        self._is_return_due = False  # to the trajectory controller, once the program runs
        self._runs = self._runs_if_unknown = not checks_modes
        self._on_change = on_change
        self._latest: Future[None] | None = None  # done when the latest switch has ended
        self._node, self._controllers, self._controller = node, controllers, controller
        topic = f'{_CONTROLLER}/enable_freedrive_mode'
        self._enable = node.create_publisher(Bool, topic, 10)
        node.create_subscription(Bool, topic, self._on_enabled, 10)
        LatchedTopic(node, Bool, PROGRAM_RUNNING, self._on_program, self._forget)
        self._has_found_out, self._is_querying, self._last_request = False, False, 0.0
        self._timer = steady_timer(node, _KEEP_ALIVE, self._keep_on)

    @property
    def is_switching(self) -> bool:
        """Whether a switch has not ended yet."""
        return self._latest is not None and not self._latest.done()

    async def switch(self, is_on: bool, check: Callable[[], None] = lambda: None) -> None:
        """
        Enter freedrive, or leave it with the arm where it is; one switch after the other.

        Parameters
        ----------
        check : callable
            Called before and after the switch; raises if freedrive must not be entered.

        Raises
        ------
        ExecutionError
            The controllers could not be switched, or `check` forbids it; they are as before, but
            freedrive is disabled if it was to end.

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
            self.is_kept_on = False
            self._enable.publish(Bool(data=False))
        active = await self._controllers.active()
        self.is_on = _CONTROLLER in active
        on, off = (_CONTROLLER, self._controller) if is_on else (self._controller, _CONTROLLER)
        check()
        is_too_early = not is_on and not self._runs and on not in active
        activated = [] if is_too_early or on in active else [on]
        deactivated = [off] if off in active else []
        if activated or deactivated:
            await self._controllers.switch(activated, deactivated)
        self.is_on = self.is_kept_on = is_on
        self._is_return_due = is_too_early
        self._keep_on()

    def _on_program(self, message: Bool) -> None:
        self._runs = message.data

    def _forget(self) -> None:
        self._runs = self._runs_if_unknown

    async def _return(self) -> None:
        """Activate the trajectory controller, in place of what the driver has reactivated."""
        try:
            await self.switch(False)
        except Ur5PickPlaceError as error:
            self._node.get_logger().warning(f'freedrive has ended, but {error}', once=True)
        finally:
            self._on_change()

    def _keep_on(self) -> None:
        if self._is_return_due and self._runs and not self.is_switching:
            self._node.begin(self._return)
            return
        if self.is_kept_on:
            self._enable.publish(Bool(data=True))
        if self.is_on or not self._has_found_out:
            self._begin_query()

    def _on_enabled(self, message: Bool) -> None:
        """Look whether another client has activated the freedrive controller."""
        if message.data and not self.is_on and time.monotonic() - self._last_request > _KEEP_ALIVE:
            self._begin_query()

    def _begin_query(self) -> None:
        if self._controllers.is_there and not (self._is_querying or self.is_switching):
            self._is_querying, self._last_request = True, time.monotonic()
            self._node.begin(self._find_out, self._latest)

    async def _find_out(self, latest: 'Future[None] | None') -> None:
        """Adopt what the controller manager reports, unless a switch has followed `latest`."""
        try:
            active = await self._controllers.active(_LIST_TIME)
        except ExecutionError:
            return  # requested again while it is in doubt
        finally:
            self._is_querying = False
        if self._latest is not latest:
            return  # this node has begun a switch since: the answer may be from before it
        is_on, self._has_found_out = _CONTROLLER in active, True
        if is_on != self.is_on:
            if self.is_kept_on:
                self._give_up()
            self.is_on = is_on
            self._on_change()

    def _give_up(self) -> None:
        """Stop keeping freedrive enabled, as another client or the driver has ended it."""
        self.is_kept_on = False
        # The driver, which deactivates with the program, activates freedrive again at Play.
        self._is_return_due = not self._runs
        self._node.get_logger().warning(
            f'freedrive has ended: {_CONTROLLER} is no longer active, and this node did not '
            'deactivate it; see controller_manager/list_controllers for what is active now'
        )


class FreedriveRequests:
    """
    Decides when the arm may be guided by hand, and ends it at a stop.

    `controller`: the trajectory controller to return to. `checks_modes`: see `Freedrive`.
    `confirm_payload`: returns the steps of that job; with a wrong payload the arm sinks or rises
    in freedrive. `job`: runs a job by name and steps; returns how it ended. `emit`: takes the name
    of an event and its fields. `publish_state`: publishes the state of the machine; the planner
    begins nothing in `freedrive`.

    """

    def __init__(
        self,
        node: SerialNode,
        controllers: ControllerManager,
        controller: str,
        checks_modes: bool,
        machine: Machine,
        port: TaskPort,
        confirm_payload: Callable[[], Steps[None]],
        job: Callable[[str, Steps[None]], Awaitable[Outcome]],
        emit: Callable[..., None],
        publish_state: Callable[[], None],
    ) -> None:
        self._freedrive = Freedrive(node, controllers, controller, checks_modes, self._update)
        self._node, self._machine, self._port = node, machine, port
        self._confirm_payload, self._job, self._emit = confirm_payload, job, emit
        self._publish_state = publish_state
        self._is_ending = False
        self._was_stopped = True  # until the planner is known
        node.create_service(SetBool, '~/freedrive', self._serve)

    async def end(self) -> str:
        """End freedrive if it is on, or about to be; return what could not be ended, or ''."""
        if not (self._freedrive.is_on or self._freedrive.is_switching):
            return ''
        try:
            await self._freedrive.switch(False)
        except Ur5PickPlaceError as error:
            return (
                'freedrive is disabled, but its controller may still be on: call ~/freedrive '
                f'with false ({error})'
            )
        finally:
            self._machine.is_in_freedrive = self._freedrive.is_on
        return ''

    def on_tick(self, is_stopped: bool) -> None:
        """
        Record freedrive that an earlier run has left on; end it at a stop.

        A new stop ends freedrive, whichever client began it. Freedrive that another client begins
        after the stop, or that was on when this node started, is left on.

        """
        freedrive = self._freedrive
        if freedrive.is_on:
            self._machine.is_in_freedrive = True
        is_new_stop = is_stopped and not self._was_stopped
        if self._port.planner_state:
            self._was_stopped = is_stopped
        ends = is_stopped and (freedrive.is_kept_on or (is_new_stop and freedrive.is_on))
        if ends and not self._is_ending:
            self._is_ending = True
            self._node.begin(self._end_at_stop)

    async def _end_at_stop(self) -> None:
        still_on = await self.end()
        self._is_ending = False
        if still_on:
            self._node.get_logger().error(still_on)

    async def _serve(
        self, request: SetBool.Request, reply: SetBool.Response
    ) -> SetBool.Response:
        try:
            if request.data:
                await self._enter()
            else:
                await self._freedrive.switch(False)
            reply.success, reply.message = True, f'freedrive {"on" if request.data else "off"}'
            self._emit(events.FREEDRIVE, is_on=request.data)
        except Exception as error:  # whatever it is, it must not end the node
            reply.success, reply.message = False, reason_of(self._node, error)
        finally:
            self._update()
        return reply

    def _update(self) -> None:
        self._machine.is_in_freedrive = self._freedrive.is_on
        self._publish_state()

    async def _enter(self) -> None:
        stops = self._machine.stops
        is_new = not self._freedrive.is_on
        if is_new:
            confirmed = await self._job('confirm_payload', self._confirm_payload())
            if not confirmed.ok:
                why = confirmed.reason
                raise ExecutionError(f'freedrive refused, payload not confirmed: {why}')

        def check() -> None:
            if self._machine.stops != stops or self._machine.stop_reason:
                raise ExecutionError('freedrive refused: a stop was requested meanwhile')
            if reason := self._port.why_not_ready:
                raise ExecutionError(f'freedrive refused: {reason}')

        self._machine.is_in_freedrive = True  # from now on the planner begins nothing
        self._publish_state()
        await self._freedrive.switch(True, check)
