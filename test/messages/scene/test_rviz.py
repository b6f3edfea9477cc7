# SPDX-License-Identifier: Apache-2.0
"""What config/pick_place.rviz shows is there: RViz itself cannot run in a test, its topics can."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from driver_client import DriverClient
from visualization_msgs.msg import Marker, MarkerArray

from ur5_pick_place.demo.processes import NodeProcesses
from ur5_pick_place.nodes.cell.node_list import node_list
from ur5_pick_place.nodes.messages import markers
from ur5_pick_place.nodes.messages.conversions import pose_to_matrix
from ur5_pick_place.planning.scene.scene import Box
from ur5_pick_place.planning.scene.scene_file import load_scene

REPO = Path(__file__).resolve().parents[3]
CONFIG = REPO / 'config'
VIEW = yaml.safe_load((CONFIG / 'pick_place.rviz').read_text())['Visualization Manager']
TYPES = {
    'rviz_default_plugins/MarkerArray': 'visualization_msgs/msg/MarkerArray',
    'rviz_default_plugins/InteractiveMarkers': 'visualization_msgs/msg/InteractiveMarkerUpdate',
}


def shown_topics():
    """Return topic -> type of all that our nodes should publish."""
    topics = {}
    for display in VIEW['Displays']:
        kind = TYPES.get(display['Class'])
        if 'Topic' in display:
            topics[display['Topic']['Value']] = kind
        elif 'Interactive Markers Namespace' in display:
            topics[f'{display["Interactive Markers Namespace"]}/update'] = kind
    return topics


def test_the_view_shows_arm_plan_solutions_and_places_to_drag():
    assert shown_topics().keys() == {
        'pick_place/markers', 'planned_path', 'ik_markers', 'pick_place/teach_markers/update',
    }
    shown = {display['Class'] for display in VIEW['Displays']}
    assert {'rviz_default_plugins/RobotModel', 'rviz_default_plugins/TF'} <= shown
    assert VIEW['Tools'][0]['Class'].endswith('/Interact'), 'nothing can be dragged without it'
    assert all(display['Enabled'] for display in VIEW['Displays'])
    (frames,) = [display['Frames'] for display in VIEW['Displays'] if 'Frames' in display]
    assert not {'base_link', 'tcp', 'start', 'target'} & frames.keys(), 'shown unless hidden here'


def test_every_topic_of_the_view_is_published_under_its_type_and_in_the_arms_frames(
    ros_domain, tmp_path
):
    nodes = node_list('mock', CONFIG, namespace='left', tf_prefix='left_')
    with NodeProcesses(nodes, ros_domain, tmp_path) as processes:
        client = DriverClient('left')
        try:
            for topic, kind in shown_topics().items():
                client.until(lambda t=topic: client.node.count_publishers(t), topic, wall=20.0)
                found = dict(client.node.get_topic_names_and_types())[f'/left/{topic}']
                assert found == [kind]
            drawn = client.collect(MarkerArray, 'pick_place/markers')
            client.until(lambda: drawn, 'the scene')
            frames = {m.header.frame_id for m in drawn[0].markers if m.action == Marker.ADD}
            assert frames == {'left_base_link', 'left_tool0'}
            processes.check()
        finally:
            client.close()


def test_table_boxes_and_gripper_are_drawn_where_they_are():
    box = Box('shelf', np.eye(4), [0.1, 0.2, 0.3])
    scene = replace(load_scene(CONFIG / 'scene_sim.yaml'), boxes=(box,))
    clear, table, shelf, *gripper = markers.surroundings(scene).markers
    assert clear.action == Marker.DELETEALL, 'what was there before must go'
    assert table.pose.position.z + table.scale.z / 2 == pytest.approx(scene.table_height)
    np.testing.assert_allclose(pose_to_matrix(shelf.pose), box.T_base_link_box)
    assert (shelf.scale.x, shelf.scale.y, shelf.scale.z) == tuple(box.size)
    assert [m.header.frame_id for m in gripper] == ['tool0'] * len(scene.tool.shapes)
    assert len({(m.ns, m.id) for m in (table, shelf, *gripper)}) == 2 + len(gripper)
