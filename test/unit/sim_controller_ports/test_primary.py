# SPDX-License-Identifier: Apache-2.0
"""Primary, secondary and real-time packets; sizes and offsets are those of UR's guide."""

import struct

import numpy as np
import pytest

PRIMARY, SECONDARY, REAL_TIME = 30001, 30002, 30003


def sub_packets(body):
    """Return the parts of a state by their type."""
    parts = {}
    while body:
        size, kind = struct.unpack_from('>IB', body)
        parts[kind], body = body[5:size], body[size:]
    return parts


def state(wire):
    while True:
        kind, body = wire.primary()
        if kind == 16:
            return body


@pytest.mark.parametrize(('ur_type', 'version', 'code'), [('ur5', 3, 1), ('ur16e', 5, 4)])
def test_the_version_comes_first_then_states(make_box, ur_type, version, code):
    box = make_box(ur_type)
    for port in (PRIMARY, SECONDARY, 30011, 30012):
        wire = box.connect(port)
        kind, body = wire.primary()
        assert (kind, body[9]) == (20, 3)
        assert body[11:20] == b'URControl' and body[20] == version
        found = state(wire)
        assert len(found) < 2000, 'urx takes no more'
        assert found[4] == 0, 'the mode comes first'
    parts = sub_packets(found)
    sizes = {0: 47, 1: 251, 2: 37, 3: 75, 4: 101, 5: 225, 6: 445, 7: 61, 8: 9}
    assert {kind: len(body) + 5 for kind, body in parts.items()} == sizes
    assert struct.unpack_from('>4i', parts[6], 424)[2] == code
    q = [struct.unpack_from('>d', parts[1], 41 * i)[0] for i in range(6)]
    np.testing.assert_allclose(q, box.controller.q, atol=1e-6)
    T = box.controller.forward(box.controller.q)
    np.testing.assert_allclose(struct.unpack_from('>3d', parts[4]), T[:3, 3], atol=1e-6)
    theta, a = np.array(struct.unpack_from('>12d', parts[5], 24)).reshape(2, 6)
    assert not theta.any() and a[1] < -0.3, 'theta, then a'


@pytest.mark.parametrize(('ur_type', 'size'), [('ur5', 1116), ('ur5e', 1220)])
def test_real_time_packets_have_the_size_of_the_version(make_box, ur_type, size):
    box = make_box(ur_type)
    for port in (REAL_TIME, 30013):
        wire = box.connect(port)
        packet = wire.read(size)
        assert struct.unpack_from('>i', packet) == (size,)
        assert struct.unpack_from('>i', wire.read(size)) == (size,), 'no byte is left over'
        q = struct.unpack_from('>6d', packet, 252)
        np.testing.assert_allclose(q, box.controller.q, atol=1e-6)
        T = box.controller.forward(box.controller.q)
        np.testing.assert_allclose(struct.unpack_from('>3d', packet, 444), T[:3, 3], atol=1e-6)
        assert struct.unpack_from('>d', packet, 756) == (7.0,), 'robot mode'


def test_text_commands_switch_power(make_box):
    box = make_box()
    wire = box.connect(PRIMARY)
    wire.send(b'power off\n')
    box.step(3)
    assert box.controller.robot.mode.name == 'POWER_OFF'
    assert sub_packets(state(wire))[0][8:11] == b'\x01\x01\x00'
    wire.send(b'power on\nset robotmode run\n')
    box.step_seconds(2.5)
    assert box.controller.robot.mode.name == 'RUNNING'


def test_a_stop_is_reported_once_and_unlocked(make_box):
    box = make_box()
    wire = box.connect(PRIMARY)
    box.controller.protective_stop('a test')
    box.controller.protective_stop('again')
    code, argument, level = struct.unpack_from('>iii', wire.message(6))
    assert (code, argument, level) == (209, 0, 2)
    assert wire.message(5)[8] == 3, 'the safety mode, on its change'
    wire.send(b'set unlock protective stop\n')
    assert wire.message(5)[8] == 1
    assert b'again' not in wire.received


def test_under_local_control_programs_are_refused(make_box):
    box = make_box('ur5e', is_cold=True)
    wire = box.connect(PRIMARY)
    wire.send(b'power on\n')
    assert struct.unpack_from('>i', wire.message(6)) == (210,)
    box.controller.is_remote = True
    wire.send(b'power on\n')
    assert struct.unpack_from('>i', wire.message(6)) == (210,), 'as long as it is connected'
    again = box.connect(PRIMARY)
    again.send(b'power on\n')
    box.step(5)
    assert box.controller.robot.mode.name == 'POWER_ON'


def test_read_only_ports_take_nothing(make_box):
    box = make_box()
    for port in (30011, 30012, 30013):
        box.connect(port).send(b'power off\n')
    box.step(5)
    assert box.controller.robot.mode.name == 'RUNNING'
