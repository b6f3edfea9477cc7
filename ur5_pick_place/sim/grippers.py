# SPDX-License-Identifier: Apache-2.0
"""The grippers that the simulated cell can have, by the names that the task has for them."""

DIGITAL, VACUUM, ACTION = 'digital', 'vacuum', 'action'
"""Fingers on a tool output, a suction cup on two, and fingers behind an action server."""

GRIPPERS = (DIGITAL, VACUUM, ACTION)

GRIPPER_COMMAND, PARALLEL = 'gripper_command', 'parallel_gripper_command'
"""The two types of that action."""
