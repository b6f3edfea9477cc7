# SPDX-License-Identifier: Apache-2.0
"""Paths, timing, scene and the gate that every motion passes; no ROS."""
