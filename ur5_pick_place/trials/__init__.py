# SPDX-License-Identifier: Apache-2.0
"""What tries, measures and shows the robot: demo, faults, soak, comparison, reports."""
