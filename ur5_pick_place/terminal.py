# SPDX-License-Identifier: Apache-2.0
"""Command-line behaviour that all commands share."""

import argparse
import contextlib
import errno
import functools
import importlib
import io
import math
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from ur5_pick_place.errors import InvalidInput, Ur5PickPlaceError

T = TypeVar('T')

_PACKAGE = 'ur5_pick_place'
_ROS = (
    'comes with ROS 2 (rosdep install, then source its setup.bash) or with make setup; pip '
    'install without them gives ik, fk and ur5_pick_place.kinematics'
)
_VISER = 'the cockpit needs viser: pip install viser==1.1.1'
_CURES = {
    **dict.fromkeys(('viser', 'trimesh', 'websockets', 'msgspec'), _VISER),
    # It has no rosdep key.
    'ruckig': 'pip install ruckig==0.19.4 into the environment that ROS 2 runs in, or make setup',
}

_SEED_DIGITS = 18
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FAR = 10.0  # [m]
_NEGATIVE = re.compile(r'-\.?\d')


def run_main(module: str) -> Any:
    """Run `main` of a module of this package; exit in one line where a library is missing."""
    # Under PYTHONWARNINGS=error those of rclpy's own libraries would end each node.
    warnings.simplefilter('ignore', DeprecationWarning)
    # Figures go into files. A notebook sets its own backend for all that it starts, and matplotlib
    # cannot be imported with one that is not installed.
    os.environ['MPLBACKEND'] = 'agg'
    try:
        main = importlib.import_module(f'{_PACKAGE}.{module}').main
    except ModuleNotFoundError as error:
        library = (error.name or '').partition('.')[0]
        if library in ('', _PACKAGE):
            raise
        print(f'{library} is not installed: {_CURES.get(library, f"it {_ROS}")}', file=sys.stderr)
        sys.exit(2)
    return main()


class Parser(argparse.ArgumentParser):
    """Accepts -4e-1 and -0.3,0.4,0 as values, which argparse takes for options."""

    def parse_known_args(  # type: ignore[override]  # typeshed has an overload for each namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Return the parsed arguments; a space before a negative number makes it a value."""
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args(
            [f' {word}' if _NEGATIVE.match(word) else word for word in words], namespace
        )


def reading(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader of a command-line text whose `InvalidInput` argparse prints as it is."""

    def convert(text: str) -> T:
        try:
            return read(text)
        except InvalidInput as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def seed_number(text: str) -> int:
    """Return the seed of random numbers from its command-line text."""
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= _SEED_DIGITS):
        raise argparse.ArgumentTypeError(
            f'{word!r}: must be a whole number, 0 or more, of at most {_SEED_DIGITS} digits'
        )
    return int(word)


def number_within(low: float, high: float, kind: type = float) -> Callable[[str], Any]:
    """Return a converter of a command-line text to a number of a kind within bounds."""

    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            what = 'a whole number' if kind is int else 'a number'
            raise argparse.ArgumentTypeError(f'{text!r}: must be {what} in {low:g} to {high:g}')
        return value

    return convert


def check_metres(name: str, position: Sequence[float]) -> None:
    """
    Refuse a position far out of reach, such as one in millimetres.

    Raises `InvalidInput`: it is more than `_FAR` away; names it, and asks whether it is in
    millimetres.
    """
    far = math.hypot(*position)
    if far > _FAR:
        numbers = ' '.join(f'{v:g}' for v in position)
        raise InvalidInput(
            f'{name} {numbers}: is {far:g} m away, no arm reaches farther than 2 m; '
            'metres, not mm?'
        )


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """
    Exit like Unix tools when the reader closes the pipe, as in `ik … | head -3`.

    What the terminal cannot show, such as `↷` in Latin-1, is printed as Python writes it.
    What goes to a stream that is closed, as after `ik … >&-`, is dropped. What else the system
    refuses, such as a temporary file on a full disk, ends the command in one line.
    """
    nowhere = Path(os.devnull)
    sys.stdout = sys.stdout or nowhere.open('w', encoding='utf-8')
    sys.stderr = sys.stderr or nowhere.open('w', encoding='utf-8')
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')
    try:
        try:
            yield
        finally:
            print(end='', flush=True)  # here, where a failure can still be caught
    except OSError as error:
        # An error of a file has its name; that of a full disk behind `>` has none.
        is_full = error.errno in _FULL and error.filename is None
        if not (is_full or isinstance(error, BrokenPipeError)):
            sys.exit(f'{Path(sys.argv[0]).name}: {error}')
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if is_full:
            sys.exit(f'the output cannot be written: {error.strerror}')
        sys.exit(128 + signal.SIGPIPE)


def command(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """
    Return a decorator of the `main` of a command, which gives the exit code; as `quiet_pipe`.

    An error of ours becomes a line, and the code 2 if the input is invalid, else 1.
    """

    def decorated(main: Callable[..., int]) -> Callable[..., int]:
        @quiet_pipe()
        @functools.wraps(main)
        def run(*arguments: Any) -> int:
            try:
                return main(*arguments)
            except Ur5PickPlaceError as error:
                print(f'{name}: {error}', file=sys.stderr)
                return 2 if isinstance(error, InvalidInput) else 1

        return run

    return decorated


class Ended(BaseException):
    """Raised when the command receives a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def ending_signals(*always: signal.Signals) -> list[signal.Signals]:
    """
    Return the signals that tell a process to end.

    Those that are ignored, as by nohup, are left out, unless they are in `always`.

    SIGHUP is that of a terminal that is closed, or whose ssh connection is lost.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [n for n in numbers if n in always or signal.getsignal(n) is not signal.SIG_IGN]


@contextlib.contextmanager
def signals_raised() -> Iterator[None]:
    """Raise `Ended` on the first signal to end, and ignore further ones."""
    numbers = ending_signals()
    raised: list[Ended] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # the clean-up must not be interrupted
        raised.append(Ended(number))
        raise raised[0]

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    except BaseException:
        if raised:  # rclpy's C++ may turn what is raised within it into another exception
            raise raised[0] from None
        raise
