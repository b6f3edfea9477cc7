# SPDX-License-Identifier: Apache-2.0
"""Watching a motion while it runs: supervision, braking and the stop latch; no ROS."""
