# SPDX-License-Identifier: Apache-2.0
"""Digital pins of a UR robot, inputs and outputs alike, as `set_io` and `io_states` count them."""

DIGITAL_PINS = 18
TOOL_PINS = (16, 17)
"""The two pins at the tool flange."""
TOOL_PIN_0, TOOL_PIN_1 = TOOL_PINS
