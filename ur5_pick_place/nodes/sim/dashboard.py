# SPDX-License-Identifier: Apache-2.0
"""The services of the driver's dashboard client."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_srvs.srv import Trigger
from ur_dashboard_msgs import srv

from ur5_pick_place.sim.dashboard import ACTIONS, PROGRAM, Answer, add_to_log
from ur5_pick_place.sim.driver import Driver

Fill = Callable[[Any, Any], Answer]
"""Takes request and response, fills the response's own fields and returns what is answered."""


def serve_dashboard(node: Node, driver: Driver, lock: Lock, group: CallbackGroup) -> None:
    """Serve `dashboard_client/…`; `lock` is held by whoever touches the driver."""
    dashboard = driver.dashboard

    def serve(kind: type, name: str, fill: Fill) -> None:
        def answer(request: Any, response: Any) -> Any:
            with lock:
                response.success, text = fill(request, response)
            setattr(response, 'message' if kind is Trigger else 'answer', text)
            return response

        node.create_service(kind, f'dashboard_client/{name}', answer, callback_group=group)

    def raw_request(request: Any, response: Any) -> Any:
        with lock:
            response.answer = dashboard.raw_request(request.query)
        return response

    for name in ACTIONS:
        serve(Trigger, name, lambda _q, _r, name=name: dashboard.act(name))  # type: ignore[misc]
    for kind, name, fill in _typed(driver):
        serve(kind, name, fill)
    service = 'dashboard_client/raw_request'
    node.create_service(srv.RawRequest, service, raw_request, callback_group=group)


def _typed(driver: Driver) -> list[tuple[type, str, Fill]]:
    dashboard, robot = driver.dashboard, driver.robot

    def asked(question: str, read: Callable[[Any], None] = lambda response: None) -> Fill:
        def fill(_: Any, response: Any) -> Answer:
            read(response)
            return Answer(True, dashboard.state()[question])

        return fill

    def state(response: Any) -> None:
        response.state.state, response.program_name = robot.program.value, PROGRAM

    def saved(response: Any) -> None:
        response.program_saved, response.program_name = True, PROGRAM

    def version(response: Any) -> None:
        found = response.version
        found.major, found.minor, found.bugfix = dashboard.version

    def remote_control(_: Any, response: Any) -> Answer:
        lacking = dashboard.lacking('remote_control')
        response.remote_control = lacking is None
        return lacking or Answer(True, 'true')

    def user_role(_: Any, response: Any) -> Answer:
        response.user_role.role = dashboard.user_role
        return dashboard.lacking('user_role') or Answer(True, dashboard.user_role)

    def put(field: str, value: Callable[[], Any]) -> Callable[[Any], None]:
        return lambda response: setattr(response, field, value())

    return [
        (
            srv.GetRobotMode,
            'get_robot_mode',
            asked('robotmode', lambda r: setattr(r.robot_mode, 'mode', int(robot.mode))),
        ),
        (
            srv.GetSafetyMode,
            'get_safety_mode',
            asked('safetymode', lambda r: setattr(r.safety_mode, 'mode', int(robot.safety))),
        ),
        (srv.GetProgramState, 'program_state', asked('programstate', state)),
        (
            srv.IsProgramRunning,
            'program_running',
            asked('running', put('program_running', lambda: robot.program_running)),
        ),
        (srv.IsProgramSaved, 'program_saved', asked('issaved', saved)),
        (
            srv.GetLoadedProgram,
            'get_loaded_program',
            asked('get loaded program', put('program_name', lambda: f'/programs/{PROGRAM}')),
        ),
        (srv.GetPolyScopeVersion, 'get_polyscope_version', asked('polyscopeversion', version)),
        (
            srv.GetRobotModel,
            'get_robot_model',
            asked('get robot model', put('robot_model', lambda: dashboard.model)),
        ),
        (srv.GetSerialNumber, 'get_serial_number', asked('get serial number')),
        (srv.Load, 'load_program', lambda q, _: dashboard.load(q.filename)),
        (
            srv.Load,
            'load_installation',
            lambda q, _: Answer(False, f'File not found: {q.filename}'),
        ),
        (srv.Popup, 'popup', lambda q, _: dashboard.show_popup(q.message)),
        (srv.AddToLog, 'add_to_log', lambda q, _: add_to_log(q.message)),
        (srv.IsInRemoteControl, 'is_in_remote_control', remote_control),
        (srv.GetUserRole, 'get_user_role', user_role),
        (srv.SetUserRole, 'set_user_role', lambda q, _: dashboard.set_user_role(q.user_role.role)),
    ]
