# SPDX-License-Identifier: Apache-2.0
"""What a position of the action `gripper_command` does, and what its result says."""

import asyncio
import math
from types import SimpleNamespace

import numpy as np
import pytest
from control_msgs.action import GripperCommand

from ur5_pick_place.nodes.pick_place import gripper_command
from ur5_pick_place.nodes.pick_place.settings import GripperChoice
from ur5_pick_place.outcome import DONE, Outcome
from ur5_pick_place.task.grippers.action import ActionGripper, ActionSettings
from ur5_pick_place.task.grippers.outputs import DigitalGripper, DigitalSettings
from ur5_pick_place.task.job import GripperReport, GripperView, Observation

DIGITAL = DigitalGripper(DigitalSettings(), 24)
ROBOTIQ = ActionGripper(ActionSettings(), None)
DRAWN_IN = ActionGripper(ActionSettings(open_position=0.08, close_position=0.0), None)


def command(gripper, position, seen):
    """Return what a goal made the gripper do, its error or '', and the result."""
    done, errors, ends, served = [], [], [], []
    node = SimpleNamespace(
        create_action_server=lambda *words: served.extend(words),
        get_logger=lambda: SimpleNamespace(error=errors.append),
    )

    async def ended(begin) -> Outcome:
        begin(None)
        return DONE

    node.ended = ended

    def start(_name, steps, _on_end, closes):
        assert closes == (steps == 'close')
        done.append(steps)

    station = SimpleNamespace(
        run=SimpleNamespace(open=lambda: 'open', close=lambda: 'close'),
        machine=SimpleNamespace(start=start),
        gripper=gripper,
        port=SimpleNamespace(observe=lambda: seen),
    )
    gripper_command.GripperCommands(node, station, GripperChoice())
    goal = SimpleNamespace(
        request=GripperCommand.Goal(),
        abort=lambda: ends.append(errors[-1]),
        succeed=lambda: ends.append(''),
    )
    goal.request.command.position = position
    result = asyncio.run(served[2](goal))
    return ''.join(done), ends[0], (result.position, result.reached_goal, result.stalled)


def jaws(is_closed, has_part=False):
    return Observation(0.0, np.zeros(6), {16: has_part}, {16: is_closed}, 24)


def fingers(target, position, stalled=False, joint=None):
    report = GripperReport(target, position, stalled, 'succeeded')
    view = GripperView(True, report, joint, joint is not None)
    return Observation(0.0, np.zeros(6), gripper=view)


@pytest.mark.parametrize(
    ('position', 'done', 'seen', 'result'),
    [
        (-0.001, 'close', jaws(True), (0.0, True, False)),
        (0.0, 'close', jaws(True), (0.0, True, False)),
        (0.0225, 'close', jaws(True), (0.0, False, False)),
        (0.0225, 'close', jaws(True, True), (math.nan, False, True)),
        (0.034, 'open', jaws(False), (0.035, True, False)),
        (0.0, 'close', Observation(0.0, np.zeros(6)), (math.nan, False, False)),
    ],
)
def test_metres_per_jaw_open_or_close_and_the_result_has_what_is_known(
    position, done, seen, result
):
    found = command(DIGITAL, position, seen)
    assert found[:2] == (done, '') and np.array_equal(found[2], result, equal_nan=True)


@pytest.mark.parametrize('position', [-1.0, -0.0011, 0.03, 0.07, 0.14, 1e9, np.inf, np.nan])
def test_what_no_jaw_can_do_moves_nothing(position: float) -> None:
    done, error, result = command(DIGITAL, position, jaws(False))
    assert not done and f'position = {position:g}' in error and 'must be' in error
    assert math.isfinite(position) == ('the width of both jaws, send half' in error)
    assert result == (0.035, False, False), 'it is still open'


@pytest.mark.parametrize(
    ('gripper', 'position', 'done', 'seen', 'result'),
    [
        (ROBOTIQ, 0.8, 'close', fingers(0.8, 0.8), (0.8, True, False)),
        (ROBOTIQ, 0.8, 'close', fingers(0.8, 0.35, True), (0.35, False, True)),
        (ROBOTIQ, 0.0, 'open', fingers(0.0, 0.005), (0.005, True, False)),
        (ROBOTIQ, 0.6, 'close', fingers(0.8, 0.8), (0.8, False, False)),
        (DRAWN_IN, 0.08, 'open', fingers(0.08, 0.08), (0.08, True, False)),
        (DRAWN_IN, 0.0, 'close', fingers(0.0, 0.04, True), (0.04, False, True)),
        # Servers that repeat the goal, stall on nothing, or were overtaken by another client.
        (ROBOTIQ, 0.8, 'close', fingers(0.8, 0.8, joint=0.35), (0.35, False, True)),
        (ROBOTIQ, 0.8, 'close', fingers(0.8, 0.8, True, joint=0.8), (0.8, True, False)),
        (ROBOTIQ, 0.0, 'open', fingers(0.0, 0.0, True), (0.0, True, False)),
        (ROBOTIQ, 0.0, 'open', fingers(0.0, 0.0, joint=0.3), (0.3, False, True)),
    ],
)
def test_a_gripper_with_a_server_takes_its_own_unit(
    gripper, position, done, seen, result
):
    assert command(gripper, position, seen) == (done, '', result)


@pytest.mark.parametrize('position', [-0.1, 0.85, 45.0, np.nan])
def test_what_lies_beyond_the_ends_of_a_server_moves_nothing(position):
    done, error, _ = command(ROBOTIQ, position, fingers(0.0, 0.0))
    assert not done and f'position = {position:g}: must' in error
