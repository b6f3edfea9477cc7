# SPDX-License-Identifier: Apache-2.0
"""
Make `.venv/bin/python` independent of the shell's ROS; called at its start, by a .pth file.

Before the wheels' own start file, which restarts the process with the environment left here.
"""

import os
import sys


def prepare(venv, defaults):
    """Remove what a sourced ROS has set, then set missing variables to `defaults`."""
    prefixes = os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)
    if venv not in prefixes:  # a workspace that was built on this environment has it
        leave([prefix for prefix in prefixes if prefix])
    name = os.environ.get('RMW_IMPLEMENTATION')
    if name and not os.path.isdir(os.path.join(os.path.dirname(__file__), name)):
        del os.environ['RMW_IMPLEMENTATION']
        print(
            f'RMW_IMPLEMENTATION={name}: not among the packages of {venv}, which use '
            'rmw_fastrtps_cpp here; to be rid of this line: unset RMW_IMPLEMENTATION',
            file=sys.stderr,
        )
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def leave(prefixes):
    """Remove the variables and paths of the ROS with these prefixes, and of other Pythons."""
    own = f'python{sys.version_info.major}.{sys.version_info.minor}'

    def is_foreign(path):
        if any(path == prefix or path.startswith(prefix + os.sep) for prefix in prefixes):
            return True
        return any(part.startswith('python3.') and part != own for part in path.split(os.sep))

    for name in ('PYTHONPATH', 'LD_LIBRARY_PATH'):
        paths = os.environ.pop(name, '').split(os.pathsep)
        if kept := [path for path in paths if path and not is_foreign(path)]:
            os.environ[name] = os.pathsep.join(kept)
    os.environ.pop('ROS_DISTRO', None)  # an image of ROS sets it, sourced or not
    if prefixes:
        for name in ('AMENT_PREFIX_PATH', 'ROS_VERSION', 'ROS_PYTHON_VERSION'):
            os.environ.pop(name, None)
