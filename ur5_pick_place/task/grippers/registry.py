# SPDX-License-Identifier: Apache-2.0
"""The kinds of gripper by the names that the parameter `gripper` takes."""

import importlib
from collections.abc import Iterable
from dataclasses import fields

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.task.grippers.action import ActionGripper
from ur5_pick_place.task.grippers.base import Gripper
from ur5_pick_place.task.grippers.outputs import DigitalGripper, VacuumGripper

KINDS: dict[str, type[Gripper]] = {
    'digital': DigitalGripper,
    'vacuum': VacuumGripper,
    'action': ActionGripper,
}
"""The kinds of this package; another one is named `module:Class`."""

DEFAULT = 'digital'


def gripper_type(name: str) -> type[Gripper]:
    """
    Return the class of a kind of gripper.

    `name`: a key of `KINDS`, or `module:Class`: a subclass of `Gripper`.

    Raises `InvalidInput`: there is none of that name, or it is no gripper.
    """
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    module, colon, attribute = str(name).partition(':')
    if not colon:
        raise InvalidInput(
            f'gripper = {name!r}: must be one of {", ".join(KINDS)}, or module:Class'
        )
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InvalidInput(
            f'gripper = {name!r}: {error}; check that PYTHONPATH has the module'
        ) from error
    if not (isinstance(found, type) and issubclass(found, Gripper)):
        raise InvalidInput(f'gripper = {name!r}: must be a class derived from {Gripper.__name__}')
    if missing := sorted(found.__abstractmethods__):
        raise InvalidInput(f'gripper = {name!r}: lacks {", ".join(missing)}')
    return found


def check_parameters(name: str, given: Iterable[str]) -> None:
    """
    Check that no parameter is given that belongs to other kinds of gripper only.

    - `name`: the kind
    - `given`: names of all parameters given, also of unrelated ones

    Raises `InvalidInput`: names the parameter and its kinds.
    """
    own = _names(gripper_type(name))
    for parameter in given:
        owners = [kind for kind, other in KINDS.items() if parameter in _names(other)]
        if owners and parameter not in own:
            raise InvalidInput(
                f'{parameter} is a parameter of gripper: {" and ".join(owners)}, and this is '
                f'gripper: {name}: remove it, or choose that gripper'
            )


def _names(kind: type[Gripper]) -> set[str]:
    return {f.name for f in fields(kind.settings_type)}
