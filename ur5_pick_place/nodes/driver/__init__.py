# SPDX-License-Identifier: Apache-2.0
"""All that is said to the UR driver or received from it."""
