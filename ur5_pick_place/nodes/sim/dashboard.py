# SPDX-License-Identifier: Apache-2.0
"""The services of the driver's dashboard client."""

from collections.abc import Callable, Iterator
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger
from ur_dashboard_msgs import msg, srv

from ur5_pick_place.sim.dashboard import ACTIONS, PROGRAM, Answer, Dashboard, add_to_log
from ur5_pick_place.sim.driver import Driver

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
