# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests of what speaks with the driver share."""

from fake_graph import graph as graph
from fake_graph import talk as talk
