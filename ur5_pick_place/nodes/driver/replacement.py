# SPDX-License-Identifier: Apache-2.0
"""
Keep the robot's trajectory controller from joining a new trajectory to the running one.

joint_trajectory_controller after 6.9 does so by default: it starts a trajectory whose stamp has
passed at its first point, as if it were new, so that each message of a stream is a step of the
arm by as many cycles as its arrival was predicted wrong. With the parameter set to false, and in
older versions, which do not have it, a trajectory begins at its stamp, whenever it arrives.
"""

from typing import Any

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.client import Client
from rclpy.node import Node

from ur5_pick_place.errors import one_line
from ur5_pick_place.nodes.ros.service_calls import RepeatedCall

SPLICES = 'allow_trajectory_replacement'
"""Parameter of joint_trajectory_controller after 6.9; older ones do not have it."""

# [s, steady clock] between two readings, as someone else may set it; a reply is lost if the
# server does not know this client yet.
_PERIOD = 0.5


class Replacement:
    """
    Reads the controller's parameter again and again, and sets it to false.

    - `why_no_stream`: why the controller cannot follow a stream; empty if it can
    """

    def __init__(self, node: Node, controller: str) -> None:
        self._node, self._controller = node, controller
        get: Client[Any, Any] = node.create_client(
            GetParameters, f'{controller}/get_parameters'
        )
        change: Client[Any, Any] = node.create_client(
            SetParameters, f'{controller}/set_parameters'
        )
        self._get, self._set = RepeatedCall(get, _PERIOD), RepeatedCall(change, _PERIOD)
        self._waiting = (
            f'jogs and closed loops wait for {get.srv_name} to report {SPLICES}: check that '
            'the driver is running and the parameter "controller"'
        )
        self._was_set, self.why_no_stream = False, self._waiting

    def update(self) -> None:
        """Read the parameter if it is time to; to be called repeatedly."""
        if not self._get.is_there:
            self._forget()
            return
        request = GetParameters.Request(names=[SPLICES])
        if self._get.send_if_due(request, self._on_value, _PERIOD):
            self._set.forget()

    def _forget(self) -> None:
        """Begin anew: a controller that is loaded again has the value of its file."""
        self._get.forget()
        self._set.forget()
        self._was_set, self.why_no_stream = False, self._waiting

    def _on_value(self, reply: GetParameters.Response) -> None:
        splices = any(
            value.type == ParameterType.PARAMETER_BOOL and value.bool_value
            for value in reply.values
        )
        if not splices:
            self.why_no_stream, self._was_set = '', False
        elif self._was_set:
            self._refuse('it still reads true after it was set')
        else:
            value = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=False)
            request = SetParameters.Request(parameters=[Parameter(name=SPLICES, value=value)])
            self._set.send(request, self._on_set)

    def _on_set(self, reply: SetParameters.Response) -> None:
        if not (reply.results and reply.results[0].successful):
            self._refuse(one_line(reply.results[0].reason) if reply.results else '')
            return
        self._node.get_logger().info(
            f'{self._controller}: set {SPLICES} to false; jogs and closed loops need it'
        )
        self._was_set = True
        self._get.forget()  # to read it again at once

    def _refuse(self, reason: str) -> None:
        self._was_set = False
        why = (
            f'{self._controller} joins each trajectory of a jog or closed loop to the last one '
            f'with a step, and refuses {SPLICES} = false ({reason or "no reason given"}): set it '
            'to false in the parameter file of the controllers'
        )
        if why != self.why_no_stream:
            self._node.get_logger().error(why)
        self.why_no_stream = why
