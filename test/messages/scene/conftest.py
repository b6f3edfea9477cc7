# SPDX-License-Identifier: Apache-2.0
"""The fixture that tests of the scene share."""

from fake_manager import graph as graph
from scene_clients import book as book
from talk import talk as talk
