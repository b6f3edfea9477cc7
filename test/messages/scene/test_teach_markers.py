# SPDX-License-Identifier: Apache-2.0
"""
Start and target dragged as RViz does it, by a client of its protocol, through DDS.

RViz asks for all markers, wants each update's number to follow the last, and tells of the mouse.
"""


import numpy as np
import pytest
from geometry_msgs.msg import Pose
from visualization_msgs.msg import (
    InteractiveMarkerControl,
    InteractiveMarkerFeedback,
    InteractiveMarkerUpdate,
    Marker,
)
from visualization_msgs.srv import GetInteractiveMarkers

from ur5_pick_place.kinematics.transforms import make_transform
from ur5_pick_place.nodes.messages.conversions import matrix_to_pose, pose_to_matrix
from ur5_pick_place.nodes.pick_place.rviz import TeachMarkers
from ur5_pick_place.task.cycle.pattern import PATTERNED

TOPIC = 'tested/teach_markers'
START = make_transform(np.diag([1.0, -1.0, -1.0]), [0.4, -0.1, 0.02])
FORBIDDEN = 0.9  # [m] x, from which on nothing is taught


class Rviz:
    """The client's side of the protocol."""

    def __init__(self, graph, node):
        self.updates, self.until = [], graph.until
        node.create_subscription(
            InteractiveMarkerUpdate, f'{TOPIC}/update', self.updates.append, 100
        )
        self._mouse = node.create_publisher(InteractiveMarkerFeedback, f'{TOPIC}/feedback', 100)
        self._service = node.create_client(
            GetInteractiveMarkers, f'{TOPIC}/get_interactive_markers'
        )
        self.until(self._service.service_is_ready)
        self.until(self._mouse.get_subscription_count)

    def ask(self):
        future = self._service.call_async(GetInteractiveMarkers.Request())
        self.until(future.done)
        return future.result().sequence_number, by_name(future.result().markers)

    def drag(self, marker, T, *events):
        """Move a marker to a pose (4, 4) in the marker's frame."""
        feedback = InteractiveMarkerFeedback(client_id='rviz', marker_name=marker.name)
        feedback.header, feedback.pose = marker.header, matrix_to_pose(T)
        kinds = InteractiveMarkerFeedback
        for feedback.event_type in events or (kinds.POSE_UPDATE, kinds.MOUSE_UP):
            self._mouse.publish(feedback)


def by_name(markers):
    return {marker.name: marker for marker in markers}


@pytest.fixture
def cell(graph):
    """A node with markers that teach into a dictionary, and a client."""
    taught, heard = {'start': START}, []

    def teach(name, message):
        heard.append((name, message))
        if message.pose.position.x < FORBIDDEN:
            taught[name] = pose_to_matrix(message.pose)
        markers.show()

    markers = TeachMarkers(graph.node, 'left_', lambda: taught, teach, PATTERNED)
    rviz = Rviz(graph, graph.begin('rviz'))
    rviz.heard = heard
    return rviz


def test_both_places_can_be_moved_and_turned_about_every_axis_of_the_tcp(cell):
    _, markers = cell.ask()
    assert markers.keys() == {'start', 'target'}
    for marker in markers.values():
        assert marker.header.frame_id == 'left_base_link'
        assert not marker.header.stamp.sec, 'a stamp would keep RViz from answering in the frame'
        handles = {}
        for control in marker.controls:
            if control.interaction_mode == InteractiveMarkerControl.NONE:
                assert [m.type for m in control.markers] == [Marker.ARROW]
                continue
            handles.setdefault(control.interaction_mode, []).append(axis_of(control))
        assert handles.keys() == {
            InteractiveMarkerControl.MOVE_AXIS,
            InteractiveMarkerControl.ROTATE_AXIS,
        }
        for axes in handles.values():
            np.testing.assert_allclose(sorted(axes), np.eye(3)[::-1], atol=1e-9)


def axis_of(control):
    """Return the direction of a handle: x of its orientation."""
    pose = Pose(orientation=control.orientation)
    return np.abs(pose_to_matrix(pose)[:3, 0]).tolist()


def test_a_marker_stands_where_its_place_was_taught_or_says_that_it_was_not(cell):
    _, markers = cell.ask()
    np.testing.assert_allclose(pose_to_matrix(markers['start'].pose), START, atol=1e-9)
    assert markers['start'].description == 'start'
    assert markers['target'].description == 'target (not taught)'


def test_a_place_is_taught_once_when_the_mouse_lets_go(cell):
    number, markers = cell.ask()
    since = len(cell.updates)
    T = START.copy()
    T[:3, 3] += [0.0, 0.05, 0.1]
    events = InteractiveMarkerFeedback
    cell.drag(
        markers['target'], T,
        events.MOUSE_DOWN, events.POSE_UPDATE, events.POSE_UPDATE, events.MOUSE_UP,
    )
    cell.until(lambda: cell.heard)
    cell.until(lambda: cell.updates[since:])
    ((name, message),) = cell.heard
    assert (name, message.header.frame_id) == ('target', 'left_base_link')
    np.testing.assert_allclose(pose_to_matrix(message.pose), T, atol=1e-9)
    assert [update.seq_num for update in cell.updates[since:]] == [number + 1]
    (update,) = cell.updates[since:]
    assert update.type == InteractiveMarkerUpdate.UPDATE
    shown = by_name(update.markers)['target']
    np.testing.assert_allclose(pose_to_matrix(shown.pose), T, atol=1e-9)
    assert shown.description == 'target'
    assert cell.ask()[0] == number + 1


def test_a_marker_of_a_refused_place_goes_back(cell):
    _, markers = cell.ask()
    since, T = len(cell.updates), START.copy()
    T[0, 3] = FORBIDDEN + 0.1
    cell.drag(markers['start'], T)
    cell.until(lambda: cell.updates[since:])
    shown = by_name(cell.updates[-1].markers)['start']
    np.testing.assert_allclose(pose_to_matrix(shown.pose), START, atol=1e-9)


def test_a_click_and_a_stranger_teach_nothing(cell):
    _, markers = cell.ask()
    before, T = len(cell.heard), START.copy()
    cell.drag(markers['start'], START)
    markers['target'].name = 'elsewhere'
    cell.drag(markers['target'], np.eye(4))
    T[2, 3] += 0.01
    cell.drag(markers['start'], T)
    cell.until(lambda: cell.heard[before:])
    ((name, message),) = cell.heard[before:]
    assert name == 'start' and message.pose.position.z == T[2, 3]
