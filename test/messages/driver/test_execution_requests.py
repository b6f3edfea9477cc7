# SPDX-License-Identifier: Apache-2.0
"""A motion begins only if nothing has come between its request and its begin."""

import asyncio
from types import SimpleNamespace

import pytest
from moveit_msgs.msg import MoveItErrorCodes
from stop_cell import Cell, turn

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.trajectory_planner.execution import Execution
from ur5_pick_place.nodes.trajectory_planner.move_action import MoveAction
from ur5_pick_place.outcome import Outcome


class Goal:
    """A goal of an action, as rclpy hands it over."""

    def __init__(self, name: str) -> None:
        self.goal_id = SimpleNamespace(uuid=name.encode().ljust(16))
        self.is_cancel_requested = False
        self.end = ''

    def execute(self) -> None:
        pass

    def publish_feedback(self, _feedback: object) -> None:
        pass

    def abort(self) -> None:
        self.end = 'aborted'

    def canceled(self) -> None:
        self.end = 'canceled'


async def in_pool(work, *arguments):
    return work(*arguments)


@pytest.fixture
def cell() -> Cell:
    return Cell()


@pytest.fixture
def execution(cell: Cell) -> Execution:
    log = SimpleNamespace(error=lambda _line: None)
    context = SimpleNamespace(ok=lambda: True)
    node = SimpleNamespace(
        context=context, get_logger=lambda: log, get_name=lambda: 'planner', in_pool=in_pool
    )
    return Execution(SimpleNamespace(manager=cell.executor), node)


def requested(execution: Execution, name: str = 'a'):
    goal = Goal(name)
    execution.accept(goal)
    return goal, execution.is_wanted(goal)


def begin(cell: Cell, is_wanted) -> str:
    """Begin a motion; return why it was refused, or ''."""
    try:
        cell.executor.start(turn(1.0, 8.0), cell.ends.append, is_wanted)
    except Exception as refusal:
        return str(refusal)
    return ''


def test_a_motion_begins_if_nothing_has_come_between(cell, execution):
    _, is_wanted = requested(execution)
    assert begin(cell, is_wanted) == '' and len(cell.port.sent) == 1


def test_a_fault_that_was_rearmed_meanwhile_is_not_forgotten(cell, execution):
    """The robot stops while the motion is planned; somebody unlocks and rearms it."""
    _, is_wanted = requested(execution)
    cell.status.safety_mode = 3
    cell.run(0.1)
    assert cell.state.startswith('stopped')
    cell.status.safety_mode = 1
    cell.run(0.3)
    assert cell.executor.rearm().ok
    assert 'stopped before it began' in begin(cell, is_wanted)
    assert not cell.port.sent


def test_what_was_requested_while_stopped_does_not_begin_with_the_rearm(cell, execution):
    cell.executor.stop('stop requested', latch=True)
    cell.run(0.3)
    _, is_wanted = requested(execution)
    assert cell.executor.rearm().ok
    assert 'stopped before it began' in begin(cell, is_wanted)
    assert not cell.port.sent


def test_a_cancel_of_a_waiting_goal_leaves_the_other_one_wanted(cell, execution):
    _, is_first_wanted = requested(execution, 'first')
    second, is_second_wanted = requested(execution, 'second')
    execution.cancel(second)
    assert is_first_wanted() and not is_second_wanted()
    assert begin(cell, is_first_wanted) == ''


def test_a_cancel_while_a_motion_is_being_sent_stops_it(cell, execution):
    """rclpy calls the callback of a cancel before the goal says that it is canceled."""
    goal, is_wanted = requested(execution)

    class Arrival:
        def __await__(self):
            yield from ()
            return Outcome.failed(cell.executor.motion_state)

    def send() -> Arrival:
        assert begin(cell, is_wanted) == ''
        execution.cancel(goal)
        return Arrival()

    cell.executor.stops = 0
    asyncio.run(execution.run(goal, send, is_wanted, lambda state: state))
    assert cell.executor.stops == 1


@pytest.mark.parametrize(
    ('error', 'code'),
    [
        (InvalidInput('no points'), MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS),
        (ZeroDivisionError('unforeseen'), MoveItErrorCodes.FAILURE),
    ],
)
def test_whatever_keeps_a_motion_from_beginning_is_in_the_result(cell, execution, error, code):
    """rclpy's own answer to an exception is an empty result, with code 0."""
    goal, is_wanted = requested(execution)

    def send():
        raise error

    result = asyncio.run(execution.run(goal, send, is_wanted, lambda state: state))
    assert result.val == code and str(error) in result.message and goal.end == 'aborted'
    assert not execution._canceled


def test_a_cancel_of_move_action_just_before_its_motion_begins_is_kept(cell, execution):
    action = MoveAction.__new__(MoveAction)  # without the server
    action._execution, action._executing = execution, None
    goal, is_wanted = requested(execution)
    action._on_cancel(goal)
    assert not goal.is_cancel_requested  # it says so a moment later
    assert 'stopped before it began' in begin(cell, is_wanted)
    assert not cell.port.sent
    execution.forget(goal)
    assert is_wanted()  # nothing is kept of a goal that has ended
