# SPDX-License-Identifier: Apache-2.0
"""`PickPlaceClient`: the cell from a script or a notebook."""

from collections.abc import Callable
from typing import TypeVar

from ur5_pick_place.client.link import Link
from ur5_pick_place.client.motions import Motions
from ur5_pick_place.client.requests import number
from ur5_pick_place.client.scene import SceneEditing
from ur5_pick_place.client.teaching import Teaching
from ur5_pick_place.client.touch import Touching

Kind = TypeVar('Kind', bound='PickPlaceClient')


class PickPlaceClient(Teaching, Motions, SceneEditing, Touching):
    """
    The cell from a script or a notebook; a context manager.

    Every method blocks until its outcome is known. Interrupting a method that moves the arm, with
    Ctrl-C or the interrupt button of a notebook, stops the arm; call `rearm` before the next
    motion. If a node dies meanwhile, the method raises an error that names it.

    While one thread blocks, another may read properties and call `stop`, `pause` and `resume`.

    Parameters
    ----------
    namespace : str
        Of the cell's nodes.
    timeout : float
        For the nodes to be there, and for each of their replies [s]. Motions have none: they end
        by themselves, and a slow speed slider is no fault.
    watch : callable, optional
        Called about 20 times a second while a method waits; an error that it raises ends the
        method, and stops the arm as Ctrl-C does.

    Raises
    ------
    TimedOut
        Names the nodes that are missing.

    """

    def __init__(
        self,
        namespace: str = '',
        timeout: float = 30.0,
        watch: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(Link(namespace, number('timeout', timeout, 0.1, 3600.0, 's'), watch))

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the ROS graph; the nodes go on."""
        self._link.close()
