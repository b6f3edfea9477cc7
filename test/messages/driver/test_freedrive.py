# SPDX-License-Identifier: Apache-2.0
"""Which controllers freedrive switches, with the program on the robot running and robot."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from fake_graph import FakeManager, Graph
from rclpy.task import Future
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from ur5_pick_place.errors import ExecutionError
from ur5_pick_place.nodes.driver.controller_manager import ControllerManager
from ur5_pick_place.nodes.driver.driver_link import PROGRAM_RUNNING
from ur5_pick_place.nodes.pick_place.freedrive import Freedrive, State
from ur5_pick_place.nodes.ros.qos import LATCHED
from ur5_pick_place.outcome import DONE, OnOutcome

OURS, FREEDRIVE = 'scaled_joint_trajectory_controller', 'freedrive_mode_controller'
ENABLE = f'{FREEDRIVE}/enable_freedrive_mode'


def no_job(_name: str, _steps: object, on_end: OnOutcome) -> None:
    on_end(DONE)


class Robot(FakeManager):
    """A controller manager that has one active controller at most, and freedrive above it."""

    def __init__(self, graph: Graph, checks_modes: bool) -> None:
        super().__init__(graph, OURS, FREEDRIVE, is_exclusive=True)
        self.until, self.spin, self.executor = graph.until, graph.spin, graph.executor
        self.known: list[bool] = []
        self.program = self.node.create_publisher(Bool, PROGRAM_RUNNING, LATCHED)
        self.machine = SimpleNamespace(
            is_in_freedrive=False, stop_reason='', stops=0, start=no_job
        )
        controllers = ControllerManager(graph.node)
        station = SimpleNamespace(
            machine=self.machine,
            port=SimpleNamespace(why_not_ready=''),
            run=SimpleNamespace(confirm_payload=lambda: iter(())),
            emit=lambda *_args, **_fields: None,
        )
        self.freedrive = Freedrive(
            SimpleNamespace(node=graph.node, robot=SimpleNamespace(controller=OURS)),
            controllers,
            station,
            checks_modes,
            lambda: self.known.append(self.freedrive.is_on),
        )
        self.asks = self.node.create_client(SetBool, f'{graph.node.get_name()}/freedrive')
        self.until(lambda: controllers.is_there and self.asks.service_is_ready())

    def switch(self, is_on: bool) -> None:
        task = self.executor.create_task(self.freedrive.switch, is_on)
        self.until(task.done)
        task.result()

    def serve(self, is_on: bool) -> Future:
        request = SetBool.Request(data=is_on)
        return self.asks.call_async(request)

    def tell(self, runs: bool) -> None:
        """Publish whether the program runs, as the driver does."""
        self.program.publish(Bool(data=runs))
        self.spin(0.1)

    def tick(self, planner: str) -> None:
        """Let the task node tick with that state of the planner."""
        self.freedrive.on_tick(planner.startswith('stopped'), bool(planner))

    def find_out(self) -> None:
        """Let the node look which controller is active, as it does at its start."""
        self.until(lambda: self.asked)
        self.spin(0.1)

    def enable_until(self, is_so: Callable[[], object]) -> None:
        """Let another client enable freedrive again and again."""
        other = self.node.create_publisher(Bool, ENABLE, 10)
        self.until(other.get_subscription_count)
        self.until(lambda: other.publish(Bool(data=True)) or is_so())

    def let_another_client_begin(self) -> None:
        self.find_out()
        self.active = {FREEDRIVE}
        self.enable_until(lambda: self.freedrive.is_on)


@pytest.fixture
def begun(graph: Graph) -> Iterator[Callable[..., Robot]]:
    with ExitStack() as polled:

        def begin(checks_modes: bool = True) -> Robot:
            robot = Robot(graph, checks_modes)
            polled.enter_context(graph.node.reader.running(pytest.fail))
            return robot

        yield begin


@pytest.fixture
def robot(begun: Callable[..., Robot]) -> Robot:
    """Give a robot in freedrive whose program was stopped meanwhile."""
    robot = begun()
    robot.tell(True)
    robot.switch(True)
    robot.tell(False)
    return robot


@pytest.mark.parametrize('checks_modes', [True, False])
def test_freedrive_ends_in_the_trajectory_controller_while_the_program_runs(begun, checks_modes):
    robot = begun(checks_modes)
    if checks_modes:
        robot.tell(True)  # mock hardware of older drivers never tells
    robot.switch(True)
    assert robot.active == {FREEDRIVE}
    robot.switch(False)
    assert robot.active == {OURS} and len(robot.switched) == 2


def test_freedrive_that_ends_with_the_program_stopped_leaves_the_arm_to_the_pendant(robot):
    robot.switch(False)
    assert robot.switched[1:] == [([], [FREEDRIVE])]
    robot.spin(1.0)
    assert robot.active == set(), 'it would hold the joints from before the pendant moved the arm'
    robot.tell(True)
    robot.until(lambda: robot.active == {OURS})
    robot.spin(1.0)
    assert robot.switched[2:] == [([OURS], [])], 'once'


def test_freedrive_that_the_driver_reactivates_with_the_program_is_replaced(robot):
    """The driver deactivates what is active when the program stops, and activates that again."""
    robot.active = set()
    robot.switch(False)
    assert len(robot.switched) == 1
    robot.active = {FREEDRIVE}
    robot.tell(True)
    robot.until(lambda: robot.active == {OURS})
    assert robot.switched[1:] == [([OURS], [FREEDRIVE])]
    robot.until(lambda: robot.known[-1:] == [False])


def test_a_driver_that_tells_nothing_of_its_program_has_none_running(begun):
    robot = begun()
    robot.active = {FREEDRIVE}  # of an earlier run
    robot.switch(False)
    assert robot.active == set()
    robot.tell(True)
    robot.until(lambda: robot.active == {OURS})


def test_a_switch_that_fails_is_named_and_tried_again_at_play(robot):
    robot.switch(False)
    robot.active = {'another'}
    robot.tell(True)
    robot.spin(1.0)
    assert robot.active == {'another'}
    with pytest.raises(ExecutionError, match=f'did not switch to {OURS}'):
        robot.switch(False)
    robot.active = set()
    robot.until(lambda: robot.active == {OURS})


def test_freedrive_of_another_client_is_noticed_and_so_is_its_end(begun):
    robot = begun()
    robot.tell(True)
    robot.let_another_client_begin()
    assert robot.known == [True] and robot.freedrive.state is State.ON
    robot.active = {OURS}
    robot.until(lambda: not robot.freedrive.is_on)
    assert robot.known == [True, False] and not robot.switched


def test_freedrive_that_is_enabled_without_its_controller_is_none(begun):
    robot = begun()
    robot.find_out()
    end = time.monotonic() + 1.0
    robot.enable_until(lambda: time.monotonic() > end)
    assert not robot.freedrive.is_on and not robot.known


def test_freedrive_that_this_node_keeps_on_ends_when_another_client_takes_the_arm(begun, capfd):
    robot, enabled = begun(), []
    robot.node.create_subscription(Bool, ENABLE, enabled.append, 10)
    robot.tell(True)
    robot.switch(True)
    robot.until(lambda: len(enabled) > 2)
    assert robot.freedrive.state is State.KEPT_ON
    robot.active = {'forward_velocity_controller'}
    robot.until(lambda: not robot.freedrive.is_on, 2.0)
    assert robot.known == [True, False]
    assert f'freedrive has ended: {FREEDRIVE} is no longer active' in capfd.readouterr().err
    robot.spin(0.5)
    enabled.clear()
    robot.spin(1.0)
    assert not enabled and robot.active == {'forward_velocity_controller'}


def test_a_list_of_controllers_from_before_a_switch_does_not_end_freedrive(begun, capfd):
    robot = begun()
    robot.tell(True)
    robot.find_out()
    asked, robot.late = robot.asked, (old := Future())
    robot.enable_until(lambda: robot.asked > asked)
    robot.late = None
    robot.switch(True)
    old.set_result(None)
    robot.spin(1.0)
    assert robot.freedrive.state is State.KEPT_ON and robot.known == [True]
    assert 'freedrive has ended' not in capfd.readouterr().err


def test_freedrive_that_ends_with_the_program_before_its_stop_is_replaced_at_play(robot):
    """The node finds the controller inactive before the planner tells it of a stop."""
    robot.active = set()
    robot.until(lambda: not robot.freedrive.is_on)
    robot.active = {FREEDRIVE}
    robot.tell(True)
    robot.until(lambda: robot.active == {OURS})


def test_a_stop_of_the_planner_ends_freedrive_of_another_client_too(begun):
    robot = begun()
    robot.tell(True)
    robot.tick('ready')
    robot.let_another_client_begin()
    robot.tick('ready')
    assert robot.machine.is_in_freedrive
    robot.tick('stopped: stop requested')
    robot.until(lambda: robot.active == {OURS})
    robot.until(lambda: not robot.machine.is_in_freedrive)
    robot.let_another_client_begin()  # to guide the arm away: the stop was obeyed
    for _ in range(10):
        robot.tick('stopped: stop requested')
        robot.spin(0.05)
    assert robot.active == {FREEDRIVE} and robot.machine.is_in_freedrive
    robot.tick('ready')
    robot.tick('stopped: foreign motion')
    robot.until(lambda: robot.active == {OURS})


def test_freedrive_that_is_found_after_a_restart_is_left_to_the_user(begun):
    """The planner has latched the death of this node before."""
    robot = begun()
    robot.tell(True)
    robot.tick('')
    robot.let_another_client_begin()
    for _ in range(10):
        robot.tick('stopped: the node pick_place has died')
        robot.spin(0.05)
    assert robot.active == {FREEDRIVE} and robot.machine.is_in_freedrive
    robot.switch(False)
    assert robot.active == {OURS}


def test_freedrive_is_not_entered_once_it_was_switched_off_meanwhile(begun):
    """Two clients, or one that is quick: entering waits for the payload before it switches."""
    robot, confirmed = begun(), []
    robot.tell(True)
    robot.machine.start = lambda _name, _steps, on_end: confirmed.append(on_end)
    served = [robot.serve(True)]
    robot.until(lambda: confirmed)
    served.append(robot.serve(False))
    robot.until(served[1].done)
    confirmed[0](DONE)
    robot.until(served[0].done)
    on, off = (one.result() for one in served)
    assert off.success and not on.success and 'switched off meanwhile' in on.message
    assert robot.active == {OURS} and not robot.switched and not robot.freedrive.is_on
