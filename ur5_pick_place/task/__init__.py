# SPDX-License-Identifier: Apache-2.0
"""The pick-and-place task as data and a state machine; owns no clock, thread or ROS."""
