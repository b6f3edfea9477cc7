# SPDX-License-Identifier: Apache-2.0
"""Pick and place with a UR5: kinematics, planning, execution and ROS 2 nodes."""

__version__ = '1.0.0'
