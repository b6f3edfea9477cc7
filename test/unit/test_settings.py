# SPDX-License-Identifier: Apache-2.0
"""Settings refuse what is outside their type or bounds, and say so."""

from dataclasses import dataclass

import pytest

from ur5_pick_place.config_files import parse_yaml
from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.settings import REQUIRED, Settings, setting


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
    with pytest.raises(InvalidInput, match="unknown key 'heigth'; known are: height"):
        Sample.from_dict({'heigth': 1.0})


@dataclass(frozen=True)
class Nested(Settings):
    first: Sample = setting(REQUIRED, 'one', kind=Sample)
    more: tuple[Sample, ...] = setting((), 'several', of=Sample)
    named: dict[str, Sample] | None = setting(
        None, 'by name', kind=dict, of=Sample, choices=('x', 'y')
    )
    until: float | None = setting(None, 'optional', kind=float)


def test_nested_settings_are_read_from_nested_mappings():
    content = {'first': {}, 'more': [{'count': 4}], 'named': {'x': {'kind': 'b'}}, 'until': 2}
    assert Nested.from_dict(content) == Nested(
        Sample(), (Sample(count=4),), {'x': Sample(kind='b')}, 2.0
    )
    assert Nested.from_dict({'first': {}, 'more': None}).more == ()


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        ([], r'settings = \[\]: must be a mapping with first, more, named, until'),
        ({}, "settings lacks the key 'first'"),
        ({'first': None}, 'first = None: must be a mapping with height, count'),
        ({'first': {'offset': [0, 9]}}, r'first\.offset\[1\] = 9 m: must lie in -inf to 1\.0 m'),
        ({'first': {}, 'more': {}}, 'more = {}: must be a list'),
        ({'first': {}, 'more': [{}, {'cuont': 1}]}, r"more\[1\] has the unknown key 'cuont'"),
        ({'first': {}, 'named': {'z': {}}}, "named: key = 'z': must be one of x, y"),
        ({'first': {}, 'named': {'y': {'count': 0}}}, r'named\.y\.count = 0: must lie in 1'),
        ({'first': {}, 'until': 'ever'}, "until = 'ever': must be a finite number"),
    ],
)
def test_what_is_wrong_in_nested_mappings_is_named_by_its_place(content, message):
    with pytest.raises(InvalidInput, match=message):
        Nested.from_dict(content)


def test_numbers_that_only_pyyaml_takes_for_text_are_numbers():
    """As in ROS, which reads the same parameter files."""
    assert parse_yaml(b'[-.5, +.5, -.5e-3, .5e3, 1e-5]') == [-0.5, 0.5, -5e-4, 500.0, 1e-5]
    assert parse_yaml(b'[-., .e5, 1.2.3]') == ['-.', '.e5', '1.2.3']


def test_what_only_yaml_1_1_takes_for_numbers_and_dates_is_text():
    """As in ROS and for the UR driver."""
    texts = ['1:30', '1:30.5', '-190:20', '2026-11-27', '2026-11-27 10:00:00']
    assert parse_yaml(f'[{", ".join(texts)}]'.encode()) == texts
