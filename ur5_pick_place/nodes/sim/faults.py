# SPDX-License-Identifier: Apache-2.0
"""Services that a simulation alone has: `sim_driver/…`, those that inject faults among them."""

from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from std_srvs.srv import SetBool, Trigger
from ur_msgs.srv import SetIO

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.ros.distro import fill
from ur5_pick_place.sim.driver import Driver
from ur5_pick_place.sim.faults import FaultInjector


def serve_simulation(node: Node, driver: Driver) -> None:
    """Serve every fault, one service that clears them all, and more."""
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
