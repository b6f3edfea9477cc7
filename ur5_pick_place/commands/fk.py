# SPDX-License-Identifier: Apache-2.0
"""Print the tool pose of joint positions; needs no running nodes."""

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
from ur5_pick_place.kinematics import BRANCHES, check_joints, classify, forward, singularity
from ur5_pick_place.kinematics.transforms import Array, log_so3, quat_from_matrix, rpy_from_matrix
from ur5_pick_place.terminal import Parser, command


@command('fk')
def main(argv: list[str] | None = None) -> int:
    """Run the command and give its exit code: 0, or 2 if the input is invalid."""
    parser = Parser(
        prog='fk', description=__doc__, epilog='Example: fk 0 -90 90 -90 -90 0 --tip tool0'
    )
    parser.add_argument(
        'joints', nargs=6, type=finite, metavar='Q', help='shoulder pan first, wrist 3 last'
    )
    add_arm_arguments(parser)
    arguments = parser.parse_args(argv)
    if arguments.radians:
        check_radians('joint', arguments.joints)
    arm = read_arm(arguments)
    found = _pose(arm, check_joints(arm.radians_per_unit * np.array(arguments.joints)))
    print(json.dumps(found, indent=2) if arguments.json else '\n'.join(_as_lines(arm, found)))
    return 0


def _pose(arm: Arm, q: Array) -> dict[str, Any]:
    """Return the pose in the units and frame of the command line."""
    T = arm.tip_pose(forward(arm.model, q))
    R = T[:3, :3]
    near = singularity(arm.model, q)
    outside = np.flatnonzero((q < arm.model.q_min) | (q > arm.model.q_max))
    return {
        'robot': arm.model.name,
        'calibration': arm.model.calibration,
        'angle_unit': arm.angle_unit,
        'xyz': T[:3, 3].tolist(),
        'rpy': (rpy_from_matrix(R) / arm.radians_per_unit).tolist(),
        'rotvec': (log_so3(R) / arm.radians_per_unit).tolist(),
        'quat_xyzw': quat_from_matrix(R).tolist(),
        'branch': BRANCHES[classify(arm.model, q)],
        'joints_beyond_limits': (outside + 1).tolist(),
        'shoulder_singularity_m': float(near.shoulder),
        'elbow_singularity': float(near.elbow) / arm.radians_per_unit,
        'wrist_singularity': float(near.wrist) / arm.radians_per_unit,
        'collision': arm.contact(q),
    }


def _as_lines(arm: Arm, found: dict[str, Any]) -> list[str]:
    def numbers(values: list[float]) -> str:
        return ' '.join(f'{round(x, 6) + 0.0:.6f}' for x in values)  # + 0.0: never -0.0

    unit, outside = arm.angle_unit, found['joints_beyond_limits']
    limits = 'all joints within limits'
    if outside:
        limits = f'joints {outside} are outside their limits'
    return [
        f'xyz [m]       {numbers(found["xyz"])}',
        f'rpy [{unit}]     {numbers(found["rpy"])}',
        f'rotvec [{unit}]  {numbers(found["rotvec"])}',
        f'quat x y z w  {numbers(found["quat_xyzw"])}',
        f'branch        {found["branch"]}',
        f'limits        {limits}',
        f'singularity   shoulder {found["shoulder_singularity_m"]:.4f} m, elbow '
        f'{found["elbow_singularity"]:.4f} {unit}, wrist {found["wrist_singularity"]:.4f} {unit}',
        f'collision     {verdict(found["collision"])}',
    ]


if __name__ == '__main__':
    raise SystemExit(main())
