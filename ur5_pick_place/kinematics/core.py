# SPDX-License-Identifier: Apache-2.0
"""
The compiled form of `scalar` if it was built from the present sources, else `scalar` itself.

`make setup` and colcon compile it where Cython and a C compiler are at hand. With
`UR5_PICK_PLACE_PLAIN=1` in the environment the plain form is used.

"""

import hashlib
import importlib
import os
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ur5_pick_place.kinematics import scalar

COMPILED = 'scalar_compiled'
PLAIN = 'UR5_PICK_PLACE_PLAIN'


def source_hash() -> str:
    """Return the hash of the sources of the compiled form, which it carries."""
    folder = Path(scalar.__file__).parent
    parts = [*sorted(folder.glob('[a-z]*.py')), folder / 'compiled.pxd']
    return hashlib.sha256(b''.join(part.read_bytes() for part in parts)).hexdigest()


def choose(compiled: ModuleType | None) -> ModuleType:
    """Return the compiled form if there is one of the present sources, else the plain one."""
    if compiled is None:
        return scalar
    if source_hash() == compiled.SOURCE_HASH:
        return compiled
    warnings.warn(
        f'{compiled.__file__} was built from another version of {scalar.__path__[0]}: the '
        'kinematics run uncompiled, many times slower; run make setup, or colcon build',
        RuntimeWarning,
        stacklevel=2,
    )
    return scalar


def _find() -> ModuleType | None:
    if os.environ.get(PLAIN):
        return None
    try:
        return importlib.import_module(f'.{COMPILED}', __package__)
    except ImportError:
        return None


if TYPE_CHECKING:
    core = scalar
else:
    core = choose(_find())

IS_COMPILED = core is not scalar
