# SPDX-License-Identifier: Apache-2.0
"""
Services and command topics of the simulated driver, of its dashboard client too.

Those of trajectories have their own module.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from controller_manager_msgs.msg import ControllerState
from controller_manager_msgs.srv import ListControllers, SwitchController
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.service import Service
from rclpy.task import Future
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from ur_dashboard_msgs import msg, srv
from ur_msgs.srv import SetAnalogOutput, SetIO, SetPayload, SetSpeedSliderFraction

from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.kinematics.transforms import T_BASE_LINK_BASE, Array, inverse_transform
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix
from ur5_pick_place.nodes.ros.distro import fill, payload_of
from ur5_pick_place.nodes.sim.publishers import SYSTEM_DEFAULT
from ur5_pick_place.sim.controllers.controller_manager import (
    FREEDRIVE,
    IO_AND_STATUS,
    PASSTHROUGH,
    POSITION,
    VELOCITY,
    Controller,
)
from ur5_pick_place.sim.controllers.setpoints import ForwardController
from ur5_pick_place.sim.dashboard import ACTIONS, PROGRAM, Answer, Dashboard, add_to_log
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FaultInjector
from ur5_pick_place.sim.io_controller import Request

# What is claimed instead of joints.
_CLAIMS = {
    FREEDRIVE: ('freedrive_mode/async_success', 'freedrive_mode/enable', 'freedrive_mode/abort'),
    PASSTHROUGH: ('trajectory_passthrough/abort', 'trajectory_passthrough/transfer_state'),
}
_QUESTIONS = (
    (srv.GetRobotMode, 'get_robot_mode', 'robotmode'),
    (srv.GetSafetyMode, 'get_safety_mode', 'safetymode'),
    (srv.GetProgramState, 'program_state', 'programstate'),
    (srv.IsProgramRunning, 'program_running', 'running'),
    (srv.IsProgramSaved, 'program_saved', 'issaved'),
    (srv.GetLoadedProgram, 'get_loaded_program', 'get loaded program'),
    (srv.GetPolyScopeVersion, 'get_polyscope_version', 'polyscopeversion'),
    (srv.GetRobotModel, 'get_robot_model', 'get robot model'),
    (srv.GetSerialNumber, 'get_serial_number', 'get serial number'),
)
"""The services that only ask: type, name, and the words of the server's protocol."""


class Services:
    """Services and command topics, except those of trajectories, dashboard and simulations."""

    def __init__(self, node: Node, driver: Driver) -> None:
        self._node, self._driver, self._world = node, driver, driver.world
        self._prefix = driver.tf_prefix
        self._waiting: list[tuple[Request, Future[Any]]] = []
        self._set_io: Service[Any, Any] | None = None
        self._offer_set_io()
        self._offer_io()
        node.create_service(ListControllers, 'controller_manager/list_controllers', self._list)
        node.create_service(SwitchController, 'controller_manager/switch_controller', self._switch)
        for name, controller in ((VELOCITY, driver.velocity), (POSITION, driver.position)):
            forward = through_link(driver, self._forward(controller))
            node.create_subscription(
                Float64MultiArray, f'{name}/commands', forward, SYSTEM_DEFAULT
            )
        freedrive = through_link(driver, self._freedrive, reliable=True)
        node.create_subscription(Bool, f'{FREEDRIVE}/enable_freedrive_mode', freedrive, 10)
        node.create_subscription(PoseStamped, 'sim_driver/place_part', self._place_part, 10)

    def monitor(self) -> None:
        """Reply to the requests that are done; called by the executor."""
        self._offer_set_io()
        for request, future in self._waiting:
            if request.reply is not None:
                future.set_result(request.reply)
        self._waiting = [(r, f) for r, f in self._waiting if not f.done()]

    def _offer_set_io(self) -> None:
        """Create or destroy `set_io`, as the faults require, once no request is waiting."""
        absent, io = self._driver.link.set_io_absent, self._driver.io
        if absent and self._set_io is not None and not self._waiting:
            self._node.destroy_service(self._set_io)
            self._set_io = None
        elif not absent and self._set_io is None:
            answer = self._answer_later(lambda r: io.set_io(r.fun, r.pin, r.state))
            self._set_io = self._node.create_service(SetIO, f'{IO_AND_STATUS}/set_io', answer)

    def _offer_io(self) -> None:
        io = self._driver.io

        def set_analog_output(r: SetAnalogOutput.Request) -> Request:
            return io.set_analog_output(r.data.pin, r.data.domain, r.data.state)

        def set_payload(r: SetPayload.Request) -> Request:
            return io.set_payload(*payload_of(r))

        offered: list[tuple[type, str, Callable[[Any], Request]]] = [
            (SetAnalogOutput, 'set_analog_output', set_analog_output),
            (SetPayload, 'set_payload', set_payload),
            (
                SetSpeedSliderFraction,
                'set_speed_slider',
                lambda r: io.set_speed_slider(r.speed_slider_fraction),
            ),
            (Trigger, 'resend_robot_program', lambda r: io.resend_robot_program()),
            (Trigger, 'hand_back_control', lambda r: io.hand_back_control()),
            (Trigger, 'zero_ftsensor', lambda r: io.zero_ftsensor()),
        ]
        for kind, name, act in offered:
            self._node.create_service(kind, f'{IO_AND_STATUS}/{name}', self._answer_later(act))

    def _answer_later(self, act: Callable[[Any], Request]) -> Callable[[Any, Any], Any]:
        def take(request: Any, future: 'Future[Any]') -> None:
            self._waiting.append((act(request), future))

        async def serve(request: Any, response: Any) -> Any:
            future: Future[Any] = Future()
            link = self._driver.link.to_driver
            link.send(partial(take, request, future), self._driver.time, reliable=True)
            response.success = await future
            return response

        return serve

    def _list(
        self, request: ListControllers.Request, response: ListControllers.Response
    ) -> ListControllers.Response:
        known = self._driver.controllers.controllers.values()
        response.controller = [self._state(controller) for controller in known]
        return response

    def _state(self, controller: Controller) -> ControllerState:
        kind = 'velocity' if controller.name == VELOCITY else 'position'
        interfaces = [f'{joint}/{kind}' for joint in self._driver.joint_names]
        if controller.name in _CLAIMS:
            interfaces = [f'{self._prefix}{name}' for name in _CLAIMS[controller.name]]
        elif not controller.moves:
            interfaces = []
        return ControllerState(
            name=controller.name,
            type=controller.type,
            state='active' if controller.active else 'inactive',
            update_rate=round(1 / self._driver.period),
            required_command_interfaces=interfaces,
            claimed_interfaces=interfaces if controller.active else [],
        )

    def _switch(
        self, request: SwitchController.Request, response: SwitchController.Response
    ) -> SwitchController.Response:
        response.ok, message = self._driver.controllers.switch(
            request.activate_controllers, request.deactivate_controllers, request.strictness
        )
        fill(response, message=message)
        if message:
            self._node.get_logger().warning(one_line(f'switch_controller: {message}'))
        return response

    def _forward(self, controller: ForwardController) -> Callable[[Float64MultiArray], None]:
        def receive(message: Float64MultiArray) -> None:
            try:
                controller.receive(message.data)
            except InvalidInput as error:
                self._node.get_logger().warning(f'command ignored: {error}')

        return receive

    def _freedrive(self, message: Bool) -> None:
        self._driver.freedrive.enable(message.data, self._driver.time)

    def _place_part(self, message: PoseStamped) -> None:
        try:
            T = self._T_world_frame(message.header.frame_id) @ pose_to_matrix(message.pose)
            x, y, z = (float(v) for v in T[:3, 3])
            self._world.place_part(x, y, math.atan2(T[1, 0], T[0, 0]), z)
        except InvalidInput as error:
            self._node.get_logger().error(f'place_part ignored: {error}')

    def _T_world_frame(self, frame_id: str) -> Array:
        """Return a frame of the cell (4, 4) in `world`; an empty name is base_link."""
        T_world_base_link = inverse_transform(self._world.T_base_link_world)
        known = {
            'world': np.eye(4),
            'base_link': T_world_base_link,
            'base': T_world_base_link @ T_BASE_LINK_BASE,
        }
        prefix = self._prefix
        frame = frame_id.lstrip('/').removeprefix(prefix) or 'base_link'
        if frame not in known:
            raise InvalidInput(
                f'frame {frame_id!r}: must be {prefix}base_link, {prefix}base, world, or empty'
            )
        return known[frame]


def serve_simulation(node: Node, driver: Driver) -> None:
    """Serve `sim_driver/…`: every fault, one service that clears them all, and more."""
    faults, world = FaultInjector(driver), driver.world

    def serve(kind: type, name: str, act: Callable[[Any], str]) -> None:
        def answer(request: Any, response: Any) -> Any:
            text = ''
            try:
                text = act(request)
                response.success = True
            except InvalidInput as error:
                text = str(error)
                node.get_logger().error(f'{name} refused: {error}')
            fill(response, message=text)
            return response

        node.create_service(kind, f'sim_driver/{name}', answer)

    def switch(name: str) -> Callable[[SetBool.Request], str]:
        return lambda request: (faults.inject if request.data else faults.clear)(name)

    def switch_input(request: SetIO.Request) -> str:
        driver.io.switch_input(request.pin, bool(request.state))
        return ''

    def protective_stop(_: Trigger.Request) -> str:
        driver.robot.protective_stop()
        return ''

    for name in faults.known:
        serve(SetBool, f'faults/{name}', switch(name))
    serve(Trigger, 'clear_faults', lambda _: faults.clear_all())
    serve(Trigger, 'feed_part', lambda _: world.feed_part())
    serve(Trigger, 'protective_stop', protective_stop)
    serve(SetIO, 'switch_input', switch_input)


def through_link(
    driver: Driver, callback: Callable[[Any], None], reliable: bool = False
) -> Callable[[Any], None]:
    """Return a callback that passes a message through the simulated link to `callback`."""

    def receive(message: Any) -> None:
        driver.link.to_driver.send(partial(callback, message), driver.time, reliable)

    return receive


def serve_dashboard(node: Node, driver: Driver) -> None:
    """Serve `dashboard_client/…`."""
    dashboard = driver.dashboard

    def serve(kind: type, name: str, reply: Callable[[Any], Answer]) -> None:
        def answer(request: Any, response: Any) -> Any:
            response.success, text = reply(request)
            setattr(response, 'message' if kind is Trigger else 'answer', text)
            for field, value in _fields(driver).get(name, {}).items():
                setattr(response, field, value)
            return response

        node.create_service(kind, f'dashboard_client/{name}', answer)

    def acting(name: str) -> Callable[[Any], Answer]:
        return lambda _: dashboard.act(name)

    def asked(words: str) -> Callable[[Any], Answer]:
        return lambda _: Answer(True, dashboard.state()[words])

    def raw_request(request: Any, response: Any) -> Any:
        response.answer = dashboard.raw_request(request.query)
        return response

    for name in ACTIONS:
        serve(Trigger, name, acting(name))
    for kind, name, words in _QUESTIONS:
        serve(kind, name, asked(words))
    for offered in _requests(dashboard):
        serve(*offered)
    node.create_service(srv.RawRequest, 'dashboard_client/raw_request', raw_request)


def _fields(driver: Driver) -> dict[str, dict[str, Any]]:
    """Return the own fields of responses, by the name of the service."""
    dashboard, robot = driver.dashboard, driver.robot
    major, minor, bugfix = dashboard.version
    program = {'program_name': PROGRAM}
    return {
        'get_robot_mode': {'robot_mode': msg.RobotMode(mode=int(robot.mode))},
        'get_safety_mode': {'safety_mode': msg.SafetyMode(mode=int(robot.safety))},
        'program_state': {'state': msg.ProgramState(state=robot.program.value), **program},
        'program_running': {'program_running': robot.program_running},
        'program_saved': {'program_saved': True, **program},
        'get_loaded_program': {'program_name': f'/programs/{PROGRAM}'},
        'get_polyscope_version': {
            'version': msg.VersionInformation(major=major, minor=minor, bugfix=bugfix)
        },
        'get_robot_model': {'robot_model': dashboard.model},
        'is_in_remote_control': {'remote_control': not dashboard.lacking('remote_control')},
        'get_user_role': {'user_role': msg.UserRole(role=dashboard.user_role)},
    }


def _requests(dashboard: Dashboard) -> Iterator[tuple[type, str, Callable[[Any], Answer]]]:
    """Yield the services with arguments, and those that not every PolyScope has."""
    lacking = dashboard.lacking
    yield srv.Load, 'load_program', lambda q: dashboard.load(q.filename)
    yield srv.Load, 'load_installation', lambda q: Answer(False, f'File not found: {q.filename}')
    yield srv.Popup, 'popup', lambda q: dashboard.show_popup(q.message)
    yield srv.AddToLog, 'add_to_log', lambda q: add_to_log(q.message)
    yield srv.IsInRemoteControl, 'is_in_remote_control', lambda _: (
        lacking('remote_control') or Answer(True, 'true')
    )
    yield srv.GetUserRole, 'get_user_role', lambda _: (
        lacking('user_role') or Answer(True, dashboard.user_role)
    )
    yield srv.SetUserRole, 'set_user_role', lambda q: dashboard.set_user_role(q.user_role.role)
