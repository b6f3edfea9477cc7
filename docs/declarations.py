# SPDX-License-Identifier: Apache-2.0
"""Print, as JSON, the parameters, topics, services and actions that our nodes declare."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import rclpy

from ur5_pick_place.cockpit.node import Cockpit
from ur5_pick_place.nodes.ik_service.node import IkService
from ur5_pick_place.nodes.pick_place.node import PickPlace
from ur5_pick_place.nodes.recorder.node import Recorder
from ur5_pick_place.nodes.sim.driver import SimDriver
from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner
from ur5_pick_place.task.grippers.registry import KINDS

_OF_EVERY_NODE = re.compile(r'rosout|tf|tf_static|clock|diagnostics|.*parameter.*|.*/get_type_.*')
_ROS_OWN = ('use_sim_time', 'start_type_description_service', 'qos_overrides')
_QUERIES = {
    'service': 'service',
    'client': 'calls service',
    'publisher': 'publishes',
    'subscriber': 'subscribes',
}


def declarations() -> dict[str, Any]:
    """Create each node of the simulated cell, without running it, and return what it declares."""
    ours, others = (IkService, TrajectoryPlanner, PickPlace, Recorder), (Cockpit, SimDriver)
    file = Path(__file__).parents[1] / 'config/robot_sim.yaml'
    rclpy.init(args=['--ros-args', '--params-file', str(file), '-p', 'port:=0'])
    nodes = [kind() for kind in (*ours, *others)]
    of_grippers = {f.name for kind in KINDS.values() for f in fields(kind.settings_type)}
    declared: dict[str, Any] = {}
    for node in nodes:
        for name, descriptor in node._descriptors.items():
            if name not in of_grippers and not name.startswith(_ROS_OWN):
                given = node.get_parameter(name).value
                entry = declared.setdefault(name, ([], *described(descriptor), given))
                entry[0].append(node.get_name())
    simulated = [entry for entry in endpoints(nodes[-1]) if entry[1].startswith('sim_driver/')]
    found = {node.get_name(): endpoints(node) for node in nodes[: len(ours)]}
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()
    return {'interfaces': found, 'simulated': simulated, 'parameters': declared}


def described(descriptor: Any) -> tuple[str, str]:
    """Return description and range of a parameter."""
    within = descriptor.additional_constraints
    for found in (*descriptor.floating_point_range, *descriptor.integer_range):
        ends = ['' if abs(v) >= 1e300 else f'{v:g}' for v in (found.from_value, found.to_value)]
        within = ' … '.join(ends)
    return descriptor.description, within


def endpoints(node: Any) -> list[tuple[str, str, str]]:
    """Return (verb, name, type) of the services, actions and topics of a node."""
    found = []
    for what, verb in _QUERIES.items():
        query = getattr(node, f'get_{what}_names_and_types_by_node')
        for full, (kind, *_) in query(node.get_name(), '/'):
            name, _, part = full.removeprefix('/').partition('/_action/')
            if part == 'send_goal':
                found.append((verb.replace('service', 'action'), name, kind[: -len('_SendGoal')]))
            elif not part and not _OF_EVERY_NODE.fullmatch(name):
                found.append((verb, name, kind))
    return found


if __name__ == '__main__':
    print(json.dumps(declarations()))
