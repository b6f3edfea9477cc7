# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests of what speaks with the driver share."""

from fake_manager import graph as graph
from talk import talk as talk
