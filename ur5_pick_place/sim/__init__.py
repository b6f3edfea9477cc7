# SPDX-License-Identifier: Apache-2.0
"""The simulated cell: physics, the driver's behaviour and pictures; no ROS."""
