# SPDX-License-Identifier: Apache-2.0
"""The fixture that tests of what a node polls share."""

from fake_graph import talk as talk
