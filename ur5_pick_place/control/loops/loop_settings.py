# SPDX-License-Identifier: Apache-2.0
"""Settings of the closed loops, and their values in the student project."""

from dataclasses import dataclass

from ur5_pick_place.settings import Settings, setting


@dataclass(frozen=True)
class LoopSettings(Settings):
    """How the closed-loop methods follow a line, settle and give up."""

    loop_gain: float = setting(
        5.0,
        'gain K: fraction of the pose error corrected per second; above 5 an arm with 0.1 s of '
        'servo lag overshoots',
        unit='1/s',
        low=0.1,
        high=10.0,
    )
    loop_hold: float = setting(
        0.0,
        'how long one joint velocity is held, ten times as long with the speed slider at 10 %; '
        '0 = one control cycle',
        unit='s',
        low=0.0,
        high=1.0,
    )
    loop_length: float = setting(
        0.3,
        'metres equivalent to one radian, in closed loops but not in jogging; 0.3 conditions the '
        'Jacobian best',
        unit='m',
        low=0.01,
        high=2.0,
    )
    loop_lead: float = setting(
        0.03,
        'lookahead of resolved_rate: distance of its goal from the tool along the line, radians '
        'converted by loop_length; times loop_gain it is the speed',
        unit='m',
        low=0.005,
        high=10.0,
    )
    loop_gradient_lead: float = setting(
        0.01,
        'lookahead of gradient, which may leave the line by half of it; the open gripper has '
        '12 mm beside a part',
        unit='m',
        low=0.002,
        high=10.0,
    )
    loop_velocity: float = setting(
        1.0,
        'largest joint velocity of a closed loop; times servo lag it must stay below loop_gap',
        unit='rad/s',
        low=0.05,
        high=3.2,
    )
    loop_position_threshold: float = setting(
        0.2, 'position error at which the goal is reached', unit='mm', low=0.05, high=50.0
    )
    loop_angle_threshold: float = setting(
        0.1, 'orientation error at which the goal is reached', unit='deg', low=0.01, high=10.0
    )
    loop_corridor: float = setting(
        0.1,
        'largest distance of any joint from the roll-out; what path_tolerance is for trajectories',
        unit='rad',
        low=0.01,
        high=0.5,
    )
    loop_gap: float = setting(
        0.15,
        'largest distance of any joint from its reference, about servo lag times speed; the '
        'controller aborts at 0.2 rad',
        unit='rad',
        low=0.01,
        high=0.19,
    )
    loop_ahead: float = setting(
        0.08,
        'time for which the motion is committed in advance; a segment that arrives later than '
        'this has no effect',
        unit='s',
        low=0.016,
        high=0.4,
    )
    loop_patience: float = setting(
        2.0,
        'longest time in which the error does not decrease, ten times as long with the speed '
        'slider at 10 %',
        unit='s',
        low=0.5,
        high=30.0,
    )


# q_{k+1} = q_k - K T_step J_b^-1 xi_k, towards the goal itself from the first step on.
PICK_AND_PLACE_PROJECT = LoopSettings(
    loop_gain=1.0,
    loop_hold=0.5,
    loop_lead=10.0,
    loop_gradient_lead=10.0,
    loop_position_threshold=10.0,
    loop_angle_threshold=1.0,
)
"""The settings of the student project that this package's task comes from."""
