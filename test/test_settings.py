# SPDX-License-Identifier: Apache-2.0
"""Settings refuse what is outside their type or bounds, and say so."""

from dataclasses import dataclass

import pytest

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import Settings, setting


@dataclass(frozen=True)
class Sample(Settings):
    height: float = setting(0.5, 'a height', unit='m', low=0.0, high=2.0)
    count: int = setting(3, 'a count', low=1)
    offset: tuple[float, ...] = setting((0.0, 0.0), 'an offset', unit='m', high=1.0, length=2)
    kind: str = setting('a', 'a kind', choices=('a', 'b'))
    is_on: bool = setting(False, 'a switch')
    mass: float | None = setting(None, 'must be told', unit='kg', low=0.0, kind=float)


@pytest.mark.parametrize(
    ('key', 'value', 'message'),
    [
        ('height', 740, r'height = 740 m: must lie in 0\.0 to 2\.0 m'),
        ('height', float('nan'), 'finite number in m'),
        ('height', True, 'finite number'),
        ('height', '0.5', 'finite number'),
        ('count', 1.5, 'whole number'),
        ('count', 0, 'must lie in 1 to inf'),
        ('offset', (1.0,), 'must have 2 entries'),
        ('offset', (0.0, 3.0), r'offset\[1\] = 3\.0 m'),
        ('offset', 3.0, 'must be a list'),
        ('kind', 'c', 'one of a, b'),
        ('is_on', 1, 'true or false'),
        ('mass', -1.0, 'must lie in'),
    ],
)
def test_a_bad_value_is_refused_by_name_value_and_bounds(key, value, message):
    with pytest.raises(InvalidInput, match=message):
        Sample(**{key: value})


def test_whole_numbers_serve_as_floats_and_lists_as_tuples():
    sample = Sample(height=1, offset=[0, 1])
    assert isinstance(sample.height, float)
    assert sample.offset == (0.0, 1.0)


def test_a_value_that_must_be_told_stays_none_until_it_is():
    assert Sample().mass is None
    assert Sample(mass=1).mass == 1.0


def test_an_unknown_key_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="unknown setting 'heigth'; known are: height"):
        Sample.from_dict({'heigth': 1.0})
