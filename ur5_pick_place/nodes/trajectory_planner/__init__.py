# SPDX-License-Identifier: Apache-2.0
"""The node `trajectory_planner`, the only one that commands motion."""
