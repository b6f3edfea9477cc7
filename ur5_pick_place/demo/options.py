# SPDX-License-Identifier: Apache-2.0
"""The command line of the demo, checked completely before anything starts."""

import argparse
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ur5_pick_place.commands.arguments import add_mounting, add_ur_type
from ur5_pick_place.config_files import user_path
from ur5_pick_place.control.loops.line_follower import METHODS
from ur5_pick_place.demo.configuration import CellSetup
from ur5_pick_place.demo.cycle_layout import Task, layout, read_cycle, task_of, wall_across
from ur5_pick_place.demo.spots import (
    Displacement,
    Spot,
    SpotChecker,
    check_apart,
    default_spots,
    spot_of,
)
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.kinematics.mounting import FLOOR
from ur5_pick_place.planning.scene.scene_file import scene_from_dict
from ur5_pick_place.sim.grippers import DIGITAL, GRIPPERS
from ur5_pick_place.sim.layouts import home
from ur5_pick_place.sim.physics.cell import PART_SIZE
from ur5_pick_place.task.cycle.file import Cycle
from ur5_pick_place.task.motions import IK
from ur5_pick_place.terminal import Parser, number_within, seed_number

_ALL = 'all'
_PAIR = ('start', 'target')
_NEEDS = {'start': ('start',), 'target': ('target',), 'seed': _PAIR, 'wall': _PAIR}
"""The places that a cycle must have, by option."""
_RTF = (0.05, 5.0)
_WALL = (0.05, 0.6)  # [m]
_SHIFT = 10.0  # [mm]; the open gripper has 12 mm of clearance on either side of the cube
_TURN = 20.0  # [deg]


@dataclass(frozen=True)
class DemoOptions:
    setup: CellSetup
    methods: tuple[str, ...]  # one run per method
    task: Task
    rtf: float  # simulated seconds per second
    seed: int | None  # seed of the random spots, None for the default spots
    out: Path  # folder for the results
    wall: float  # height of a wall between start and target [m]; 0 = none
    cycle_file: Path
    cycle: Cycle  # read from it
    grid: tuple[int, ...] | None  # cells along x and y, and layers, at target; None = one cell

    @property
    def boxes(self) -> list[dict[str, Any]]:
        """What else stands in the cell, as in a scene file."""
        if not self.wall:
            return []
        return [wall_across(self.task.spots['start'], self.task.spots['target'], self.wall)]


def read_options(arguments: Sequence[str]) -> DemoOptions:
    """
    Read and check the command line.

    Raises `InvalidInput`: a spot is out of reach, the cycle file is invalid or does not go with
    the other options, or the output folder cannot be used; `SystemExit`: help was requested, or an
    argument is malformed.
    """
    given = _parser().parse_args(arguments)
    out = user_path(given.out)
    _check_out(out)
    path, cycle = read_cycle(given.cycle, given.gripper)
    setup = CellSetup.read(given)
    checker = SpotChecker(setup)
    task = task_of(cycle, _spots(given, cycle, checker, setup), given.grid, given.displace)
    _check(task, checker, setup)
    methods = (IK, *METHODS) if given.method == _ALL else (given.method,)
    options = DemoOptions(
        setup, methods, task, given.rtf, given.seed, out, given.wall, path, cycle, given.grid
    )
    if given.wall or setup.mounting != FLOOR:
        _check_home(options)
    return options


def _spots(
    given: argparse.Namespace, cycle: Cycle, checker: SpotChecker, setup: CellSetup
) -> dict[str, Spot]:
    """Return where each place of the cycle is taught: laid out, given, or random."""
    spots = layout(cycle, setup)
    own = {n: spot._replace(setup=setup) for n in _PAIR if (spot := getattr(given, n))}
    for option, names in _NEEDS.items():
        value = getattr(given, option)
        missing = [name for name in names if name not in spots]
        if value not in (None, 0.0) and missing:
            raise InvalidInput(
                f'--{option} needs a place named {missing[0]}, which the cycle {given.cycle} does '
                f'not have, only {", ".join(spots)}: leave it out'
            )
    if given.seed is not None:
        rng = np.random.default_rng(given.seed)
        pair = checker.random_pair(rng, own.get('start'), own.get('target'))
        return {**spots, **dict(zip(_PAIR, pair, strict=True))}
    return spots | own


def _check(task: Task, checker: SpotChecker, setup: CellSetup) -> None:
    """Raise `InvalidInput` if a cube cannot be carried to where it ends, or two overlap."""
    for pick, release in task.moves:
        checker.check_pair(task.spots[pick], task.spots[release], (pick, release))
    for name, spot in task.spots.items():
        checker.check_spot(name, spot)
    check_apart(task.spots)
    picks = {pick: task.spots[pick] for pick, _ in task.moves}
    for number, T in enumerate(task.ends[len(task.moves) :], len(task.moves) + 1):
        name, (spot, height) = f'end of cube {number}', spot_of(T, setup)
        checker.check_spot(name, spot, height - PART_SIZE / 2)
        check_apart({**picks, name: spot})


def _check_home(options: DemoOptions) -> None:
    """Raise `InvalidInput` if the arm cannot wait at home among what stands in the cell."""
    # A slow import, which the usual cell does not need.
    from ur5_pick_place.planning.collision.collision import collision_model

    setup = options.setup
    scene = scene_from_dict(setup.scene_content(options.boxes))
    model = collision_model(setup.model, replace(scene, mounting=setup.mounting))
    if contact := model.check(home(setup.mounting)):
        raise InvalidInput(
            f'at home {contact}: choose a lower --wall, other spots, or another --mounting'
        )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog='demo',
        description='Run a cycle on the simulated cell. A spot "x y yaw" is the centre of '
        'the cube on the table (arm at 0, 0, x forward), in metres and degrees.',
        epilog='Exit code: 0 if every cube was placed, 1 on failure, 2 on invalid arguments. '
        'Example: demo --method all --start "0.45 -0.2 0" --target "0.4 0.25 30"',
    )
    parser.add_argument(
        '--method',
        choices=(IK, *METHODS, _ALL),
        default=IK,
        help='how Cartesian paths are followed (default: %(default)s)',
    )
    add_setup(parser)
    _add_spots(parser)
    parser.add_argument(
        '--grid',
        type=_grid,
        metavar='"NX NY LAYERS"',
        help='fill a pallet of cubes at target, one cycle per cell; the numbers of '
        'cells along x and y of the TCP, and of layers',
    )
    parser.add_argument('--out', default='out', help='folder for the results (default: out)')
    return parser


def add_start_and_target(parser: argparse.ArgumentParser, remark: str = '') -> None:
    """Add the options of the spots where the cube lies and where it goes."""
    for name, default in zip(_PAIR, default_spots(), strict=True):
        text = f'{default.x:g} {default.y:g} {math.degrees(default.yaw):g}'
        parser.add_argument(
            f'--{name}',
            type=_spot,
            metavar='"X Y YAW"',
            help=f'default "{text}" for a ur5{remark}',
        )


def add_setup(parser: argparse.ArgumentParser) -> None:
    """Add the options of a simulated cell, its speed and its cycle; see `CellSetup.read`."""
    add_ur_type(parser)
    add_mounting(parser, '; the table is then below the arm, where it reaches')
    parser.add_argument(
        '--gripper',
        choices=GRIPPERS,
        default=DIGITAL,
        help='fingers on an output, a suction cup, or fingers behind an action server (default: '
        '%(default)s)',
    )
    parser.add_argument(
        '--rtf',
        type=number_within(*_RTF),
        default=1.0,
        help='simulated seconds per wall second (default: 1; reliable up to about 3)',
    )
    parser.add_argument(
        '--cycle',
        default='',
        metavar='FILE',
        help='cycle file, such as cycle_two_boxes.yaml of config/; its places are laid out on the '
        'table (default: cycle.yaml there)',
    )


def _add_spots(parser: argparse.ArgumentParser) -> None:
    """Add the options of where the cube lies, where it goes, and what stands in its way."""
    add_start_and_target(parser, '; random with --seed')
    parser.add_argument(
        '--displace',
        type=_displacement,
        metavar='"DX DY DYAW"',
        help=f'displace the cube after teaching: dx and dy within {_SHIFT:g} mm together, dyaw '
        f'within {_TURN:g} degrees',
    )
    parser.add_argument(
        '--wall',
        type=number_within(*_WALL),
        default=0.0,
        metavar='HEIGHT',
        help='put a wall of this height [m] between start and target',
    )
    parser.add_argument(
        '--seed',
        type=seed_number,
        help='seed of random spots, in place of those that are not given',
    )


def _spot(text: str) -> Spot:
    x, y, yaw = _numbers(text, 'x y yaw, metres and degrees')
    return Spot(x, y, math.radians(yaw))


def _displacement(text: str) -> Displacement:
    dx, dy, dyaw = _numbers(text, 'dx dy dyaw, millimetres and degrees')
    if math.hypot(dx, dy) > _SHIFT or abs(dyaw) > _TURN:
        raise argparse.ArgumentTypeError(
            f'{text!r}: must be within {_SHIFT:g} mm and {_TURN:g} deg, or the gripper misses the '
            'cube'
        )
    return Displacement(dx * 1e-3, dy * 1e-3, math.radians(dyaw))


def _numbers(text: str, wanted: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.replace(',', ' ').split()]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise argparse.ArgumentTypeError(f'{text!r}: must be three finite numbers: {wanted}')
    return numbers


def _grid(text: str) -> tuple[int, ...]:
    words = text.split()
    if len(words) != 3 or not all(word.isdecimal() and 0 < int(word) < 10 for word in words):
        raise argparse.ArgumentTypeError(f'{text!r}: must be three whole numbers, 1 to 9')
    return tuple(map(int, words))


def _check_out(out: Path) -> None:
    check_folder(out)
    latest = out / 'latest'
    if latest.exists() and not latest.is_symlink():
        raise InvalidInput(f'--out {out}: {latest} is not a symlink; rename or remove it')


def check_folder(folder: Path) -> None:
    """Refuse, with `InvalidInput`, a folder in which nothing can be written."""
    existing = folder
    try:
        paths = (folder, *folder.absolute().parents)  # if the working directory exists
        existing = next(path for path in paths if os.path.lexists(path))  # a link to nothing too
        with tempfile.TemporaryFile(dir=existing):  # access rights tell nothing of quotas, shares
            pass
    except OSError as error:
        raise InvalidInput(
            f'--out {folder}: {existing} is not a writable folder: {error.strerror}'
        ) from error
