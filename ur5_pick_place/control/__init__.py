# SPDX-License-Identifier: Apache-2.0
"""Execution of motions: closed loops, supervision, braking and the stop latch; no ROS."""
