# SPDX-License-Identifier: Apache-2.0
"""rclpy glue that knows no robot."""
