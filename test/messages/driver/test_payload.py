# SPDX-License-Identifier: Apache-2.0
"""The payload that the robot is told: its inertia, and all three forms of `SetPayload`."""

from types import SimpleNamespace

import numpy as np
import pytest
from lab.in_process import InProcessCell
from rclpy.serialization import serialize_message
from twists import exp_se3
from ur_msgs.msg import Digital, IOStates

from ur5_pick_place.errors import InvalidInput
from ur5_pick_place.nodes.driver import robot_io
from ur5_pick_place.nodes.ros.distro import payload_of, payload_request, takes_inertia
from ur5_pick_place.outcome import DONE
from ur5_pick_place.planning.scene.inertias import Load, boxes_load, joined
from ur5_pick_place.task.job import SetPayload


def evenly_filled(mass, T, size, n=40):
    """Points (n^3, 3) of equal mass that fill a box, and that mass: no formula is used."""
    steps = (np.arange(n) + 0.5) / n - 0.5
    points = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3) * size
    return points @ T[:3, :3].T + T[:3, 3], np.full(n**3, mass / n**3)


def inertia_about(centre, points, masses):
    r = points - centre
    squares = (masses * (r * r).sum(axis=1)).sum()
    return squares * np.eye(3) - (masses[:, None] * r).T @ r


def test_boxes_have_the_inertia_of_the_points_that_fill_them(rng):
    boxes = [(exp_se3(0.3 * rng.normal(size=6)), rng.uniform(0.02, 0.2, 3)) for _ in range(3)]
    volumes = np.array([size.prod() for _, size in boxes])
    mass = 1.3
    filled = [
        evenly_filled(mass * v / volumes.sum(), *box)
        for v, box in zip(volumes, boxes, strict=True)
    ]
    points, masses = (np.concatenate(x) for x in zip(*filled, strict=True))
    centre = masses @ points / mass
    load = boxes_load(mass, [0.0, 0.01, 0.05], boxes)
    expected = inertia_about(centre, points, masses)
    np.testing.assert_allclose(load.inertia, expected, atol=1e-3 * expected.max())
    np.testing.assert_array_equal(load.centre, [0.0, 0.01, 0.05])


def test_joined_loads_are_one_body(rng):
    clouds = [(rng.normal(size=(50, 3)), rng.uniform(0.1, 1.0, 50)) for _ in range(3)]
    loads = []
    for points, masses in clouds:
        centre = masses @ points / masses.sum()
        inertia = inertia_about(centre, points, masses)
        loads.append(Load(masses.sum(), centre, (inertia + inertia.T) / 2))
    points, masses = (np.concatenate(x) for x in zip(*clouds, strict=True))
    whole = joined(loads)
    centre = masses @ points / masses.sum()
    assert whole.mass == pytest.approx(masses.sum())
    np.testing.assert_allclose(whole.centre, centre, atol=1e-12)
    np.testing.assert_allclose(whole.inertia, inertia_about(centre, points, masses), atol=1e-9)


def test_without_boxes_or_mass_nothing_is_spread():
    for load in (boxes_load(0.9, [0.0, 0.0, 0.1], []), boxes_load(0.0, np.zeros(3), [BOX])):
        assert not load.inertia.any()


BOX = (np.eye(4), np.array([0.1, 0.1, 0.1]))


@pytest.mark.parametrize(('ur_type', 'part_mass', 'most'), [('ur5', 4.6, 5), ('ur3e', 2.6, 3)])
def test_tool_and_part_together_must_not_be_heavier_than_the_arm_carries(
    ur_type, part_mass, most
):
    said = f'payload_mass = .* kg and part_mass = {part_mass} kg: a {ur_type} carries {most} kg'
    with pytest.raises(InvalidInput, match=said):
        InProcessCell({'ur_type': ur_type, 'payload_mass': 0.5, 'part_mass': part_mass})


# ---- the three forms of the request, as their definitions have them


def form(**names):
    """Return a class with these fields and no others, made anew for each instance."""

    def fill(self):
        for name, make in names.items():
            setattr(self, name, make())

    return type('Request', (), {'__slots__': tuple(names), '__init__': fill})


Vector = form(x=float, y=float, z=float)
SIX = dict.fromkeys(('ixx', 'iyy', 'izz', 'ixy', 'ixz', 'iyz'), float)
Oldest = form(mass=float, center_of_gravity=Vector)
Flat = form(mass=float, center_of_gravity=Vector, transition_time=float, **SIX)
Nested = form(payload=form(m=float, com=Vector, **SIX), transition_time=float)
FORMS = (Oldest, Flat, Nested)
CENTRE, INERTIA = (0.01, -0.02, 0.08), (1e-3, 2e-3, 3e-3, 1e-4, 2e-4, 3e-4)


def inertia_of(request):
    body = getattr(request, 'payload', request)
    return tuple(getattr(body, n) for n in ('ixx', 'iyy', 'izz', 'ixy', 'ixz', 'iyz'))


@pytest.mark.parametrize('form', FORMS)
def test_each_form_says_all_that_it_can(form):
    request = payload_request(form, 0.98, CENTRE, INERTIA)
    told = INERTIA if form is not Oldest else (0.0,) * 6
    assert payload_of(request) == (0.98, CENTRE, told)
    assert takes_inertia(request) == (form is not Oldest)
    if form is not Oldest:
        assert inertia_of(request) == INERTIA


class Robot:
    """A node that stands for the driver: it takes a payload or refuses it."""

    def __init__(self, takes):
        self.takes, self.heard, self.warnings = takes, [], []
        self.reader, self.by_topic = self, {}
        self.srv_name = 'set_payload'

    def create_client(self, *_arguments, **_options):
        return self

    def get_logger(self):
        return SimpleNamespace(warning=lambda text, **_options: self.warnings.append(text))

    def subscribe(self, _kind, topic, take, _qos, _period):
        self.by_topic[topic] = take

    def service_is_ready(self):
        return True

    def call_async(self, request):
        self.heard.append(request)
        success = self.takes(request)
        future = SimpleNamespace(result=lambda: SimpleNamespace(success=success))
        return SimpleNamespace(add_done_callback=lambda hear: hear(future))


@pytest.fixture
def send(monkeypatch):
    """Return a function: (form, robot) -> replies to two payloads in a row."""
    def call(form, robot):
        monkeypatch.setattr(robot_io, 'SetPayload', SimpleNamespace(Request=form))
        io, replies = robot_io.RobotIo(robot, None), []
        for mass in (0.9, 0.98):
            io.send(SetPayload(mass, CENTRE, INERTIA), replies.append)
        return replies

    return call


@pytest.mark.parametrize('form', FORMS)
def test_a_driver_that_takes_the_payload_is_told_it_once(send, form):
    robot = Robot(lambda request: True)
    assert send(form, robot) == [DONE, DONE]
    assert len(robot.heard) == 2 and not robot.warnings


@pytest.mark.parametrize('form', [Flat, Nested])
def test_a_driver_that_refuses_the_inertia_alone_ends_no_cycle(send, form):
    robot = Robot(lambda request: not any(inertia_of(request)))
    assert send(form, robot) == [DONE, DONE]
    assert [any(inertia_of(request)) for request in robot.heard] == [True, False, False]
    (warning,) = robot.warnings
    assert 'accepted mass and centre alone' in warning


@pytest.mark.parametrize('form', FORMS)
def test_a_driver_that_takes_no_payload_at_all_is_a_failure(send, form):
    robot = Robot(lambda request: False)
    assert all('the driver refused it' in reply.reason for reply in send(form, robot))
    assert not robot.warnings


@pytest.mark.parametrize('strange', [b'', b'\0\1\0\0' + b'\xff' * 40, bytes(1_000_000)])
def test_io_states_that_cannot_be_read_hide_no_silent_driver(monkeypatch, strange):
    now = [10.0]
    monkeypatch.setattr(robot_io.time, 'monotonic', lambda: now[0])
    node = Robot(None)
    io = robot_io.RobotIo(node, None)

    def publish(data):
        node.by_topic['io_and_status_controller/io_states']([SimpleNamespace(data=data)])

    publish(serialize_message(IOStates(digital_out_states=[Digital(pin=16, state=True)])))
    now[0] = 11.0
    assert io.pins() == ({}, {16: True}) and io.silence == 1.0
    for _ in range(3):
        publish(strange)
        now[0] += 1.0
        assert io.pins() == ({}, {16: True})
    assert io.silence == 4.0
    assert 'ignored' in node.warnings[0]
