# SPDX-License-Identifier: Apache-2.0
"""Script and style of every page: keyboard shortcuts, layout of the buttons, look of the texts."""

import json
from html import escape
from pathlib import Path

import viser
from viser._messages import RunJavascriptMessage


def text(html: str, name: str) -> str:
    """Return HTML as a text of the page; `name` says what it is."""
    return f'<div class="cockpit-text cockpit-{name}">{html}</div>'


def line(words: str, look: str) -> str:
    """Return a line of text that looks `good`, `bad` or `plain`."""
    return f'<div class="cockpit-{look}">{escape(words)}</div>'


def add_keys(server: viser.ViserServer) -> None:
    """Add the keys, and the style that puts buttons side by side, to every page."""
    here = Path(__file__)
    script, style = (here.with_suffix(end).read_text(encoding='utf-8') for end in ('.js', '.css'))
    message = RunJavascriptMessage(source=f'({script})({json.dumps(style)})')
    server.gui._websock_interface.queue_message(message)
