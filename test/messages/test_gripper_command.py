# SPDX-License-Identifier: Apache-2.0
"""What a position of the action `gripper_command` does to the gripper."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip('rclpy')

from control_msgs.action import GripperCommand

from ur5_pick_place.nodes.pick_place import gripper_command
from ur5_pick_place.outcome import DONE, Outcome

THRESHOLD = 0.02  # [m], as in config/pick_place.yaml


def command(monkeypatch: pytest.MonkeyPatch, position: float) -> tuple[str, str, float]:
    """Return what a goal made the gripper do, how the goal ended, and the result's position."""
    monkeypatch.setattr(gripper_command, 'ActionServer', lambda *_args, **_kwargs: None)
    done, errors, ends = [], [], []
    node = SimpleNamespace(get_logger=lambda: SimpleNamespace(error=errors.append))
    run = SimpleNamespace(open=lambda: 'open', close=lambda: 'close', is_carrying=False)

    async def job(_name: str, steps: str) -> Outcome:
        done.append(steps)
        return DONE

    commands = gripper_command.GripperCommands(node, run, THRESHOLD, job, None)
    goal = SimpleNamespace(
        request=GripperCommand.Goal(),
        abort=lambda: ends.append(errors[-1]),
        succeed=lambda: ends.append('succeeded'),
    )
    goal.request.command.position = position
    result = asyncio.run(commands._execute(goal))
    assert result.reached_goal == (ends == ['succeeded'])
    return ''.join(done), ends[0], result.position


@pytest.mark.parametrize(
    ('position', 'action'),
    [(-0.001, 'close'), (0.0, 'close'), (0.02, 'close'), (0.0201, 'open'), (0.14, 'open')],
)
def test_a_width_opens_or_closes(monkeypatch, position: float, action: str) -> None:
    assert command(monkeypatch, position) == (action, 'succeeded', position)


@pytest.mark.parametrize('position', [-1.0, -0.0011, 1.01, 1e9, np.inf, np.nan])
def test_what_is_no_width_moves_nothing(monkeypatch, position: float) -> None:
    done, error, _ = command(monkeypatch, position)
    assert not done and f'position = {position:g} m: must be' in error
