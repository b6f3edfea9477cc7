# SPDX-License-Identifier: Apache-2.0
"""Boxes: simulated controllers that the test steps."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip('mujoco')
from controller_box import Box


@pytest.fixture
def make_box() -> Iterator[Callable[..., Box]]:
    boxes: list[Box] = []

    def make(ur_type: str = 'ur5', **options: Any) -> Box:
        boxes.append(Box(ur_type, **options))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


@pytest.fixture(scope='module')
def shared_box() -> Iterator[Box]:
    """One for tests that leave it as it was."""
    box = Box('ur5e')
    yield box
    box.close()
