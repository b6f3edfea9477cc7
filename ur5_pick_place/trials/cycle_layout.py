# SPDX-License-Identifier: Apache-2.0
"""Any cycle file on the simulated cell: where its places lie, and who presses its buttons."""

from collections.abc import Callable, Mapping, Sequence
from math import radians
from typing import Any

import numpy as np

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.transforms import T_BASE_BASE_LINK, T_BASE_LINK_BASE, Array
from ur5_pick_place.task import events
from ur5_pick_place.task.cycle import Cycle
from ur5_pick_place.task.pattern import PatternSettings, Transfer, poses_by_cycle, transfers
from ur5_pick_place.task.place_names import DEFAULT_PLACES, HOME
from ur5_pick_place.task.poses import Provenance, TaughtPose, numbers_from_matrix
from ur5_pick_place.task.stages import WAIT_INPUT
from ur5_pick_place.trials.spots import DEFAULT_START, DEFAULT_TARGET, Spot

# Wide enough apart for the open gripper.
_PICKS = (DEFAULT_START, Spot(0.30, -0.30, 0.0), Spot(0.55, -0.05, 0.0))
_RELEASES = (DEFAULT_TARGET, Spot(0.28, 0.38, 0.0), Spot(0.55, 0.10, radians(30.0)))
_PITCH = (0.06, 0.09, 0.0452)  # [m] of a pattern of cubes
_REACTION = 0.5  # [s] from the start of a wait for an input to the press of its button
_NOBODY = Provenance('', '', (0.0,) * 7, 0.0)


def check_no_frames(cycle: Cycle) -> None:
    """Refuse a cycle with a place that is read from a TF frame, which nobody publishes here."""
    for name, place in cycle.places.items():
        if place.from_frame:
            raise InvalidInput(
                f'place {name!r} is read from the TF frame {place.from_frame!r}, which the demo '
                'does not publish: use make cell CYCLE=… and examples/tag_broadcaster.py'
            )


def layout(cycle: Cycle) -> dict[str, Spot]:
    """
    Return a spot on the table for each place of a cycle but home and those read from a frame.

    Raises
    ------
    InvalidInput
        There are too many.

    """
    taught = [n for n, place in cycle.places.items() if n != HOME and not place.from_frame]
    picks = {t.pick for t in transfers(cycle)}
    found: dict[str, Spot] = {}
    for is_pick, spots in ((True, _PICKS), (False, _RELEASES)):
        names = [n for n in taught if (n in picks) is is_pick]
        names.sort(key=lambda name: name not in DEFAULT_PLACES)
        if len(names) > len(spots):
            raise InvalidInput(
                f'{len(names)} places {"to pick from" if is_pick else "without a pick"}: at most '
                f'{len(spots)} fit on the table of the simulated cell'
            )
        found |= dict(zip(names, spots, strict=False))
    return found


def pattern(grid: tuple[int, ...] | None) -> dict[str, Any]:
    """Return the parameters of a pattern of cubes at target; none without a grid."""
    if grid is None:
        return {}
    return {'target_grid': list(grid), 'target_pitch': list(_PITCH)}


def pick_places(cycle: Cycle) -> list[str]:
    """
    Return the places where parts must lie at first, in order.

    A place at which an earlier transfer puts a part down needs none.

    """
    laid: set[str] = set()
    found: list[str] = []
    for transfer in transfers(cycle):
        if transfer.pick not in laid and transfer.pick not in found:
            found.append(transfer.pick)
        laid.add(transfer.release)
    return found


def ends_of_parts(
    cycle: Cycle, spots: Mapping[str, Spot], settings: PatternSettings
) -> list[Array]:
    """Return where each part must lie at the end, (4, 4) in `base_link`, in order of feeding."""
    T_base_grip = {name: T_BASE_BASE_LINK @ s.T_base_link_grip for name, s in spots.items()}
    poses = {
        name: TaughtPose(numbers_from_matrix(T), _NOBODY, '') for name, T in T_base_grip.items()
    }
    return [
        np.asarray(T_BASE_LINK_BASE @ cycle_poses[_last_place(transfers(cycle), pick)].T_base_tcp)
        for cycle_poses in poses_by_cycle(settings, poses)
        for pick in pick_places(cycle)
    ]


def _last_place(moved: Sequence[Transfer], place: str) -> str:
    for transfer in moved:
        if transfer.pick == place:
            place = transfer.release
    return place


class Attendant:
    """
    Somebody at the cell: brings parts, and presses the buttons that a cycle waits for.

    An input that it has switched on is switched off when the next stage begins.

    Parameters
    ----------
    cycle : Cycle
    switch : callable
        Takes an input and its level.
    feed : callable
        Brings the next part.
    cycles : int
        Of the run; the next part is brought after each of them but the last.

    """

    def __init__(
        self,
        cycle: Cycle,
        switch: Callable[[int, bool], object],
        feed: Callable[[], object],
        cycles: int = 1,
    ) -> None:
        self._waits = {stage.name: stage for stage in cycle if stage.do == WAIT_INPUT}
        self._switch, self._feed, self._cycles = switch, feed, cycles
        self._seen = 0
        self._due: tuple[float, int, bool] | None = None
        self._pressed: list[int] = []

    def react(self, seen: Sequence[Mapping[str, Any]], now: float) -> None:
        """Act on the events of the task so far, at robot time [s]; call it often."""
        for event in seen[self._seen :]:
            self._take(event, now)
        self._seen = len(seen)
        if self._due and now >= self._due[0]:
            _, pin, level = self._due
            self._due = None
            self._switch(pin, level)
            self._pressed += [pin] * level

    def _take(self, event: Mapping[str, Any], now: float) -> None:
        kind = event['event']
        if kind == events.STAGE:
            for pin in self._pressed:
                self._switch(pin, False)
            self._pressed.clear()
        elif kind == events.WAITING and event['stage'] in self._waits:
            stage = self._waits[event['stage']]
            assert stage.pin is not None
            self._due = now + _REACTION, stage.pin, bool(stage.value)
        elif kind == events.CYCLE_DONE and event['number'] < self._cycles:
            self._feed()
