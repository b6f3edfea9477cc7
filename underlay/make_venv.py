# SPDX-License-Identifier: Apache-2.0
"""
Make `.venv`: real ROS 2 from Python wheels, the interface packages they lack, and this package.

Run by `make setup`, with the ROS distribution as its argument. Every step leaves a stamp with the
hash of its inputs, so that a second run has nothing to do and an interrupted one goes on where it
stopped. Standard library only, and in syntax that older Pythons accept, so that they are refused
with a message.
"""

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
UNDERLAY = REPO / 'underlay'
VENV = REPO / '.venv'
BUILD = REPO / 'build' / 'underlay'
STAMPS = VENV / '.setup'
PACKAGE = 'ur5_pick_place'

PYTHONS = ('3.11', '3.12', '3.13')
DISTRIBUTIONS = ('kilted', 'jazzy')
PROOF = 'import rclpy, moveit_msgs.srv, control_msgs.action, ur_msgs.srv, tf2_ros, ur5_pick_place'
# What a sourced ROS installation or an active environment would mix into the build.
FOREIGN = (
    'AMENT_PREFIX_PATH',
    'CMAKE_PREFIX_PATH',
    'COLCON_PREFIX_PATH',
    'PYTHONHOME',
    'PYTHONPATH',
    'VIRTUAL_ENV',
    '_ROS_WHEELS_BOOTSTRAP_COMPLETE',
)


class SetupError(Exception):
    """The set-up cannot go on; the message says what to do."""


def main(ros=DISTRIBUTIONS[0]):
    if ros not in DISTRIBUTIONS:
        raise SetupError(f'ROS = {ros!r}: wheels exist for {" and ".join(DISTRIBUTIONS)}')
    check_machine()
    BUILD.mkdir(parents=True, exist_ok=True)
    # Colcon must not take the generated packages for its own.
    (BUILD / 'COLCON_IGNORE').touch()
    with one_at_a_time():  # several demos may start at once
        steps = plan(ros)
        if all(is_done(name, key) for name, key, _ in steps):
            return
        install_system_packages()
        for number, (name, key, action) in enumerate(steps, 1):
            run_step(f'[{number}/{len(steps)}]', name, key, action)
    print(f'set-up complete (ROS 2 {ros}): .venv/bin/python, .venv/bin/demo', flush=True)


def plan(ros):
    """Return the steps (name, hash of all inputs so far, action)."""
    here = [ros, sys.version, os.path.realpath(sys.executable), str(REPO)]
    interfaces = [UNDERLAY / 'CMakeLists.txt', *UNDERLAY.glob('interface_package/*')]
    for kind in ('msg', 'srv', 'action'):
        interfaces += UNDERLAY.glob(f'*/{kind}/*.{kind}')
    own = [Path(__file__), *(UNDERLAY / name for name in ('fastdds.xml', 'shell.py'))]
    own += [REPO / 'setup.py', REPO / 'setup.cfg']
    own.append(REPO / PACKAGE / 'kinematics/_ik.pyx')  # compiled beside its source
    requirements = [UNDERLAY / name for name in ('requirements.txt', f'requirements-{ros}.txt')]
    steps = []
    key = digest(here)
    for name, inputs, action in (
        ('Python packages', requirements, partial(install_python_packages, ros, requirements)),
        ('interface packages', interfaces, build_interfaces),
        ('this package', own, partial(install_this_package, ros)),
    ):
        key = digest([key, *sorted(inputs)])
        steps.append((name, key, action))
    return steps


def digest(parts):
    """Return the hash of strings and files (by repository path and content)."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            total.update(str(part.relative_to(REPO)).encode() + b'\0' + part.read_bytes())
        else:
            total.update(part.encode())
        total.update(b'\0')
    return total.hexdigest()


def stamp_path(name):
    return STAMPS / name.replace(' ', '_')


def is_done(name, key):
    stamp = stamp_path(name)
    return stamp.exists() and stamp.read_text() == key


def run_step(label, name, key, action):
    print(f'{label} {name} ...', end=' ', flush=True)
    if is_done(name, key):
        print('there already', flush=True)
        return
    stamp_path(name).unlink(missing_ok=True)
    start = time.monotonic()
    action()
    stamp_path(name).write_text(key)
    print(f'{time.monotonic() - start:.0f} s', flush=True)


@contextmanager
def one_at_a_time():
    """Hold the lock; children inherit it, so that an orphaned pip or cmake still keeps it."""
    with open(BUILD / 'lock', 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print('another set-up is at work here; waiting for it ...', flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        yield


def run(name, *command, cwd=REPO):
    """Run a command with its output in a log; raise with the log's tail when it fails."""
    log = BUILD / f'{name}.log'
    env = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    env['PATH'] = f'{VENV}/bin{os.pathsep}{env["PATH"]}'
    with log.open('w') as out:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            close_fds=False,
        )
    if done.returncode != 0:
        tail = '\n'.join(log.read_text(errors='replace').splitlines()[-25:])
        raise SetupError(f'{name} failed (code {done.returncode}); the end of {log}:\n{tail}')


# ---- the machine


def check_machine():
    version = '.'.join(platform.python_version_tuple()[:2])
    if version not in PYTHONS:
        there = [f'python{v}' for v in PYTHONS if shutil.which(f'python{v}')]
        hint = f'make setup PYTHON={there[0] if there else "…"}'
        raise SetupError(
            f'{sys.executable} is Python {version}; {", ".join(PYTHONS)} work: {hint}'
        )
    if sys.platform != 'linux' or platform.machine() != 'x86_64':
        raise SetupError(
            f'{sys.platform} on {platform.machine()}: the ROS 2 wheels exist for Linux on x86_64 '
            'only; elsewhere use a ROS 2 installation and colcon'
        )
    if any(c in str(REPO) for c in ' :;'):
        raise SetupError(
            f'{str(REPO)!r}: ROS 2 cannot be built in a path with a blank, colon or semicolon; '
            'move the clone'
        )


def missing_system_packages():
    """Return the Debian packages to install: those needed, and those for pictures alone."""
    python = f'python{sys.version_info.major}.{sys.version_info.minor}'
    needed = [name for name in ('gcc', 'g++') if not shutil.which(name)]
    if not all(importlib.util.find_spec(name) for name in ('venv', 'ensurepip')):
        needed.append(f'{python}-venv')
    if not Path(sysconfig.get_config_var('INCLUDEPY'), 'Python.h').exists():
        needed.append(f'{python}-dev')
    if loads('libEGL.so.1') and any(loads(f'libEGL_{maker}.so.0') for maker in ('mesa', 'nvidia')):
        return needed, []
    return needed, ['libegl1', 'libegl-mesa0', 'libgl1-mesa-dri', 'libopengl0']


def loads(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def install_system_packages():
    needed, pictures = missing_system_packages()
    if not needed and not pictures:
        return
    missing = ' '.join(needed + pictures)
    if os.geteuid() == 0 and shutil.which('apt-get'):
        print(f'installing system packages: {missing}', flush=True)
        apt = ('env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get')
        run('apt_update', *apt, 'update')
        run('apt_install', *apt, 'install', '--yes', '--no-install-recommends', *missing.split())
    elif needed:
        raise SetupError(
            f'system packages are missing: sudo apt-get install {missing}\n'
            '(elsewhere: a C and C++ compiler, the venv module and headers of this Python, EGL)'
        )
    else:
        print(f'no pictures without: sudo apt-get install {missing}', flush=True)


# ---- the virtual environment


def install_python_packages(ros, requirements):
    """Make the environment anew: an interrupted or outdated pip leaves half-installed packages."""
    if VENV.exists() and not STAMPS.exists():
        raise SetupError(f'{VENV} was not made by this set-up; move it away, then make setup')
    for stamp in STAMPS.glob('*'):
        stamp.unlink()
    for old in (*VENV.glob('*'), *BUILD.glob('*')):
        if old != STAMPS:  # without it what an interruption leaves would count as someone else's
            shutil.rmtree(old, ignore_errors=True)
    for old in ('CMakeCache.txt', 'build.ninja'):
        (BUILD / old).unlink(missing_ok=True)
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / 'ros').write_text(ros)  # read by the Makefile
    run('venv', sys.executable, '-m', 'venv', VENV)
    pip = (VENV / 'bin/python', '-m', 'pip', '--disable-pip-version-check')
    files = [word for file in requirements for word in ('-r', file)]
    run('pip', *pip, 'install', '--no-deps', *files)
    run('pip_check', *pip, 'check')


def build_interfaces():
    cmake = VENV / 'bin/cmake'
    source, prefix = f'-S{UNDERLAY}', f'-DCMAKE_INSTALL_PREFIX={VENV}'
    run('cmake_configure', cmake, '-GNinja', source, f'-B{BUILD}', prefix)
    run('cmake_build', cmake, '--build', BUILD)


def install_this_package(ros):
    profile, variable = (UNDERLAY / 'fastdds.xml').read_text(), 'FASTDDS_DEFAULT_PROFILES_FILE'
    if ros == 'jazzy':  # its Fast DDS, 2.14, has other names
        profile = profile.replace('heartbeat_period', 'heartbeatPeriod')
        variable = 'FASTRTPS_DEFAULT_PROFILES_FILE'
    (VENV / 'fastdds.xml').write_text(profile)
    defaults = {
        'AMENT_PREFIX_PATH': str(VENV),
        'ROS_DISTRO': ros,
        variable: str(VENV / 'fastdds.xml'),
        'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
    }
    # Python reads .pth files in alphabetical order. The underscore puts this one first: the
    # variables are set before ros_wheels_bootstrapper.pth, the wheels' own, restarts the process.
    start_file = Path(site_packages(), f'_{PACKAGE}.pth')
    module = f'_{PACKAGE}_shell'
    shutil.copy(UNDERLAY / 'shell.py', start_file.with_name(f'{module}.py'))
    call = f'import {module}; {module}.prepare({str(VENV)!r}, {defaults!r})'
    start_file.write_text(f'{UNDERLAY / "tf2_ros"}\n{call}\n')
    options = ('--no-deps', '--no-build-isolation', '--no-index')
    command = (VENV / 'bin/python', '-m', 'pip', 'install', *options, '-e', REPO)
    run('pip_editable', *command)
    link_into_ament_prefix()
    run('proof', VENV / 'bin/python', '-c', PROOF, cwd='/')


def link_into_ament_prefix():
    """Put executables and shared files where ament and `launch_ros` look for them."""
    share, programs = VENV / 'share' / PACKAGE, VENV / 'lib' / PACKAGE
    marker = VENV / 'share/ament_index/resource_index/packages' / PACKAGE
    for old in (share, programs):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir(parents=True)
    marker.unlink(missing_ok=True)
    marker.symlink_to(REPO / 'resource' / PACKAGE)
    for name in ('package.xml', 'config', 'launch'):
        (share / name).symlink_to(REPO / name)
    for distribution in metadata.distributions(name=PACKAGE, path=[site_packages()]):
        for entry in distribution.entry_points:
            (programs / entry.name).symlink_to(VENV / 'bin' / entry.name)


def site_packages():
    return sysconfig.get_path('purelib', 'venv', {'base': str(VENV)})


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except SetupError as error:
        sys.exit(f'\nset-up stopped: {error}')
    except OSError as error:
        what = f'{error.filename}: {error.strerror}' if error.filename else error
        hint = f'check permissions and free space of {REPO}'
        print(f'set-up stopped: {what}; {hint}', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit('\nset-up interrupted; the next make goes on from here')
