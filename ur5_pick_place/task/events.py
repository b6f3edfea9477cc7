# SPDX-License-Identifier: Apache-2.0
"""
The events of the task: every name on `~/event`, and the fields that it carries.

An event is one JSON line: `time` (ROS time [s]), `event` (one of the names below), then its
fields in the order of `FIELDS`.
"""

import json
from types import MappingProxyType
from typing import Any

TAUGHT = 'taught'
"""
A place was taught: the TCP in `base` (x, y, z [m], qx, qy, qz, qw) and the joints [rad].

The warning gives the reason if the arm cannot be there, or above it, in the present scene. The
stamp is that of the pose's header, as text; empty if it was taught from the joints.
"""
CONVERTED = 'converted'
"""A taught place is converted to another tool, payload or calibration: [then, now] by name."""
RECOVERED = 'recovered'
"""The file of poses was damaged and its copy was read instead."""
REFUSED = 'refused'
"""A request to the task node failed; the stamp is as that of `taught`."""
FREEDRIVE = 'freedrive'
"""Freedrive was switched on or off."""

PLANNING = 'planning'
"""
A stage is being planned.

The share, 0 to 1, is that of the work on this branch; the first stage, `places`, has no branch.
"""
PLANNED = 'planned'
"""A run was planned: motion time [s], names of the stages, number of cycles."""
PLAN_REPORT = 'plan_report'
"""The motions of that plan, as `plan_report.plan_rows`."""

STARTED = 'started'
"""A job began."""
DONE = 'done'
"""A job ended successfully."""
STOPPED = 'stopped'
"""A job ended early, or a fault came between jobs: `job` and `stage` are then empty."""
REARMED = 'rearmed'
"""The task accepts jobs again after a stop."""

STAGE = 'stage'
"""The arm entered a stage of the cycle; the remark is on how it was planned."""
CYCLE_DONE = 'cycle_done'
"""Cycle `number` of `of` ended."""
PAUSED = 'paused'
"""The cycle was paused at a stage."""
RESUMED = 'resumed'
"""The cycle continues, with the arm at rest until now."""
WAITING = 'waiting'
"""A stage waits without a fault: for time to pass, for an input, or for the speed slider."""

GRASP_VERIFIED = 'grasp_verified'
"""The part-present input shows the gripped part."""
GRASP_UNVERIFIED = 'grasp_unverified'
"""The gripper closed; no input shows whether it holds a part."""
PLACED = 'placed'
"""A part that was carried was released at a place."""
GRASP_MISSED = 'grasp_missed'
"""The gripper closed on nothing; `tries_left` more attempts follow."""
PART_IN_HAND = 'part_in_hand'
"""A part is held that no cycle of this run gripped, as after a restart."""
PART_LOST = 'part_lost'
"""A carried part was no longer in the gripper when the next job began."""

FIELDS = MappingProxyType(
    {
        TAUGHT: ('place', 'pose', 'joints', 'warning', 'stamp'),
        CONVERTED: ('place', 'changed', 'pose'),
        RECOVERED: ('reason',),
        REFUSED: ('request', 'reason', 'stamp'),
        FREEDRIVE: ('is_on',),
        PLANNING: ('branch', 'stage', 'share'),
        PLANNED: ('branch', 'motion_time', 'stages', 'cycles'),
        PLAN_REPORT: ('rows',),
        STARTED: ('job',),
        DONE: ('job',),
        STOPPED: ('job', 'stage', 'reason'),
        REARMED: (),
        STAGE: ('stage', 'remark'),
        CYCLE_DONE: ('number', 'of'),
        PAUSED: ('stage',),
        RESUMED: ('stage',),
        WAITING: ('stage', 'reason'),
        GRASP_VERIFIED: (),
        GRASP_UNVERIFIED: (),
        PLACED: ('place',),
        GRASP_MISSED: ('reason', 'tries_left'),
        PART_IN_HAND: (),
        PART_LOST: ('stage',),
    }
)
"""Names of the fields by event."""


def read_event(text: str) -> dict[str, Any] | None:
    """Return the event of a message, or None: anybody may publish anything on `~/event`."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_event = isinstance(event, dict) and isinstance(event.get('event'), str)
    return event if is_event else None
