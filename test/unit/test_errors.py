# SPDX-License-Identifier: Apache-2.0
"""Errors are one line of bounded length, whatever a name that they repeat holds."""

import numpy as np
import pytest

from ur5_pick_place.errors import IncompletePath, InvalidInput, fixed, one_line, quoted
from ur5_pick_place.task.cycle.file import PlaceSettings


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


def test_a_number_of_numpy_is_quoted_as_a_number():
    assert quoted(np.float64(45.0)) == '45.0' and quoted(np.int64(-3)) == '-3'
    assert quoted((np.float64(1e-9), [np.float32(0.5), 'np.x'])) == "(1e-09, [0.5, 'np.x'])"


def test_of_a_value_no_more_is_quoted_than_a_person_reads_before_the_reason():
    assert quoted('x' * 118) == repr('x' * 118)
    assert quoted(list(range(2000))).startswith('[0, 1, 2') and len(quoted('y' * 10**6)) < 160
    with pytest.raises(InvalidInput) as error:
        PlaceSettings.from_dict('z' * 5000)
    assert str(error.value).index('must be a mapping') < 200


@pytest.mark.parametrize(('value', 'text'), [(-0.04, '0.0'), (-0.0, '0.0'), (-0.06, '-0.1')])
def test_zero_has_no_sign(value, text):
    assert fixed(value, 1) == text


def test_of_a_long_text_head_and_tail_stay(rng):
    text = 'group ' + 1_000_000 * '\n' + ' is unknown'
    line = one_line(text)
    assert line.startswith('group \\n') and line.endswith('\\n is unknown')
    assert '[... 996017 characters ...]' in line
    assert len(line) < 8100 and line.isprintable()
