# SPDX-License-Identifier: Apache-2.0
"""The node `recorder`: recordings and the flight recorder."""
