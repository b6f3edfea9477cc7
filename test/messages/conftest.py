# SPDX-License-Identifier: Apache-2.0
"""The fixtures that tests with messages share."""

from callbacks import services as services
from fake_graph import context as context
from fake_graph import graph as graph
from fake_graph import talk as talk
from scene_clients import book as book
