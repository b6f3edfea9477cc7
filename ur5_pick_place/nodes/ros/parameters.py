# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from `Settings` classes, with description, unit and range; read-only."""

import difflib
import itertools
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from ur5_pick_place.config_files import misnamed_sections, read_parameters, share_directory
from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.settings import Settings

Kind = TypeVar('Kind')
_INFINITE = 1e300
_ROS_OWN = ('use_sim_time', 'start_type_description_service', 'qos_overrides')


def declare_all(node: Node, kind: type[Kind], **kinds: type[Settings]) -> Kind:
    """
    Return a dataclass of settings objects, after declaring the parameters of each.

    `kind`: the dataclass. `kinds`: those of fields whose class is known only now.
    """
    known = {**get_type_hints(kind), **kinds}
    return kind(**dict(zip(known, declare_settings(node, *known.values()), strict=True)))


def declare_settings(node: Node, *kinds: type[Settings]) -> tuple[Any, ...]:
    """
    Return objects of the settings classes, after declaring every field as a parameter.

    The values are read once: limits must not change during a motion, so every parameter is
    read-only; from here on so is the choice of the clock.

    `kinds`: declared, in this order.

    Raises `InvalidInput`: a value has the wrong type or is out of range, or the node's file has a
    parameter that neither these classes nor any file in `config/` know (a misspelt key would
    otherwise be ignored silently). Parameters of other nodes are skipped, as all share the user's
    file; a warning names sections that may be meant for this one.
    """
    _warn_of_misnamed(node)
    node.add_on_set_parameters_callback(lambda changed: _refuse_another_clock(node, changed))
    declared = [f for kind in kinds for f in fields(kind)]
    _refuse_unknown(node, [f.name for f in declared])
    try:
        for f in declared:
            node.declare_parameter(f.name, _ros_value(f.default), _descriptor(f))
        return tuple(
            kind(**{f.name: _given(node.get_parameter(f.name).value, f) for f in fields(kind)})
            for kind in kinds
        )
    except ParameterException as error:
        raise InvalidInput(f'{node.get_name()}: {error}') from error


def _warn_of_misnamed(node: Node) -> None:
    name = node.get_fully_qualified_name()
    files = [value for option, value in itertools.pairwise(sys.argv) if option == '--params-file']
    for file in files:
        for section in misnamed_sections(Path(file), name):
            node.get_logger().warning(
                f'{file}: section {one_line(section)!r} is not for this node, {name}, which does '
                'not use it: correct the name, if it is meant for it'
            )


def _refuse_unknown(node: Node, known: list[str]) -> None:
    # rclpy drops overrides of undeclared parameters silently, and offers no public way to list
    # them.
    given = [name for name in node._parameter_overrides if not name.startswith(_ROS_OWN)]
    if set(given) <= set(known):
        return
    files = (share_directory() / 'config').glob('*.yaml')
    others = {name for file in files for name in read_parameters(file)}
    gripper = str(getattr(node._parameter_overrides.get('gripper'), 'value', ''))
    is_own = ':' in gripper and node.get_name() != 'pick_place'
    for name in given:
        if name not in known and name not in others:
            near = difflib.get_close_matches(name, [*known, *others], n=1)
            hint = f'; did you mean {near[0]}?' if near else f'; known: {", ".join(known)}'
            hint = '; that of a gripper class goes under /**/pick_place' if is_own else hint
            raise InvalidInput(f'{node.get_name()}: unknown parameter {name!r}{hint}')


def _refuse_another_clock(node: Node, changed: 'list[Parameter[Any]]') -> SetParametersResult:
    """
    Refuse a change of `use_sim_time`: earlier stamps, deadlines and motions would become invalid.

    Called before rclpy's own callback, which would change the clock.
    """
    for parameter in changed:
        now = node.get_parameter('use_sim_time').value
        if parameter.name == 'use_sim_time' and parameter.value != now:
            reason = (
                f'use_sim_time = {one_line(parameter.value)}: is {now} as long as this node runs; '
                f'to change it, start {node.get_name()} again'
            )
            return SetParametersResult(successful=False, reason=reason)
    return SetParametersResult(successful=True)


def _given(value: Any, f: Any) -> Any:
    """Return a parameter's value; rclpy returns None for an empty list, which has no type."""
    return () if value is None and isinstance(f.default, tuple) else value


def _ros_value(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _descriptor(f: Any) -> ParameterDescriptor:
    meta = f.metadata
    text = meta['description'] + (f' [{meta["unit"]}]' if meta['unit'] else '')
    if meta['choices']:
        text += f' (one of: {", ".join(meta["choices"])})'
    descriptor = ParameterDescriptor(description=text, read_only=True)
    low, high = meta['low'], meta['high']
    # A whole number in YAML for a float is a common mistake, `off` for a text is false, a list of
    # names may be empty, and a mandatory parameter has no default: all need dynamic typing;
    # Settings checks the type.
    kind = type(f.default[0]) if meta['kind'] is tuple else meta['kind']
    descriptor.dynamic_typing = kind is not int or f.default is None
    if meta['kind'] in (int, float):
        if meta['kind'] is float and (low is not None or high is not None):
            descriptor.floating_point_range = [
                FloatingPointRange(
                    from_value=-_INFINITE if low is None else float(low),
                    to_value=_INFINITE if high is None else float(high),
                )
            ]
        elif low is not None and high is not None:
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
    elif low is not None and high is not None:  # a list, for which ROS has no range
        descriptor.additional_constraints = f'{meta["length"]} entries, each {low} to {high}'
    return descriptor
