# SPDX-License-Identifier: Apache-2.0
"""The cockpit as a client: what it sends, and what it says about the answers; without DDS."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import Log
from rclpy.serialization import serialize_message
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ur5_pick_place.cockpit.jog import Jog
from ur5_pick_place.cockpit.link import CellLink
from ur5_pick_place.cockpit.panel import event_text
from ur5_pick_place.kinematics import JOINT_NAMES


class FakeClient:
    """A client of a service that answers when a test says so."""

    def __init__(self) -> None:
        self.is_there, self.asked = True, list[Future]()
        self.reply: Any = None  # that comes by itself

    def service_is_ready(self) -> bool:
        return self.is_there

    def call_async(self, _request: Any) -> Future:
        self.asked.append(Future())
        if self.reply is not None:
            self.asked[-1].set_result(self.reply)
        return self.asked[-1]

    def remove_pending_request(self, future: Future) -> None:
        self.asked.remove(future)

    def answer(self, success: bool = True, message: str = '', **fields: Any) -> None:
        reply = SimpleNamespace(success=success, message=message, **fields)
        self.asked[-1].set_result(reply)
        for done in self.asked[-1]._callbacks:
            done(self.asked[-1])


class FakeNode:
    """Keeps what is created, by topic or service."""

    def __init__(self, namespace: str = '/') -> None:
        self._namespace, self.now = namespace, 0.0
        self.clients: dict[str, FakeClient] = {}
        self.hears: dict[str, Any] = {}
        self.sent: list[Any] = []
        self.warnings: list[str] = []
        self.task_nodes = 1

    def get_namespace(self) -> str:
        return self._namespace

    def get_logger(self) -> Any:
        return SimpleNamespace(warning=lambda text, **_: self.warnings.append(text))

    def get_clock(self) -> Any:
        at = SimpleNamespace(nanoseconds=round(self.now * 1e9), to_msg=lambda: Time(sec=7))
        return SimpleNamespace(now=lambda: at)

    def create_client(self, _kind: Any, name: str, **_: Any) -> FakeClient:
        return self.clients.setdefault(name, FakeClient())

    def create_subscription(self, _kind: Any, topic: str, take: Any, *_: Any, **__: Any) -> None:
        self.hears[topic] = take

    def create_publisher(self, *_: Any) -> Any:
        return SimpleNamespace(publish=self.sent.append)

    def count_publishers(self, _topic: str) -> int:
        return self.task_nodes

    def get_service_names_and_types(self) -> list[tuple[str, list[str]]]:
        own = self._namespace.rstrip('/')
        return [(f'{own}/pick_place/teach_{name}', []) for name in ('home', 'start', 'target')]


def nothing(*_: Any) -> None:
    pass


def linked(
    node: FakeNode, lines: list[str], figures: list[dict[str, str]], on_event: Any = nothing
) -> CellLink:
    return CellLink(node, 'base_link', on_event, nothing, lines.append, figures.append)


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def link(node: FakeNode, lines: list[str]) -> CellLink:
    return linked(node, lines, [])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes time pass [s] for the link."""
    begin, passed = time.monotonic(), [0.0]
    clock = SimpleNamespace(monotonic=lambda: begin + passed[0])
    monkeypatch.setattr('ur5_pick_place.client.connection.time', clock)
    return lambda seconds: passed.__setitem__(0, passed[0] + seconds)


def test_a_stop_has_worked_when_either_node_accepts_it(node, link, later):
    heard: list[tuple] = []
    link.stop(lambda *answer: heard.append(answer))
    node.clients['trajectory_planner/stop'].answer(True, 'stopping')
    later(5.0)  # the task node ends freedrive first
    link.poll_offers()
    assert heard == [(True, 'stopping')]


def test_a_stop_that_no_node_accepts_is_reported_once_with_both_reasons(node, link, later):
    heard: list[tuple] = []
    node.clients['pick_place/stop'].is_there = False
    link.stop(lambda *answer: heard.append(answer))
    assert len(node.clients['pick_place/stop'].asked) == 1  # it is sent all the same
    later(5.0)
    link.poll_offers()
    ((success, message),) = heard
    assert not success
    assert 'pick_place is not there' in message
    assert 'trajectory_planner/stop: no reply within 1 s' in message


def test_a_request_without_an_answer_is_not_called_refused(node, link, later):
    heard: list[tuple] = []
    link.request(Trigger, 'pick_place/go_home', lambda *answer: heard.append(answer))
    later(9.0)
    link.poll_offers()
    assert not heard
    later(2.0)
    link.poll_offers()
    ((success, message),) = heard
    assert success is None
    assert message == (
        'pick_place/go_home: no reply within 10 s; the request may still take effect'
    )
    assert not node.clients['pick_place/go_home'].asked, 'rclpy would keep it for ever'


@pytest.mark.parametrize(('namespace', 'own'), [('/', ''), ('/hall/cell_b', 'hall.cell_b.')])
def test_what_the_planner_of_this_cell_logs_about_a_jog_is_shown(namespace, own):
    node, lines = FakeNode(namespace), list[str]()
    link = linked(node, lines, [])
    assert link.state.planner == ''
    for name, text in (
        (f'{own}trajectory_planner', 'jog refused: pick_place is running'),
        (f'{own}trajectory_planner', 'planned in 3 ms'),
        ('cell_c.trajectory_planner', 'jog ended: another cell'),
        (f'{own}pick_place', 'jog: no'),
    ):
        node.hears['/rosout'](serialize_message(Log(name=name, msg=text)))
    node.hears['/rosout'](b'\xff' * 300_000)
    assert lines == ['jog refused: pick_place is running']


@pytest.mark.parametrize('namespace', ['/', '/hall/cell_b'])
def test_the_figures_are_those_of_the_task_node_of_this_cell(namespace):
    node, figures = FakeNode(namespace), list[dict[str, str]]()
    linked(node, [], figures)
    own = f'{namespace.rstrip("/")}/pick_place'
    message = DiagnosticArray(
        status=[
            DiagnosticStatus(name=name, values=[KeyValue(key='placed', value=value)])
            for name, value in (('/cell_c/pick_place', '1'), (own, '2'), ('/driver', '3'))
        ]
    )
    node.hears['/diagnostics'](serialize_message(message))
    assert figures == [{'placed': '2'}]


def test_places_that_the_task_node_reads_from_a_frame_are_not_movable(node, link):
    assert link.poll_offers().movable == ('start', 'target')  # until it has said which
    markers = node.clients['pick_place/teach_markers/get_interactive_markers']
    markers.answer(markers=[SimpleNamespace(name='target')])
    offers = link.poll_offers()
    assert (offers.pose_teachable, offers.movable) == (('start', 'target'), ('target',))
    asked = len(markers.asked)
    link.poll_offers()
    assert len(markers.asked) == asked  # once is enough
    node.task_nodes = 2  # another one has started, perhaps with other places
    assert link.poll_offers().movable == ('start', 'target')
    assert len(markers.asked) == asked + 1


@pytest.mark.parametrize(
    ('now', 'joints', 'is_stamped'),
    [
        (1000.0, 999.96, True),
        (1000.0, 3.0, False),  # beside a simulated cell, whose time begins at 0
        (1000.0, 1000.5, False),  # the clock of another PC
        (1000.0, -float('inf'), False),  # no joints yet
    ],
)
def test_a_jog_carries_the_time_only_where_it_is_that_of_the_joints(node, now, joints, is_stamped):
    jog = Jog(node, '', JOINT_NAMES, lambda: joints)
    node.now = now
    jog.twist('tcp', 0, 1.0, 0.5)
    jog.joint(2, -1.0, 0.5)
    assert [message.header.stamp == Time(sec=7) for message in node.sent] == [is_stamped] * 2


def test_a_message_of_any_size_does_no_harm(node, link):
    for topic in ('pick_place/state', 'pick_place/event', 'trajectory_planner/motion_state'):
        node.hears[topic](serialize_message(String(data='x' * 1_000_000)))
        node.hears[topic](b'\x00\xff')
    assert link.state.task == ''


def publish_event(node: FakeNode, text: str) -> None:
    node.hears['pick_place/event'](serialize_message(String(data=text)))


def test_what_is_no_event_is_ignored(node):
    taken: list[dict[str, Any]] = []
    linked(node, [], [], taken.append)
    for text in ('', '{', '[]', '7', '{"event": 7}', '[' * 5000, 'null'):
        publish_event(node, text)
    assert not taken


def test_an_event_nested_as_deep_as_json_can_be_read_does_no_harm(node):
    shown: list[str] = []
    linked(node, [], [], lambda event: shown.append(event_text(event)))
    for depth in range(100, 1000):
        nested = '[' * depth + ']' * depth
        publish_event(node, f'{{"event":"refused","request":"run","reason":{nested}}}')
    assert shown and set(shown) == {'refused: run, list'}


def test_an_event_holds_nothing_that_a_browser_cannot_be_sent(node):
    shown: list[str] = []
    linked(node, [], [], lambda event: shown.append(event_text(event)))
    lone = r'\ud800'
    publish_event(node, f'{{"event":"{lone}"}}')
    publish_event(node, f'{{"event":"refused","request":"{lone}","reason":"a\\nb"}}')
    publish_event(node, f'{{"event":"converted","place":"start","changed":{{"{lone}":[1, 2]}}}}')
    assert shown == [lone, rf'refused: {lone}, a\nb', f'converted: start, {lone}']


def test_an_event_that_the_page_cannot_take_is_a_warning_and_the_next_one_arrives(node):
    taken: list[str] = []

    def take(event: dict[str, Any]) -> None:
        taken.append(event['event'])
        assert event['event'] == 'rearmed', 'malformed'

    linked(node, [], [], take)
    for name in ('odd', 'rearmed'):
        publish_event(node, f'{{"event":"{name}"}}')
    assert taken == ['odd', 'rearmed']
    (warning,) = node.warnings
    assert 'pick_place/event: AssertionError: malformed' in warning
