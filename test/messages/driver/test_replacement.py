# SPDX-License-Identifier: Apache-2.0
"""The planner keeps the controller from splicing trajectories, and says where it cannot."""

import threading

import pytest
import rclpy
from fake_graph import Graph
from rcl_interfaces.msg import SetParametersResult

from ur5_pick_place.client.preflight import collect
from ur5_pick_place.nodes.cell.node_list import REMAPPINGS
from ur5_pick_place.nodes.driver.trajectory_controller import SPLICES, Replacement
from ur5_pick_place.nodes.ros.diagnostics import GRIPPER, STREAMS, Diagnostics


class Bench:
    """A `Replacement`, and a controller with or without the parameter."""

    def __init__(self, graph: Graph):
        self.graph, self.replacement = graph, Replacement(graph.node, 'some_controller')

    def load(self, value, refusal=''):
        """Load the controller with a value in its file; None = it does not know the parameter."""
        self.controller = self.graph.begin('some_controller')
        if value is not None:
            self.controller.declare_parameter(SPLICES, value)
        if refusal:
            self.refuse = lambda _: SetParametersResult(successful=False, reason=refusal)
            self.controller.add_on_set_parameters_callback(self.refuse)

    def unload(self):
        self.graph.end(self.controller)

    @property
    def value(self):
        return self.controller.get_parameter(SPLICES).value

    @property
    def why_not(self):
        return self.replacement.why_no_stream

    def until(self, condition):
        def is_so():
            self.replacement.update()
            return condition()

        self.graph.until(is_so, 20.0)


@pytest.fixture
def bench(graph):
    return Bench(graph)


@pytest.mark.parametrize('value', [False, None])
def test_a_controller_that_restarts_is_left_as_it_is(bench, value):
    assert 'some_controller/get_parameters' in bench.why_not, 'not known yet'
    bench.load(value)
    bench.until(lambda: not bench.why_not)
    assert value is None or bench.value is False


def test_a_controller_that_splices_is_set_and_set_again_once_it_is_loaded_anew(bench):
    bench.load(True)
    bench.until(lambda: not bench.why_not)
    assert bench.value is False
    bench.controller.set_parameters([rclpy.Parameter(SPLICES, value=True)])
    bench.until(lambda: bench.value is False)
    bench.unload()
    bench.load(True)
    bench.until(lambda: bench.value is False)
    bench.until(lambda: not bench.why_not)


def test_a_refusal_is_told_with_its_reason_until_it_is_over(bench):
    bench.load(True, 'not while it is raining')
    bench.until(lambda: 'refuses' in bench.why_not)
    assert SPLICES in bench.why_not and 'not while it is raining' in bench.why_not
    bench.controller.remove_on_set_parameters_callback(bench.refuse)
    bench.until(lambda: not bench.why_not)
    assert bench.value is False


@pytest.mark.drill
def test_preflight_hears_of_streams_and_gripper_from_the_nodes_of_its_namespace(graph):
    """It hears too how a driver has refused its robot, which was said before it listened."""
    driver = rclpy.create_node('controller_manager', enable_rosout=True)
    graph.nodes.append(driver)
    said = "The connected robot is of type 'UR5' and version 5.22 but the driver was configured"
    driver.get_logger().fatal(said)
    remap = [word for a, b in REMAPPINGS for word in ('-r', f'{a}:={b}')]
    for namespace, why in (('cell_b', 'it refuses'), ('cell_c', 'of another cell')):
        for name, key in (('trajectory_planner', STREAMS), ('pick_place', GRIPPER)):
            node = rclpy.create_node(
                name, namespace=namespace, cli_args=['--ros-args', *remap]
            )
            Diagnostics(node, lambda: (True, 'ready'), lambda key=key, why=why: {key: why})
            graph.nodes.append(node)
            graph.executor.add_node(node)
    spinning = threading.Thread(target=graph.executor.spin, daemon=True)
    spinning.start()
    seen = collect('cell_b')
    assert seen.why_no_stream == seen.gripper == 'it refuses'
    assert seen.driver_refusal == said
