# SPDX-License-Identifier: Apache-2.0
"""The process of a node: one instance only, a clean end, and a clear message when refused."""

import gc
import hashlib
import itertools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import rclpy
import rclpy.utilities
from rclpy.exceptions import ParameterException
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock

from ur5_pick_place.config_files import (
    check_types,
    parse_yaml,
    read_bytes,
    read_yaml,
    user_path,
)
from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError, one_line
from ur5_pick_place.nodes.ros.distro import count_servers, resolved_name
from ur5_pick_place.nodes.ros.environment import prepare_environment
from ur5_pick_place.nodes.ros.executor import LockedExecutor, SerialNode
from ur5_pick_place.nodes.ros.service_calls import steady_timer
from ur5_pick_place.terminal import ending_signals

_DISCOVERY = 1.0  # [s] within which servers of other nodes are usually discovered
_LATE_DISCOVERY = 10  # [s] within which they are discovered on a busy machine too
_SPIN_TIMEOUT = 0.05  # [s] between two looks whether the node has come to rest
# [s] for which a running plan may hold the interpreter at each of the clean-up's hundred steps
_SWITCH_INTERVAL = 1e-4
_LEASE = 5.0  # [s] for which servers of a killed node may still be listed


def run_node(create: Callable[[], SerialNode]) -> None:
    """
    Create a node, spin it, and end cleanly on SIGINT, SIGTERM, SIGHUP or a user error.

    A node that refuses its parameters exits with 2 and one line on stderr. One that has a
    `come_to_rest` is spun after the signal for as long as that yields.
    """
    node: SerialNode | None = None
    code = 0
    signals = _FirstSignal()
    try:
        start_ros()
        if words := rclpy.utilities.remove_ros_args()[1:]:
            raise InvalidInput(f'{" ".join(words)}: give what is meant for ROS after --ros-args')
        node = create()
        _poll_clock(node)
        executor = LockedExecutor(node)
        _keep_what_is_loaded()
        with node.reader.running(executor.fail):
            signals.end_a_wait_of(executor)
            while not signals.is_received:
                executor.spin_once()
            for _ in getattr(node, 'come_to_rest', tuple)():
                executor.spin_once(timeout_sec=_SPIN_TIMEOUT)
            rclpy.try_shutdown()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except (Ur5PickPlaceError, ParameterException) as error:
        print(f'refused to start: {one_line(error)}', file=sys.stderr)
        code = 2
        if node is None:
            # Half made, it has no servers yet. On a busy machine rclpy's destruction of a new node
            # crashed one time in forty.
            _exit_now(code)
    except Exception:
        # rclpy's C++ may turn the interrupt of a signal into another exception.
        if rclpy.ok() and not signals.is_received:
            raise
    finally:
        signals.is_received = True  # a second Ctrl-C must not cut the clean-up
        sys.setswitchinterval(_SWITCH_INTERVAL)
        if node is not None and node.reader.is_running:
            _exit_now(code)  # entities must not be destroyed during a poll
        if node is not None:
            node.destroy_node()
        if node is not None and node.is_working:
            _exit_now(code)
        rclpy.try_shutdown()
        signals.ignore()
    sys.exit(code)


def _keep_what_is_loaded() -> None:
    """
    Exempt all present objects from Python's collection of garbage, which stops every thread.

    With NumPy, SciPy and the messages loaded, a full collection took 100 to 190 ms, in which no
    stop was obeyed. It came with a large message, such as the first goal.
    """
    gc.freeze()
    gc.enable()


class _FirstSignal:
    """
    Interrupts the main thread on the first SIGINT, SIGTERM or SIGHUP; ignores later ones.

    - `is_received`: whether a signal was received; may be set
    """

    def __init__(self) -> None:
        self.is_received, self._is_raised = False, True
        self._numbers = ending_signals(signal.SIGINT, signal.SIGTERM)
        for number in self._numbers:
            signal.signal(number, self._interrupt)

    def end_a_wait_of(self, executor: LockedExecutor) -> None:
        """Have the first signal from now on end the executor's wait instead of interrupting."""
        received, written = os.pipe()  # Python's own handlers wait for the end of that wait
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written)

        def wake() -> None:
            os.read(received, 1)
            executor.create_task(lambda: None)

        threading.Thread(target=wake, daemon=True).start()
        self._is_raised = False

    def ignore(self) -> None:
        """Ignore all of them: at its end Python would restore the system's handlers."""
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)

    def _interrupt(self, *_: Any) -> None:
        if not self.is_received:
            self.is_received = True
            if self._is_raised:
                raise KeyboardInterrupt


def _poll_clock(node: SerialNode) -> None:
    """Poll /clock, and drop negative time, on which rclpy would raise."""
    for subscription in node.subscriptions:
        if subscription.msg_type is Clock:
            receive = subscription.callback
            subscription.callback = lambda m, receive=receive: (
                receive(m) if m.clock.sec >= 0 else None
            )
            node.reader.take_over(subscription)


def _exit_now(code: int) -> NoReturn:
    """Exit at once: Python would wait for every thread, even for a plan no longer needed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def start_ros() -> None:
    """
    Start rclpy, which does not shut down on signals: its user does, once the arm is at rest.

    Raises `InvalidInput`: the ROS arguments, or a parameter file that they name, cannot be read; a
    file gives a parameter twice, or one that `check_types` refuses; or as `init_ros`.
    """
    for i, option in enumerate(sys.argv[:-1]):
        if option == '--params-file':
            sys.argv[i + 1] = str(user_path(sys.argv[i + 1]))
    pairs = list(itertools.pairwise(sys.argv))
    files = [file for option, file in pairs if option == '--params-file' and os.path.exists(file)]
    try:
        for file in files:
            read_bytes(file)  # refuses a pipe, which rcl would block on
    except OSError as error:
        raise InvalidInput(f'--params-file: {error}') from error
    init_ros(signal_handler_options=SignalHandlerOptions.NO)
    check_types(itertools.chain.from_iterable(itertools.starmap(_given, pairs)))


def _given(option: str, value: str) -> Iterator[tuple[str, Any]]:
    """Yield name and content of what an argument gives in parameters, if it gives any."""
    if option == '--params-file':
        yield value, read_yaml(value, 'parameter file')
    elif option in ('-p', '--param'):
        name, _, text = value.partition(':=')
        node, _, name = name.rpartition(':')
        yield option, {node or '/**': {'ros__parameters': {name: parse_yaml(text.encode())}}}


def init_ros(**options: Any) -> None:
    """
    Call `rclpy.init` in an environment that was checked.

    Raises `InvalidInput`: as `prepare_environment`, or rcl's own error with its cure.
    """
    prepare_environment(options.get('domain_id'))
    try:
        rclpy.init(**options)
    except (RuntimeError, ValueError) as error:  # rcl's own classes are not public
        text = ' '.join(str(error).partition(', at /')[0].split())  # without rcl's lines of C
        if 'log directory' in text:
            raise InvalidInput(f'{text}: set ROS_LOG_DIR to a folder that exists') from error
        hint = '; in a list with fractions write 0.0 for 0' if 'same type' in text else ''
        raise InvalidInput(f'--ros-args: {text}{hint}') from error


def refuse_if_served(node: Node, names: Sequence[str]) -> None:
    """
    Refuse to start beside another server of one of this node's names.

    Two servers of one service both reply, so that a running move_group, for example, would plan
    and move instead of this node. Call before creating the servers. A server that is discovered
    late ends the node from within its executor. Of two nodes started together on this machine the
    first one stays; on two machines both may end.

    Raises `Ur5PickPlaceError`: names the service.
    """
    _reserve(node, names[0])
    time.sleep(_DISCOVERY)
    deadline = time.monotonic() + _LEASE
    while served := [name for name in names if count_servers(node, name)]:
        if time.monotonic() > deadline:
            raise _refusal(node, served[0])
        time.sleep(0.2)
    _watch_for_late_ones(node, names)


def _reserve(node: Node, service: str) -> None:
    """Take the name of a socket that only one server of a service on this machine can have."""
    key = f'{node.context.get_domain_id()} {resolved_name(node, service)}'
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # ends with the process
    try:
        name.bind(f'\0ur5_pick_place.node.{hashlib.sha256(key.encode()).hexdigest()}')
    except OSError as error:
        name.close()
        raise _refusal(node, service) from error
    node.context.on_shutdown(partial(name.close))  # it would keep a bare method weakly


def _watch_for_late_ones(node: Node, names: Sequence[str]) -> None:
    checks = iter(range(_LATE_DISCOVERY))

    def check() -> None:
        for name in names:
            if count_servers(node, name) > 1:  # one is ours
                raise _refusal(node, name)
        if next(checks, None) is None:
            node.destroy_timer(timer)

    timer = steady_timer(node, 1.0, check)


def _refusal(node: Node, name: str) -> Ur5PickPlaceError:
    return Ur5PickPlaceError(
        f'{resolved_name(node, name)} is already offered by another node (see `ros2 node list`): '
        'stop that, remap the name, or start this one in another namespace'
    )
