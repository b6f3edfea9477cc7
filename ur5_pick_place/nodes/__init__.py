# SPDX-License-Identifier: Apache-2.0
"""The nodes and what they share; below this layer nothing imports ROS."""
