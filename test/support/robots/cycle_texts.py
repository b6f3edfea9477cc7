# SPDX-License-Identifier: Apache-2.0
"""A cycle file with every kind of stage, and the gripper's pins it is checked with."""

GRIPPER = (16,)

GOOD = """\
places: [home, start, target, tray]
stages:
  - {name: open, do: open}
  - {name: start, do: lin, to: start}
  - {name: grip, do: close}
  - {name: verify, do: expect_part}
  - {name: payload, do: payload_part}
  - {name: up, do: lin, to: above_start}
  - {name: tray, do: lin, to: tray}
  - {name: release, do: open}
  - {name: reset, do: payload_tool}
  - {name: lamp, do: set_output, pin: 3, value: true}
  - {name: button, do: wait_input, pin: 0, value: true, timeout: 5}
  - {do: wait, seconds: 0.5}
  - {name: home, do: ptp, to: home}
"""
