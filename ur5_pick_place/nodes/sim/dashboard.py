# SPDX-License-Identifier: Apache-2.0
"""The services of the driver's dashboard client."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger
from ur_dashboard_msgs import srv

from ur5_pick_place.sim.dashboard import PROGRAM, Answer, Dashboard
from ur5_pick_place.sim.driver import Driver


class DashboardServices:
    """
    The services `dashboard_client/…`.

    Parameters
    ----------
    lock : Lock
        Held by whoever touches the driver.

    """

    def __init__(self, node: Node, driver: Driver, lock: Lock, group: CallbackGroup) -> None:
        self._driver, self._lock = driver, lock
        self._dashboard = driver.dashboard

        def serve(kind: type, name: str, fill: Callable[[Any, Any], None]) -> None:
            def answer(request: Any, response: Any) -> Any:
                with lock:
                    fill(request, response)
                return response

            node.create_service(kind, f'dashboard_client/{name}', answer, callback_group=group)

        for name, act in _commands(self._dashboard).items():
            serve(Trigger, name, _plain(act))
        for kind, name, fill in self._typed():
            serve(kind, name, fill)

    def _typed(self) -> list[tuple[type, str, Callable[[Any, Any], None]]]:
        dashboard = self._dashboard
        return [
            (srv.GetRobotMode, 'get_robot_mode', self._robot_mode),
            (srv.GetSafetyMode, 'get_safety_mode', self._safety_mode),
            (srv.GetProgramState, 'program_state', self._program_state),
            (srv.IsProgramRunning, 'program_running', self._program_running),
            (srv.IsProgramSaved, 'program_saved', self._program_saved),
            (srv.GetLoadedProgram, 'get_loaded_program', self._loaded_program),
            (srv.Load, 'load_program', _handler(lambda r: dashboard.load_program(r.filename))),
            (srv.Load, 'load_installation', _handler(lambda r: _no_file(r.filename))),
            (srv.Popup, 'popup', _handler(lambda r: dashboard.popup(r.message))),
            (srv.AddToLog, 'add_to_log', _handler(lambda r: dashboard.add_to_log(r.message))),
            (srv.RawRequest, 'raw_request', self._raw_request),
            (srv.GetPolyScopeVersion, 'get_polyscope_version', self._version),
            (srv.GetRobotModel, 'get_robot_model', self._model),
            (srv.GetSerialNumber, 'get_serial_number', self._serial_number),
            (srv.IsInRemoteControl, 'is_in_remote_control', self._remote_control),
            (srv.GetUserRole, 'get_user_role', self._user_role),
            (srv.SetUserRole, 'set_user_role', self._set_user_role),
        ]

    def _robot_mode(self, _: Any, response: Any) -> None:
        response.robot_mode.mode = int(self._driver.robot.mode)
        _fill(response, self._dashboard.robotmode())

    def _safety_mode(self, _: Any, response: Any) -> None:
        response.safety_mode.mode = int(self._driver.robot.safety)
        _fill(response, self._dashboard.safetymode())

    def _program_state(self, _: Any, response: Any) -> None:
        response.state.state = self._driver.robot.program.value
        response.program_name = PROGRAM
        _fill(response, self._dashboard.program_state())

    def _program_running(self, _: Any, response: Any) -> None:
        response.program_running = self._driver.robot.program_running
        _fill(response, self._dashboard.running())

    def _program_saved(self, _: Any, response: Any) -> None:
        response.program_saved, response.program_name = True, PROGRAM
        _fill(response, Answer(True, f'true {PROGRAM}'))

    def _loaded_program(self, _: Any, response: Any) -> None:
        response.program_name = f'/programs/{PROGRAM}'
        _fill(response, self._dashboard.get_loaded_program())

    def _raw_request(self, request: Any, response: Any) -> None:
        response.answer = self._dashboard.raw_request(request.query)

    def _version(self, _: Any, response: Any) -> None:
        version = response.version
        version.major, version.minor, version.bugfix = self._dashboard.version
        _fill(response, self._dashboard.polyscope_version())

    def _model(self, _: Any, response: Any) -> None:
        answer = self._dashboard.get_robot_model()
        response.robot_model = answer.text
        _fill(response, answer)

    def _serial_number(self, _: Any, response: Any) -> None:
        _fill(response, Answer(True, '0'))

    def _remote_control(self, _: Any, response: Any) -> None:
        answer = self._dashboard.is_in_remote_control()
        response.remote_control = answer.success
        _fill(response, answer)

    def _user_role(self, _: Any, response: Any) -> None:
        response.user_role.role = self._dashboard.user_role
        _fill(response, self._dashboard.get_user_role())

    def _set_user_role(self, request: Any, response: Any) -> None:
        _fill(response, self._dashboard.set_user_role(request.user_role.role))


def _commands(dashboard: Dashboard) -> dict[str, Callable[[], Answer]]:
    return {
        'power_on': dashboard.power_on,
        'power_off': dashboard.power_off,
        'brake_release': dashboard.brake_release,
        'play': dashboard.play,
        'pause': dashboard.pause,
        'stop': dashboard.stop,
        'unlock_protective_stop': dashboard.unlock_protective_stop,
        'close_popup': dashboard.close_popup,
        'close_safety_popup': dashboard.close_safety_popup,
        'restart_safety': dashboard.restart_safety,
        'shutdown': dashboard.power_off,
        'connect': lambda: Answer(True, 'Connected: Universal Robots Dashboard Server'),
        'quit': lambda: Answer(True, 'Disconnected'),
        'clear_operational_mode': dashboard.clear_operational_mode,
        'resume': dashboard.resume,
    }


def _no_file(name: str) -> Answer:
    return Answer(False, f'File not found: {name}')


def _handler(act: Callable[[Any], Answer]) -> Callable[[Any, Any], None]:
    return lambda request, response: _fill(response, act(request))


def _plain(act: Callable[[], Answer]) -> Callable[[Any, Trigger.Response], None]:
    def fill(_: Any, response: Trigger.Response) -> None:
        response.success, response.message = act()

    return fill


def _fill(response: Any, answer: Answer) -> None:
    response.success, response.answer = answer
