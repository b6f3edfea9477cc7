# SPDX-License-Identifier: Apache-2.0
"""Errors are one line of bounded length, whatever a name that they repeat holds."""

import pytest

from ur5_pick_place.errors import IncompletePath, InvalidInput, one_line


@pytest.mark.parametrize('text', ['', 'plain', 'Größe 1 µm', "it's {here}", 'back\\slash'])
def test_printable_text_stays_as_it_is(text):
    assert one_line(text) == text == str(InvalidInput(text))


@pytest.mark.parametrize(
    ('text', 'line'),
    [
        ('a\nb\r\tc', 'a\\nb\\r\\tc'),
        ('\x1b[31mred\x07\x7f\x9b', '\\x1b[31mred\\x07\\x7f\\x9b'),
        ('\u2028\u202e\u200b', '\\u2028\\u202e\\u200b'),
        ('\ud800', '\\ud800'),
        ("'\n'", "'\\n'"),
    ],
)
def test_what_is_not_printable_is_written_out(text, line):
    assert one_line(text) == line == str(IncompletePath(text, 0.5))


def test_of_a_long_text_head_and_tail_stay(rng):
    text = 'group ' + 1_000_000 * '\n' + ' is unknown'
    line = one_line(text)
    assert line.startswith('group \\n') and line.endswith('\\n is unknown')
    assert '[... 996017 characters ...]' in line
    assert len(line) < 8100 and line.isprintable()
