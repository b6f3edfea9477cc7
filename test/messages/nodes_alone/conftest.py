# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests of nodes alone share."""

from fake_graph import context as context
from fake_graph import talk as talk
