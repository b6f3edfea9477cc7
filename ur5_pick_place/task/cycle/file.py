# SPDX-License-Identifier: Apache-2.0
"""The places and stages of a cycle as data, read from a file that a user can change."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ur5_pick_place.config_files import load_yaml
from ur5_pick_place.errors import InvalidInput, quoted
from ur5_pick_place.settings import REQUIRED, Settings, setting
from ur5_pick_place.task.cycle.stages import Stage
from ur5_pick_place.task.cycle.steps import check_cycle
from ur5_pick_place.task.places.names import DEFAULT_PLACES, HOME, check_name

_MAX_STAGES = 1000
_MAX_PLACES = 100  # each is a service, a topic, a frame and a handle


@dataclass(frozen=True)
class PlaceSettings(Settings):
    """Where a place comes from: it is taught, or read from a TF frame when a cycle is planned."""

    from_frame: str = setting('', 'the TF frame; empty = the place is taught')
    max_age: float = setting(
        0.5, 'age of the frame beyond which planning is refused', unit='s', low=0.02, high=60.0
    )
    max_jump: float = setting(
        0.02,
        'distance that the frame may have moved within max_age, and between plan and run',
        unit='m',
        low=0.0001,
        high=0.5,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_frame != ''.join(self.from_frame.split()):
            raise InvalidInput(
                f'from_frame = {quoted(self.from_frame)}: must be a frame of TF, without spaces',
                'from_frame',
            )


_TAUGHT = PlaceSettings()


class Cycle(tuple[Stage, ...]):
    """
    The stages in order, and the places that they may lead to.

    `places`: in the order of the file, `home` included.
    """

    places: Mapping[str, PlaceSettings]

    def __new__(
        cls,
        stages: Iterable[Stage],
        places: Mapping[str, PlaceSettings] = MappingProxyType(
            dict.fromkeys(DEFAULT_PLACES, _TAUGHT)
        ),
    ) -> 'Cycle':
        """Return a cycle; `load_cycle` checks it too."""
        cycle = super().__new__(cls, stages)
        cycle.places = places
        return cycle


@dataclass(frozen=True)
class _CycleFile(Settings):
    title = 'cycle'

    stages: tuple[Stage, ...] = setting(REQUIRED, 'in order', kind=tuple, of=Stage)
    places: tuple[str, ...] = setting(DEFAULT_PLACES, 'names of places')

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.stages) <= _MAX_STAGES:
            raise InvalidInput(
                f'{len(self.stages)} stages: must be a list of 1 to {_MAX_STAGES}', 'stages'
            )


def load_cycle(path: Path, gripper_outputs: Collection[int] = ()) -> Cycle:
    """
    Return a cycle, read from a file and checked as a whole.

    `gripper_outputs`: the outputs that no stage but those of the gripper may set.

    Raises `InvalidInput`: the file is missing or malformed, or its stages cannot follow each
    other; names file and line, the stage, the key, and what is allowed.
    """

    def build(content: Any) -> Cycle:
        settings: dict[str, Any] = {}
        places = content.get('places', []) if isinstance(content, Mapping) else []
        if isinstance(places, Mapping):
            settings = dict(places)
            content = {**content, 'places': list(settings)}
        elif not isinstance(places, list):
            raise InvalidInput(
                f'places = {quoted(places)}: must be a list of names, or a mapping of names to '
                'settings',
                'places',
            )
        file = _CycleFile.from_dict(content)
        cycle = Cycle(file.stages, _places(file.places, settings))
        check_cycle(cycle, cycle.places, gripper_outputs)
        return cycle

    return load_yaml(path, 'cycle file', build)


def _places(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, PlaceSettings]:
    """Return the places of a file, in which they are a list of names, or a mapping."""
    if not 1 <= len(names) <= _MAX_PLACES:
        raise InvalidInput(f'places: {len(names)} names: must be 1 to {_MAX_PLACES}', 'places')
    found: dict[str, PlaceSettings] = {}
    for number, name in enumerate(names):
        key = f'places.{name}' if settings else f'places[{number}]'
        check_name(name, key)
        if name in found:
            raise InvalidInput(f'{key} = {name!r}: is listed twice, must be listed once', key)
        given = settings.get(name)
        found[name] = PlaceSettings.from_dict({} if given is None else given, key)
    if HOME not in found:
        raise InvalidInput(
            f'places = {quoted(list(names))}: must contain {HOME}, where ~/go_home leads', 'places'
        )
    if found[HOME].from_frame:
        key = f'places.{HOME}.from_frame'
        raise InvalidInput(f'{key}: {HOME} is defined by its joints, it must be taught', key)
    for name, place in found.items():
        if place.from_frame.lstrip('/') in found:
            key = f'places.{name}.from_frame'
            raise InvalidInput(
                f'{key} = {place.from_frame!r}: is the frame that this node publishes for the '
                'place of that name: give that place another name',
                key,
            )
    return found
