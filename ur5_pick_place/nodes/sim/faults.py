# SPDX-License-Identifier: Apache-2.0
"""Services that inject faults into the simulated cell: `sim_driver/faults/…`."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.sim.fault_injector import FaultInjector


def serve_faults(node: Node, faults: FaultInjector, lock: Lock, group: CallbackGroup) -> None:
    """Serve every fault, and one service that clears them all; `lock` guards the driver."""

    def serve(kind: type, name: str, act: Callable[[Any], str]) -> None:
        def answer(request: Any, response: Any) -> Any:
            try:
                with lock:
                    response.message = act(request)
                response.success = True
            except InvalidInput as error:
                response.success, response.message = False, str(error)
            return response

        node.create_service(kind, f'sim_driver/{name}', answer, callback_group=group)

    def switch(name: str) -> Callable[[SetBool.Request], str]:
        return lambda request: (faults.inject if request.data else faults.clear)(name)

    for name in faults.known:
        serve(SetBool, f'faults/{name}', switch(name))
    serve(Trigger, 'clear_faults', lambda request: faults.clear_all())
