# SPDX-License-Identifier: Apache-2.0
"""Programs and text commands that arrive on the primary, secondary and real-time ports."""

import re

from ur5_pick_place.sim.controller.controller import Controller

MOST_TEXT = 1 << 21
"""Bytes that a program may have."""

_OPENS = re.compile(rb'(def|sec|thread|while|if|for|struct)\b')
_CLOSES = re.compile(rb'end\b')
_BLANK = re.compile(rb'\s*(#.*)?$')


def split_programs(inbox: bytearray, is_complete: bool = False) -> list[str]:
    """
    Take the complete programs out of what has arrived.

    A program is a `def` or `sec` that begins and ends in the first column, or a single line.
    Comments and blank lines stay with the program that follows, so that its lines count as sent.
    `is_complete`: nothing more will arrive, so that the last line needs no newline.

    """
    end = len(inbox) if is_complete else inbox.rfind(b'\n') + 1
    lines = bytes(inbox[:end]).splitlines(keepends=True)
    programs: list[str] = []
    depth = first = 0
    for i, line in enumerate(lines):
        if _OPENS.match(line):
            depth += 1
        elif depth and _CLOSES.match(line):
            depth -= 1
        if not depth and not _BLANK.match(line):
            programs.append(b''.join(lines[first : i + 1]).decode('utf-8', 'replace'))
            first = i + 1
    # What has begun stays until its end arrives.
    del inbox[: sum(map(len, lines[:first]))]
    return programs


def execute(controller: Controller, text: str) -> None:
    """Do a text command, or run a program."""
    command = {
        'power on': controller.power_on,
        'power off': controller.power_off,
        'set robotmode run': controller.release_brakes,
        # The wait of 5 s is PolyScope's, not the controller's.
        'set unlock protective stop': controller.unlock_soon,
        'stop program': controller.stop,
        'set sim': bool,
        'set real': bool,
    }.get(text.strip().lower())
    if command is not None:
        command()
    else:
        controller.run(text if text.endswith('\n') else text + '\n')
