# SPDX-License-Identifier: Apache-2.0
"""The controllers of the simulated driver, as ros2_control has them."""
