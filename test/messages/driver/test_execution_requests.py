# SPDX-License-Identifier: Apache-2.0
"""A motion begins only if nothing has come between its request and its begin."""

import asyncio
from types import SimpleNamespace

import pytest
from moveit_msgs.msg import MoveItErrorCodes
from stop_cell import Anything, Cell, turn

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.nodes.trajectory_planner.goal_run import GoalRun
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
def node() -> SimpleNamespace:
    log = SimpleNamespace(error=lambda _line: None)
    return SimpleNamespace(
        get_logger=lambda: log,
        get_name=lambda: 'planner',
        context=SimpleNamespace(ok=lambda: True),
        in_pool=in_pool,
        finish=lambda future, result: future.set_result(result),
    )


@pytest.fixture
def run(cell: Cell, node: SimpleNamespace) -> GoalRun:
    return GoalRun(node, cell.executor, Goal('a'))


def begin(cell: Cell, is_wanted) -> str:
    """Begin a motion; return why it was refused, or ''."""
    try:
        cell.executor.start(turn(1.0, 8.0), cell.ends.append, is_wanted)
    except Exception as refusal:
        return str(refusal)
    return ''


def test_a_motion_begins_if_nothing_has_come_between(cell, run):
    assert begin(cell, run.is_wanted) == '' and len(cell.port.sent) == 1


def test_a_fault_that_was_rearmed_meanwhile_is_not_forgotten(cell, run):
    """The robot stops while the motion is planned; somebody unlocks and rearms it."""
    cell.status.safety_mode = 3
    cell.run(0.1)
    assert cell.state.startswith('stopped')
    cell.status.safety_mode = 1
    cell.run(0.3)
    assert cell.executor.rearm().ok
    assert 'stopped before it began' in begin(cell, run.is_wanted)
    assert not cell.port.sent


def test_what_was_requested_while_stopped_does_not_begin_with_the_rearm(cell, node):
    cell.executor.stop('stop requested', latch=True)
    cell.run(0.3)
    run = GoalRun(node, cell.executor, Goal('a'))
    assert cell.executor.rearm().ok
    assert 'stopped before it began' in begin(cell, run.is_wanted)
    assert not cell.port.sent


def test_a_cancel_of_a_waiting_goal_leaves_the_other_one_wanted(cell, node):
    first, second = (GoalRun(node, cell.executor, Goal(name)) for name in ('first', 'second'))
    second.cancel()
    assert first.is_wanted() and not second.is_wanted()
    assert begin(cell, first.is_wanted) == ''


def test_a_cancel_while_a_motion_is_being_sent_stops_it(cell, run):
    """rclpy calls the callback of a cancel before the goal says that it is canceled."""

    def send(on_outcome) -> None:
        assert begin(cell, run.is_wanted) == ''
        run.cancel()
        on_outcome(Outcome.failed(cell.executor.motion_state))

    cell.executor.stops = 0
    asyncio.run(run.move(send, lambda state: state))
    assert cell.executor.stops == 1


@pytest.mark.parametrize(
    ('error', 'code'),
    [
        (InvalidInput('no points'), MoveItErrorCodes.INVALID_GOAL_CONSTRAINTS),
        (ZeroDivisionError('unforeseen'), MoveItErrorCodes.FAILURE),
    ],
)
def test_whatever_keeps_a_motion_from_beginning_is_in_the_result(cell, run, error, code):
    """rclpy's own answer to an exception is an empty result, with code 0."""

    def send(_on_outcome):
        raise error

    result = asyncio.run(run.move(send, lambda state: state))
    assert result.val == code and str(error) in result.message and run.goal.end == 'aborted'


def test_a_cancel_just_before_a_motion_begins_is_kept(cell, run):
    run.cancel()
    assert not run.goal.is_cancel_requested  # it says so a moment later
    assert 'stopped before it began' in begin(cell, run.is_wanted)
    assert not cell.port.sent


@pytest.mark.parametrize('who', ['stop', 'cancel'])
@pytest.mark.parametrize('way', ['trajectory', 'loop'])
def test_a_motion_stopped_while_the_gate_looks_at_it_is_refused(node, who, way):
    gate = Anything()
    cell = Cell(gate)
    run, motion = GoalRun(node, cell.executor, Goal('a')), turn(1.0, 8.0)
    stop = {'stop': lambda: cell.executor.stop('canceled', latch=False), 'cancel': run.cancel}
    gate.check = lambda *_: stop[who]()
    with pytest.raises(ExecutionError, match='stopped before it began'):
        if way == 'loop':
            cell.executor.start_loop(lambda _: None, motion, cell.ends.append, run.is_wanted)
        else:
            cell.executor.start(motion, cell.ends.append, run.is_wanted)
    assert cell.state == 'ready' and not cell.port.sent
