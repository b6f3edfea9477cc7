# SPDX-License-Identifier: Apache-2.0
"""Locate config/ and read YAML files strictly, because they are written by hand."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ur5_pick_place.errors import InvalidInput

T = TypeVar('T')

MAX_BYTES = 100_000
_LARGEST = 2**63  # as for ROS parameters
_MAX_DEPTH = 30  # of brackets; PyYAML takes hours for thousands

# What PyYAML raises besides its own errors, for example on malformed dates and numbers.
_MALFORMED = (
    yaml.YAMLError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """
    A loader that refuses what makes a short file large: aliases, depth and huge numbers.

    It also refuses duplicate keys, of which PyYAML would keep the last.

    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.YAMLError(f'alias *{event.anchor}{event.start_mark}: write the value')
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key_node, _value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key_node, yaml.ScalarNode):
                key = self.construct_object(key_node)
                if key in seen:
                    raise yaml.YAMLError(f'{key!r} is given twice{key_node.start_mark}')
                seen.add(key)
        return super().construct_mapping(node, deep)

    def fetch_flow_collection_start(self, kind: Any) -> None:
        if self.flow_level >= _MAX_DEPTH:
            raise RecursionError(f'more than {_MAX_DEPTH} brackets are open{self.get_mark()}')
        super().fetch_flow_collection_start(kind)

    def whole_number(self, node: Any) -> int:
        number = self.construct_yaml_int(node)
        if abs(number) >= _LARGEST:
            raise OverflowError(f'a number exceeds 64 bits{node.start_mark}')
        return int(number)


_Loader.add_constructor('tag:yaml.org,2002:int', _Loader.whole_number)
# 1e-5 is text for PyYAML, and a number for everybody else, ROS and the driver included.
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'), list('-+0123456789')
)


def parse_yaml(content: bytes) -> Any:
    """
    Return the content of a YAML text.

    Raises
    ------
    InvalidInput
        It is larger than `MAX_BYTES`, not text, not YAML, or has an alias or a duplicate key.

    """
    if len(content) > MAX_BYTES:
        raise InvalidInput(f'larger than {MAX_BYTES} bytes')
    try:
        return yaml.load(content.decode(), _Loader)
    except _MALFORMED as error:
        raise InvalidInput(f'{type(error).__name__} {" ".join(str(error).split())}') from error


def read_bytes(path: str | Path) -> bytes:
    """
    Return the first `MAX_BYTES` + 1 bytes of a file.

    Raises
    ------
    OSError
        It cannot be read, or is a folder, a pipe or a device instead of a file.

    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, 'rb') as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f'{path} is a folder, a pipe or a device: must be a file')
        return file.read(MAX_BYTES + 1)


def read_yaml(path: str | Path, what: str) -> Any:
    """
    Return the content of a YAML file.

    Parameters
    ----------
    path : str or Path
    what : str
        Names the file in an error, such as 'scene file'.

    Raises
    ------
    InvalidInput
        The file cannot be read; gives the reason.

    """
    try:
        return parse_yaml(read_bytes(path))
    except (OSError, InvalidInput) as error:
        raise InvalidInput(f'{what} {path} cannot be read: {error}') from error


def load_yaml(path: str | Path, what: str, build: Callable[[Any], T]) -> T:
    """
    Return what `build` makes of the content of a YAML file.

    Parameters
    ----------
    path, what
        As for `read_yaml`.
    build : callable
        Such as `from_dict` of a settings class; raises `InvalidInput` for bad content.

    Raises
    ------
    InvalidInput
        The file cannot be read, or `build` refuses it; names the file.

    """
    content = read_yaml(path, what)
    try:
        return build(content)
    except InvalidInput as error:
        raise InvalidInput(f'{what} {path}: {error}') from error


def read_parameters(path: Path) -> dict[str, Any]:
    """
    Return the parameters of all nodes in a parameter file, by name.

    Raises
    ------
    InvalidInput
        The file cannot be read.

    """
    return dict(_parameters(read_yaml(path, 'parameter file')))


def _parameters(content: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(content, dict):
        return
    for name, value in content.items():
        if name == 'ros__parameters' and isinstance(value, dict):
            yield from value.items()
        else:
            yield from _parameters(value)


_NAME = 'ur5_pick_place'


def share_directory() -> Path:
    """
    Return the checkout, or the share folder of the prefix in which the package is installed.

    Raises
    ------
    InvalidInput
        Neither exists.

    """
    for parent in Path(__file__).resolve().parents[1:]:
        for folder in (parent, parent / 'share' / _NAME):
            if (folder / 'config' / 'cycle.yaml').is_file():
                return folder
    raise InvalidInput(f'{_NAME}: no config folder near {__file__}: install the package again')
