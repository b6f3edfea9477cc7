# SPDX-License-Identifier: Apache-2.0
"""The kinds of gripper, each in a file of its own behind the interface of `base`."""
