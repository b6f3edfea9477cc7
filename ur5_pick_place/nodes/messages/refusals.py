# SPDX-License-Identifier: Apache-2.0
"""Why a request failed, as text, code and log line; no error of a request ends a node."""

import traceback

from moveit_msgs.msg import MoveItErrorCodes
from rclpy.node import Node

from ur5_pick_place.errors import Ur5PickPlaceError, one_line
from ur5_pick_place.nodes.messages.conversions import code_with_message, error_code


def reason_of(node: Node, error: Exception) -> str:
    """Return why a request failed; log an error that is this package's own with its traceback."""
    if isinstance(error, Ur5PickPlaceError):
        return str(error)
    if not node.context.ok():  # whatever the end of the process has broken off
        return f'{node.get_name()} is ending'
    lines = (f'  {one_line(line)}' for line in traceback.format_exc().splitlines())
    node.get_logger().error('\n'.join(['a request failed with an internal error:', *lines]))
    return (
        f'error of this package, {type(error).__name__}: {one_line(error)}; please report it '
        f'with the request and the log of {node.get_name()}'
    )


def refusal(node: Node, error: Exception) -> MoveItErrorCodes:
    """Return the code of a request that failed; see `reason_of`."""
    if isinstance(error, Ur5PickPlaceError):
        return error_code(error)
    return code_with_message(MoveItErrorCodes.FAILURE, reason_of(node, error))
