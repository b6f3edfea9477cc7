# SPDX-License-Identifier: Apache-2.0
"""Print all joint solutions of a pose as a table; needs no running nodes."""

import argparse
import json
from typing import Any

import numpy as np

from ur5_pick_place.commands.arguments import (
    Arm,
    add_arm_arguments,
    check_radians,
    finite,
    read_arm,
    verdict,
)
from ur5_pick_place.kinematics import (
    HOME,
    MissingBranch,
    Solution,
    explain,
    singularity,
    solutions_near,
)
from ur5_pick_place.kinematics.loading import calibration_offset
from ur5_pick_place.kinematics.transforms import (
    Array,
    exp_so3,
    make_transform,
    matrix_from_quat,
    matrix_from_rpy,
)
from ur5_pick_place.terminal import Parser, check_metres, command

_DISTANCES = ('shoulder_singularity_m', 'elbow_singularity', 'wrist_singularity')
_EPILOG = (
    'Lengths are in metres, angles in degrees unless --radians is given. Columns: q1 to q6 = the '
    'joints; from seed = largest joint difference from the seed; to limit = smallest distance of '
    'a joint from its limit; shoulder, elbow, wrist = distance from that singularity. Exit code: '
    '0 if there is a solution, 1 if there is none, 2 if the input is invalid. '
    'Example: ik --xyz 0.45 -0.2 0.3 --rpy 180 0 90'
)


@command('ik')
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code."""
    arguments = _parser().parse_args(argv)
    check_metres('--xyz', arguments.xyz)
    if arguments.radians:
        for name in ('rpy', 'rotvec', 'seed'):
            check_radians(f'--{name}', getattr(arguments, name) or ())
    arm = read_arm(arguments)
    pose = arm.tool_pose(_pose(arguments, arm.radians_per_unit))
    seed = HOME if arguments.seed is None else arm.radians_per_unit * np.array(arguments.seed)
    solutions = solutions_near(arm.model, pose, seed)
    missing = explain(arm.model, pose, float(seed[5]), seed)
    rows = [_row(arm, solution) for solution in solutions]
    if arguments.json:
        print(json.dumps(_as_json(arm, rows, missing), indent=2))
    else:
        print('\n'.join(_as_table(arm, rows, missing)))
    return 0 if rows else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog='ik', description=__doc__, epilog=_EPILOG)
    parser.add_argument(
        '--xyz', nargs=3, type=finite, required=True, metavar=('X', 'Y', 'Z'), help='position [m]'
    )
    turn = parser.add_mutually_exclusive_group(required=True)
    turn.add_argument(
        '--rpy', nargs=3, type=finite, metavar=('R', 'P', 'Y'), help='about fixed x, y, z axes'
    )
    turn.add_argument('--quat', nargs=4, type=finite, metavar=('X', 'Y', 'Z', 'W'))
    turn.add_argument(
        '--rotvec', nargs=3, type=finite, metavar=('RX', 'RY', 'RZ'), help='as on the pendant'
    )
    parser.add_argument(
        '--seed',
        nargs=6,
        type=finite,
        metavar='Q',
        help='sort solutions by distance to these joints; at a wrist singularity wrist 3 is taken '
        'from here (default: home)',
    )
    add_arm_arguments(parser)
    return parser


def _pose(arguments: argparse.Namespace, angle: float) -> Array:
    if arguments.quat is not None:
        rotation = matrix_from_quat(arguments.quat)
    elif arguments.rpy is not None:
        rotation = matrix_from_rpy(angle * np.array(arguments.rpy))
    else:
        rotation = exp_so3(angle * np.array(arguments.rotvec))
    return make_transform(rotation, arguments.xyz)


def _row(arm: Arm, solution: Solution) -> dict[str, Any]:
    """Return one solution in the units of the command line."""
    near = singularity(arm.model, solution.q)
    margin = np.minimum(solution.q - arm.model.q_min, arm.model.q_max - solution.q).min()
    row = {
        'branch': solution.branch,
        'joints': (solution.q / arm.radians_per_unit).tolist(),
        'distance_to_seed': solution.distance / arm.radians_per_unit,
        'limit_margin': float(margin) / arm.radians_per_unit,
        'shoulder_singularity_m': float(near.shoulder),
        'elbow_singularity': float(near.elbow) / arm.radians_per_unit,
        'wrist_singularity': float(near.wrist) / arm.radians_per_unit,
        'collision': arm.contact(solution.q),
    }
    if arm.model.mounts is not None:
        row['calibration_offset_m'] = float(calibration_offset(arm.model, solution.q)[0])
    return row


def _as_json(
    arm: Arm, rows: list[dict[str, Any]], missing: tuple[MissingBranch, ...]
) -> dict[str, Any]:
    return {
        'robot': arm.model.name,
        'calibration': arm.model.calibration,
        'angle_unit': arm.angle_unit,
        'solutions': rows,
        'missing': [m._asdict() for m in missing],
    }


def _as_table(
    arm: Arm, rows: list[dict[str, Any]], missing: tuple[MissingBranch, ...]
) -> list[str]:
    unit, digits = arm.angle_unit, 4 if arm.radians_per_unit == 1.0 else 2
    heads = [f'q{i} [{unit}]' for i in range(1, 7)]
    heads += [f'from seed [{unit}]', f'to limit [{unit}]']
    heads += ['shoulder [m]', f'elbow [{unit}]', f'wrist [{unit}]']
    widths = [max(10, len(head)) for head in heads]
    lines = [
        f'{"branch":16}'
        + ' '.join(f'{head:>{width}}' for head, width in zip(heads, widths, strict=True))
        + '  collision'
    ]
    for row in rows:
        numbers = [*row['joints'], row['distance_to_seed'], row['limit_margin']]
        numbers += [row[name] for name in _DISTANCES]
        lines.append(
            f'{row["branch"]:16}'
            + ' '.join(
                f'{round(x, digits) + 0.0:{width}.{digits}f}'  # 0.00, never -0.00
                for x, width in zip(numbers, widths, strict=True)
            )
            + f'  {verdict(row["collision"])}'
        )
    lines += [f'{m.branch:16}{m.text}' for m in missing]
    lines += _remarks(rows)
    return lines


def _remarks(rows: list[dict[str, Any]]) -> list[str]:
    offsets = [row['calibration_offset_m'] for row in rows if 'calibration_offset_m' in row]
    if not offsets:
        return []
    return ['', f'Calibration moves the tool by up to {1e3 * max(offsets):.2f} mm at this pose.']


if __name__ == '__main__':
    raise SystemExit(main())
