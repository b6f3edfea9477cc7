# SPDX-License-Identifier: Apache-2.0
"""The services of the driver's dashboard client."""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger
from ur_dashboard_msgs import srv

from ur5_pick_place.sim.dashboard import ACTIONS, PROGRAM, Answer, add_to_log
from ur5_pick_place.sim.driver import Driver

Fill = Callable[[Any, Any], Answer]
"""Takes request and response, fills the response's own fields and returns what is answered."""


def serve_dashboard(node: Node, driver: Driver) -> None:
    """Serve `dashboard_client/…`."""
    dashboard = driver.dashboard

    def serve(kind: type, name: str, fill: Fill) -> None:
        def answer(request: Any, response: Any) -> Any:
            response.success, text = fill(request, response)
            setattr(response, 'message' if kind is Trigger else 'answer', text)
            return response

        node.create_service(kind, f'dashboard_client/{name}', answer)

    def raw_request(request: Any, response: Any) -> Any:
        response.answer = dashboard.raw_request(request.query)
        return response

    for name in ACTIONS:
        serve(Trigger, name, lambda _q, _r, name=name: dashboard.act(name))  # type: ignore[misc]
    for kind, name, fill in (*_questions(driver), *_requests(driver)):
        serve(kind, name, fill)
    node.create_service(srv.RawRequest, 'dashboard_client/raw_request', raw_request)


def _questions(driver: Driver) -> list[tuple[type, str, Fill]]:
    """List the services that only ask: type, name, and how their responses are filled."""
    dashboard, robot = driver.dashboard, driver.robot

    def asked(question: str, **read: Callable[[], Any]) -> Fill:
        """Fill the fields of a response; `a__b` is field b of field a."""

        def fill(_: Any, response: Any) -> Answer:
            for path, value in read.items():
                *outer, field = path.split('__')
                setattr(getattr(response, outer[0]) if outer else response, field, value())
            return Answer(True, dashboard.state()[question])

        return fill

    def program() -> str:
        return PROGRAM

    mode = asked('robotmode', robot_mode__mode=lambda: int(robot.mode))
    safety = asked('safetymode', safety_mode__mode=lambda: int(robot.safety))
    state = asked(
        'programstate', state__state=lambda: robot.program.value, program_name=program
    )
    running = asked('running', program_running=lambda: robot.program_running)
    saved = asked('issaved', program_saved=lambda: True, program_name=program)
    loaded = asked('get loaded program', program_name=lambda: f'/programs/{PROGRAM}')
    version = asked(
        'polyscopeversion',
        version__major=lambda: dashboard.version[0],
        version__minor=lambda: dashboard.version[1],
        version__bugfix=lambda: dashboard.version[2],
    )
    return [
        (srv.GetRobotMode, 'get_robot_mode', mode),
        (srv.GetSafetyMode, 'get_safety_mode', safety),
        (srv.GetProgramState, 'program_state', state),
        (srv.IsProgramRunning, 'program_running', running),
        (srv.IsProgramSaved, 'program_saved', saved),
        (srv.GetLoadedProgram, 'get_loaded_program', loaded),
        (srv.GetPolyScopeVersion, 'get_polyscope_version', version),
        (
            srv.GetRobotModel,
            'get_robot_model',
            asked('get robot model', robot_model=lambda: dashboard.model),
        ),
        (srv.GetSerialNumber, 'get_serial_number', asked('get serial number')),
    ]


def _requests(driver: Driver) -> list[tuple[type, str, Fill]]:
    """List the services with arguments, and those that not every PolyScope has."""
    dashboard = driver.dashboard

    def remote_control(_: Any, response: Any) -> Answer:
        lacking = dashboard.lacking('remote_control')
        response.remote_control = lacking is None
        return lacking or Answer(True, 'true')

    def user_role(_: Any, response: Any) -> Answer:
        response.user_role.role = dashboard.user_role
        return dashboard.lacking('user_role') or Answer(True, dashboard.user_role)

    def no_installation(request: Any, _: Any) -> Answer:
        return Answer(False, f'File not found: {request.filename}')

    return [
        (srv.Load, 'load_program', lambda q, _: dashboard.load(q.filename)),
        (srv.Load, 'load_installation', no_installation),
        (srv.Popup, 'popup', lambda q, _: dashboard.show_popup(q.message)),
        (srv.AddToLog, 'add_to_log', lambda q, _: add_to_log(q.message)),
        (srv.IsInRemoteControl, 'is_in_remote_control', remote_control),
        (srv.GetUserRole, 'get_user_role', user_role),
        (srv.SetUserRole, 'set_user_role', lambda q, _: dashboard.set_user_role(q.user_role.role)),
    ]
