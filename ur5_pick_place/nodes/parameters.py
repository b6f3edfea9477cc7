# SPDX-License-Identifier: Apache-2.0
"""ROS parameters from `Settings` classes: declared with description, unit, range; then fixed."""

import difflib
from dataclasses import fields
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from ur5_pick_place.config_files import read_parameters, share_directory
from ur5_pick_place.errors import InvalidInput, one_line
from ur5_pick_place.settings import Settings

_INFINITE = 1e300
_ROS_OWN = ('use_sim_time', 'start_type_description_service', 'qos_overrides')


def declare_settings(node: Node, *kinds: type[Settings]) -> tuple[Any, ...]:
    """
    Declare every field of the given settings classes and return the objects, checked.

    The values are read once: a running node never changes its limits under a motion, so every
    parameter is read-only; so is, from here on, the choice of the clock.

    Parameters
    ----------
    node : Node
    *kinds : Settings classes
        Declared, in this order.

    Raises
    ------
    InvalidInput
        A value of the wrong type or out of range, or a parameter in the node's file that neither
        these classes nor any file in `config/` know (a misspelt key would otherwise be ignored in
        silence); one that is another node's is passed over, as all share the user's file.

    """
    node.add_on_set_parameters_callback(lambda asked: _refuse_another_clock(node, asked))
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


def _refuse_unknown(node: Node, known: list[str]) -> None:
    # rclpy drops overrides of undeclared parameters without a word, and offers no public way to
    # list them.
    given = [name for name in node._parameter_overrides if not name.startswith(_ROS_OWN)]
    if set(given) <= set(known):
        return
    files = (share_directory() / 'config').glob('*.yaml')
    others = {name for file in files for name in read_parameters(file)}
    for name in given:
        if name not in known and name not in others:
            near = difflib.get_close_matches(name, [*known, *others], n=1)
            hint = f'; did you mean {near[0]}?' if near else f'; known: {", ".join(known)}'
            raise InvalidInput(f'{node.get_name()}: unknown parameter {name!r}{hint}')


def _refuse_another_clock(node: Node, asked: 'list[Parameter[Any]]') -> SetParametersResult:
    """
    Refuse a change of `use_sim_time`: stamps, deadlines and motions of before would be of nowhere.

    Called before rclpy's own callback, which would change the clock.

    """
    for parameter in asked:
        now = node.get_parameter('use_sim_time').value
        if parameter.name == 'use_sim_time' and parameter.value != now:
            reason = (
                f'use_sim_time = {one_line(parameter.value)}: is {now} for as long as this node '
                f'runs; start {node.get_name()} again with the other'
            )
            return SetParametersResult(successful=False, reason=reason)
    return SetParametersResult(successful=True)


def _given(value: Any, f: Any) -> Any:
    """Return a parameter's value; an empty list reaches rclpy without a type, as no value."""
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
    # A whole number in YAML for a float is a common slip, a list of names may be empty, and what
    # the user must give has no value yet: all need dynamic typing; Settings checks the type.
    kind = type(f.default[0]) if meta['kind'] is tuple else meta['kind']
    is_list_of_names = meta['kind'] is tuple and kind is str
    descriptor.dynamic_typing = kind is float or is_list_of_names or f.default is None
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
