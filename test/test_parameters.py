# SPDX-License-Identifier: Apache-2.0
"""Settings as ROS parameters: what people may write, and what `ros2 param describe` tells them."""

from dataclasses import dataclass

import pytest

rclpy = pytest.importorskip('rclpy')

from ur5_pick_place.errors import InvalidInput  # noqa: E402
from ur5_pick_place.nodes.parameters import declare_settings  # noqa: E402
from ur5_pick_place.settings import Settings, setting  # noqa: E402


@dataclass(frozen=True)
class Sample(Settings):
    offset: tuple[float, ...] = setting((0.5, 0.5), 'an offset', low=-1.0, high=1.0, length=2)
    grid: tuple[int, ...] = setting((1, 1), 'cells', low=1, high=50, length=2)
    names: tuple[str, ...] = setting(('a', 'b'), 'names')


@pytest.fixture
def declare(ros_domain):
    """Declare the sample with overrides, in a node that is returned with it."""
    context = rclpy.Context()
    rclpy.init(context=context)
    nodes = []

    def make(**overrides):
        given = [rclpy.Parameter(name, value=value) for name, value in overrides.items()]
        nodes.append(rclpy.create_node('sample', context=context, parameter_overrides=given))
        return nodes[-1], *declare_settings(nodes[-1], Sample)

    yield make
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown(context=context)


def test_whole_numbers_serve_in_a_list_of_floats(declare):
    _, sample = declare(offset=[0, 1])
    assert sample.offset == (0.0, 1.0) and isinstance(sample.offset[0], float)


@pytest.mark.parametrize('value', [[True, False], ['0', '1'], 1.0])
def test_other_kinds_do_not_serve_as_floats(declare, value):
    with pytest.raises(InvalidInput, match='offset'):
        declare(offset=value)


def test_a_list_of_whole_numbers_takes_no_fractions(declare):
    with pytest.raises(InvalidInput, match='grid'):
        declare(grid=[1.0, 2.0])


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('offset', '2 entries, each -1.0 to 1.0'),
        ('grid', '2 entries, each 1 to 50'),
        ('names', ''),
    ],
)
def test_a_list_of_numbers_is_described_with_its_length_and_range(declare, name, text):
    node, _ = declare()
    assert node.describe_parameter(name).additional_constraints == text
