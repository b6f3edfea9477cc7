# SPDX-License-Identifier: Apache-2.0
"""Pins, tool supply and payload through the driver's `io_and_status_controller`."""

import time
from collections.abc import Sequence
from typing import Any

from rclpy.client import Client
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ur_msgs.msg import IOStates, ToolDataMsg
from ur_msgs.srv import SetIO, SetPayload

from ur5_pick_place.nodes.ros.distro import TakenMessage, payload_request, takes_inertia
from ur5_pick_place.nodes.ros.executor import SerialNode
from ur5_pick_place.nodes.ros.qos import SWITCHING
from ur5_pick_place.nodes.ros.topic_reader import BoundedReader, Period
from ur5_pick_place.outcome import DONE, OnOutcome, Outcome
from ur5_pick_place.task import job

_IO = 'io_and_status_controller'
_LARGEST = 16_384  # [bytes] of io_states; the driver's 36 pins take 400
_NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
_NO_INERTIA = (0.0,) * 6
Pins = tuple[dict[int, bool], dict[int, bool]]


class RobotIo:
    """Receives the pins and sends a job's commands."""

    def __init__(self, node: SerialNode, period: Period) -> None:
        # The latest message with its time of arrival, and the one that was read: in two variables,
        # as a message may arrive while another thread reads.
        self._latest: tuple[bytes, float] | None = None
        self._read: tuple[bytes, float] | None = None
        self._pins: Pins = {}, {}
        self._reader = BoundedReader(node, IOStates, f'{_IO}/io_states', _LARGEST)
        self._received = time.monotonic()
        self._tool_reader = BoundedReader(node, ToolDataMsg, f'{_IO}/tool_data', _LARGEST)
        self._latest_tool = self._read_tool = b''
        self._tool_voltage: int | None = None
        self._without_inertia = False  # set once the driver has refused one
        self._warn = node.get_logger().warning
        # 125 to 500 times a second, and deserialized only when a job needs them.
        subscribe = node.reader.subscribe
        subscribe(IOStates, f'{_IO}/io_states', self._on_io_states, _NEWEST, period)
        subscribe(ToolDataMsg, f'{_IO}/tool_data', self._on_tool_data, _NEWEST, period)
        self._set_io: Client[Any, Any] = node.create_client(
            SetIO, f'{_IO}/set_io', qos_profile=SWITCHING
        )
        self._set_payload: Client[Any, Any] = node.create_client(
            SetPayload, f'{_IO}/set_payload', qos_profile=SWITCHING
        )

    @property
    def is_there(self) -> bool:
        """Return whether the driver's services are available."""
        return self._set_io.service_is_ready() and self._set_payload.service_is_ready()

    def pins(self) -> Pins:
        """Return the digital inputs and outputs by pin, as last published; empty before that."""
        latest = self._latest
        if latest is None or latest is self._read:
            return self._pins
        self._read = latest
        if states := self._reader.read(latest[0]):
            self._received = latest[1]  # what cannot be read must not hide a silent driver
            self._pins = (
                {d.pin: d.state for d in states.digital_in_states},
                {d.pin: d.state for d in states.digital_out_states},
            )
        return self._pins

    @property
    def tool_voltage(self) -> int | None:
        """Supply of the tool [V], as last published."""
        latest = self._latest_tool
        if latest is not self._read_tool:
            self._read_tool = latest
            if message := self._tool_reader.read(latest):
                self._tool_voltage = message.tool_output_voltage
        return self._tool_voltage

    def send(
        self, command: job.SetOutput | job.SetToolVoltage | job.SetPayload, on_reply: OnOutcome
    ) -> None:
        """Send a command; `on_reply` takes how it ended."""
        if isinstance(command, job.SetPayload):
            self._send_payload(command, on_reply)
        elif isinstance(command, job.SetToolVoltage):
            request = SetIO.Request(
                fun=SetIO.Request.FUN_SET_TOOL_VOLTAGE, state=float(command.voltage)
            )
            self._call(self._set_io, request, str(command), on_reply)
        else:
            request = SetIO.Request(
                fun=SetIO.Request.FUN_SET_DIGITAL_OUT, pin=command.pin, state=float(command.state)
            )
            self._call(self._set_io, request, str(command), on_reply)

    def _send_payload(self, command: job.SetPayload, on_reply: OnOutcome) -> None:
        """
        Send mass, centre and inertia; if that fails, mass and centre with zero inertia.

        Newer drivers compare all three with the values that the robot reports, and a CB3 robot,
        whose script has no inertia, may report another one. No topic publishes it; but a driver
        that then accepts the same mass and centre without inertia has compared these.
        """
        what, kind = str(command), SetPayload.Request

        def request(inertia: Sequence[float]) -> Any:
            return payload_request(kind, command.mass, command.centre, inertia)

        def on_first(outcome: Outcome) -> None:
            if outcome.ok:
                on_reply(DONE)
            else:
                self._call(self._set_payload, request(_NO_INERTIA), what, on_second)

        def on_second(outcome: Outcome) -> None:
            if outcome.ok:
                self._without_inertia = True
                self._warn(
                    f'{what}: the driver refused its inertia {command.inertia} kg m2 and accepted '
                    'mass and centre alone, which are sent from now on: a CB3 robot has no '
                    "payload inertia; on an e-Series see the driver's log"
                )
            on_reply(outcome)

        first = request(_NO_INERTIA if self._without_inertia else command.inertia)
        may_fail = takes_inertia(first) and any(command.inertia) and not self._without_inertia
        self._call(self._set_payload, first, what, on_first if may_fail else on_reply)

    def _call(self, client: Any, request: Any, what: str, on_reply: OnOutcome) -> None:
        if not client.service_is_ready():
            absent = (
                f'{what}: service {client.srv_name} is not there: check that the driver is '
                'running'
            )
            on_reply(Outcome.failed(absent))
            return
        refused = Outcome.failed(
            f'{what}: the driver refused it; check its log, and for an output the pin number'
        )
        client.call_async(request).add_done_callback(
            lambda future: on_reply(DONE if future.result().success else refused)
        )

    def _on_io_states(self, waiting: Sequence[TakenMessage]) -> None:
        self._latest = waiting[-1].data, time.monotonic()

    @property
    def silence(self) -> float:
        """Time since the last io_states [s, steady clock]."""
        return time.monotonic() - self._received

    def _on_tool_data(self, waiting: Sequence[TakenMessage]) -> None:
        self._latest_tool = waiting[-1].data
