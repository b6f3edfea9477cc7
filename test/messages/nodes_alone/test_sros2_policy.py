# SPDX-License-Identifier: Apache-2.0
"""The SROS2 policy allows each node what it offers and uses, and only one to command motion."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from callbacks import nodes_alone

CONFIG = Path(__file__).parents[3] / 'config'
NODES = ('ik_service', 'trajectory_planner', 'pick_place')
# The kinds of a policy's entries by the kinds of a node's endpoints.
TOPICS = {'publisher': ('topics', 'publish'), 'subscriber': ('topics', 'subscribe')}
SERVICES = {'service': ('services', 'reply'), 'client': ('services', 'request')}
ACTIONS = {'service': ('actions', 'execute'), 'client': ('actions', 'call')}
MOTION = ('joint_trajectory', 'follow_joint_trajectory', 'commands')
OUTPUTS = ('set_io', 'set_payload', 'set_analog_output', 'set_speed_slider')

Allowed = set[tuple[str, str, str]]  # group, verb, name


def allowed(node: str) -> Allowed:
    """Return what the policy allows a node."""
    root = ElementTree.parse(CONFIG / 'sros2_policy.xml').getroot()
    (profile,) = root.findall(f'.//enclave[@path="/{node}"]/profiles/profile')
    assert (profile.get('ns'), profile.get('node')) == ('/', node)
    entries = set()
    for group in profile:
        ((verb, qualifier),) = group.items()
        assert qualifier == 'ALLOW'
        entries |= {(group.tag, verb, entry.text or '') for entry in group}
    return entries


@pytest.fixture(scope='module')
def graph(ros_domain: int) -> Iterator[dict[str, Allowed]]:
    """Give what each of our nodes offers and uses, as entries of a policy."""
    from ur5_pick_place.nodes.ik_service.node import IkService
    from ur5_pick_place.nodes.pick_place.node import PickPlace
    from ur5_pick_place.nodes.trajectory_planner.node import TrajectoryPlanner

    with nodes_alone(IkService, TrajectoryPlanner, PickPlace) as nodes:
        yield {node.get_name(): endpoints(node) for node in nodes}


def endpoints(node: object) -> Allowed:
    found: Allowed = {('topics', 'subscribe', 'clock')}  # with use_sim_time
    names = {
        kind: [
            name.lstrip('/')
            for name, _ in getattr(node, f'get_{kind}_names_and_types_by_node')(
                node.get_name(), '/'
            )
        ]
        for kind in (*TOPICS, *SERVICES)
    }
    whole = set()
    for kind, entry in ACTIONS.items():
        for name in names[kind]:
            action, _, part = name.partition('/_action/')
            if part == 'send_goal':
                whole.add(action)
                found.add((*entry, action))
    for kind, entry in {**TOPICS, **SERVICES}.items():
        found |= {(*entry, n) for n in names[kind] if n.partition('/_action/')[0] not in whole}
    return found


@pytest.mark.parametrize('node', NODES)
def test_each_node_is_allowed_what_it_offers_and_uses_and_no_more(graph, node):
    newer = {
        (group, verb, name.replace('scaled_joint_trajectory', 'joint_trajectory'))
        for group, verb, name in graph[node]
    }
    assert allowed(node) == graph[node] | newer


def test_one_node_commands_motion_and_one_the_outputs():
    asking = {'publish', 'request', 'call'}
    for words, only in ((MOTION, 'trajectory_planner'), (OUTPUTS, 'pick_place')):
        who = {
            node
            for node in NODES
            for _, verb, name in allowed(node)
            if verb in asking and name.rpartition('/')[2] in words
        }
        assert who == {only}
