# SPDX-License-Identifier: Apache-2.0
"""How the robot's trajectory controller replaces a running trajectory."""

import time
from typing import Any

from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.callback_groups import CallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

SPLICES = 'allow_trajectory_replacement'
"""Parameter of joint_trajectory_controller after 6.9; older ones do not have it."""


_RETRY_PERIOD = 1.0  # [s]; a reply is lost if the server does not know this client yet


class Replacement:
    """
    Requests from the controller, each time it appears, whether it splices trajectories.

    Parameters
    ----------
    node : Node
    controller : str
    group : CallbackGroup

    Attributes
    ----------
    splices : bool
        False until the controller has replied.

    """

    def __init__(self, node: Node, controller: str, group: CallbackGroup) -> None:
        self.splices = False
        self._is_known, self._last_request = False, float('-inf')
        self._client: Client[Any, Any] = node.create_client(
            GetParameters, f'{controller}/get_parameters', callback_group=group
        )

    def request_if_new(self) -> None:
        """Send a request if the controller has appeared since the last call."""
        if not self._client.service_is_ready():
            self._is_known, self._last_request = False, float('-inf')
        elif not self._is_known and time.monotonic() - self._last_request > _RETRY_PERIOD:
            self._last_request = time.monotonic()
            request = self._client.call_async(GetParameters.Request(names=[SPLICES]))
            request.add_done_callback(self._on_reply)

    def _on_reply(self, future: 'Future[Any]') -> None:
        reply: Any = future.result()
        self._is_known = True
        self.splices = any(
            value.type == ParameterType.PARAMETER_BOOL and value.bool_value
            for value in (reply.values if reply else ())
        )
