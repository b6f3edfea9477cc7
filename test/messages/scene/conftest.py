# SPDX-License-Identifier: Apache-2.0
"""The fixture that tests of the scene share."""

from fake_graph import graph as graph
from fake_graph import talk as talk
from scene_clients import book as book
