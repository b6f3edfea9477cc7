# SPDX-License-Identifier: Apache-2.0
"""Parameter files of ROS nodes, read without ROS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ur5_pick_place.yaml_file import read_yaml


def read_parameters(path: Path) -> dict[str, Any]:
    """
    Return what a file says of any node, by the parameter's name.

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
