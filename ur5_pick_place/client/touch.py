# SPDX-License-Identifier: Apache-2.0
"""Find TCP and table height by touching, from a script."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from ur5_pick_place.errors import ExecutionError, InvalidInput
from ur5_pick_place.kinematics.mounting import FLOOR, Mounting
from ur5_pick_place.kinematics.touch import (
    TableFit,
    TcpFit,
    table_from_touches,
    tcp_from_touches,
)
from ur5_pick_place.kinematics.transforms import Array
from ur5_pick_place.planning.scene.scene_file import write_table_height, write_tcp

Where = Callable[[str], Array]
"""Takes a link; returns its present pose (4, 4) in `base_link`."""

_RESTART = 'restart the nodes to use it, and teach the places again'


class _Touches(ABC):
    """Touches so far; `scene_file` returns that of the nodes, `mounting` tells what is level."""

    link: ClassVar[str]

    def __init__(
        self, where: Where, scene_file: Callable[[], str], mounting: Mounting = FLOOR
    ) -> None:
        self._where, self._scene_file, self._mounting = where, scene_file, mounting
        self._poses: list[Array] = []

    def take(self) -> int:
        """Take the present pose of the arm as a touch; return how many there are."""
        self._poses.append(self._where(self.link))
        return len(self._poses)

    @abstractmethod
    def result(self) -> TcpFit | TableFit:
        """Return what was found with residual and verdict; `InvalidInput` with too few touches."""

    def forget_last(self) -> int:
        """Drop the last touch; return how many are left."""
        if not self._poses:
            raise InvalidInput('there is no touch to drop')
        self._poses.pop()
        return len(self._poses)

    def write(self, scene_file: str = '') -> str:
        """
        Write the result to a scene file, that of the nodes by default; return what to do next.

        Raises `ExecutionError`: the result is not good enough to be used, or the file cannot be
        written; `InvalidInput`: the file is no scene, none is given although the nodes have none,
        or the name means a file of the package.
        """
        file = scene_file or self._scene_file()
        if not file:
            raise InvalidInput('the nodes have no scene_file: give write() the path of one')
        if Path(file).name == file:
            raise InvalidInput(
                f'scene_file = {file!r}: a name without a directory refers to a file of the '
                'package, which is not edited: copy it, or give a path such as '
                f'{Path.cwd() / file}'
            )
        if not (result := self.result()).is_good:
            raise ExecutionError(f'not written: {result}')
        self._write(file)
        return f'{result} written to {file}: {_RESTART}'

    @abstractmethod
    def _write(self, file: str) -> None:
        """Write the result to `file`."""


class TcpTouches(_Touches):
    """Touches of one fixed point with the TCP, the tool turned between them."""

    link = 'tool0'

    def result(self) -> TcpFit:
        return tcp_from_touches(np.array(self._poses).reshape(-1, 4, 4))

    def _write(self, file: str) -> None:
        write_tcp(file, self.result().position.tolist())


class TableTouches(_Touches):
    """Touches of the table with the TCP."""

    link = 'tcp'

    def result(self) -> TableFit:
        points = np.array([T[:3, 3] for T in self._poses]).reshape(-1, 3)
        return table_from_touches(points @ self._mounting.R_up_base_link.T)

    def _write(self, file: str) -> None:
        write_table_height(file, self.result().height)
