# SPDX-License-Identifier: Apache-2.0
"""RTDE byte by byte; the layouts are those of UR's guide."""

import struct

import numpy as np
import pytest

RTDE = 30004


def outputs(wire, names, frequency=500.0):
    """Set outputs up; return the number of the recipe and the types."""
    answer = wire.request('O', struct.pack('>d', frequency) + names.encode())
    return answer[0], answer[1:].decode()


def inputs(wire, names):
    answer = wire.request('I', names.encode())
    return answer[0], answer[1:].decode()


@pytest.fixture
def wire(shared_box):
    wire = shared_box.connect(RTDE)
    assert wire.request('V', b'\x00\x02') == b'\x01'
    yield wire
    wire.socket.close()
    shared_box.step(2)


def test_version_is_agreed_and_three_is_refused(wire):
    assert wire.request('V', b'\x00\x03') == b'\x00'
    assert struct.unpack('>IIII', wire.request('v'))[:2] == (5, 22)


def test_outputs_have_the_values_of_the_cycle(wire, shared_box):
    names = 'timestamp,actual_q,joint_mode,runtime_state,robot_mode,output_bit_register_64'
    answer = outputs(wire, names)
    assert answer == (1, 'DOUBLE,VECTOR6D,VECTOR6INT32,UINT32,INT32,BOOL')
    assert wire.request('S') == b'\x01'
    kind, data = wire.rtde()
    number, time, *values = struct.unpack('>Bd6d6iIi?', data)
    assert (kind, number) == ('U', 1)
    assert time >= 60.0  # a younger clock is distrusted by clients
    np.testing.assert_allclose(values[:6], shared_box.controller.q, atol=1e-6)
    assert values[6:] == [253] * 6 + [1, 7, False]
    assert wire.request('P') == b'\x01'
    shared_box.step(3)
    wire.received = b''
    assert wire.request('v')  # nothing but the answer arrives


def test_outputs_fall_on_the_grid_of_cycles(wire):
    outputs(wire, 'timestamp', 25.0)
    wire.request('S')
    times = [struct.unpack('>Bd', wire.rtde()[1])[1] for _ in range(3)]
    np.testing.assert_allclose(np.diff(times), 1 / 25, atol=1e-9)


@pytest.mark.parametrize('frequency', [0.0, -1.0, 501.0, float('nan')])
def test_an_impossible_rate_is_refused(wire, frequency):
    assert outputs(wire, 'timestamp', frequency)[0] == 0
    assert wire.request('S') == b'\x00'


def test_an_unknown_name_is_not_found_and_a_last_comma_ignored(wire):
    assert outputs(wire, 'timestamp,nonsense,actual_q') == (0, 'DOUBLE,NOT_FOUND,VECTOR6D')
    assert outputs(wire, 'timestamp,') == (1, 'DOUBLE')
    assert inputs(wire, 'nonsense,speed_slider_mask') == (0, 'NOT_FOUND,UINT32')


def test_an_input_of_another_connection_is_in_use(wire, shared_box):
    other = shared_box.connect(RTDE)
    assert inputs(other, 'input_int_register_40,') == (1, 'INT32')
    assert inputs(other, 'input_int_register_40,input_int_register_41')[0] == 2, 'own may overlap'
    assert inputs(wire, 'input_int_register_40') == (0, 'IN_USE')
    other.socket.close()
    shared_box.step(2)
    assert inputs(wire, 'input_int_register_40') == (1, 'INT32')


def test_inputs_move_slider_pins_and_registers(wire, shared_box):
    c = shared_box.controller
    names = (
        'speed_slider_mask,speed_slider_fraction,standard_digital_output_mask,'
        'standard_digital_output,standard_analog_output_mask,standard_analog_output_type,'
        'standard_analog_output_1,input_double_register_3,input_bit_registers0_to_31'
    )
    number, kinds = inputs(wire, names)
    assert kinds == 'UINT32,DOUBLE,UINT8,UINT8,UINT8,UINT8,DOUBLE,DOUBLE,UINT32'
    c.digital_outputs = 0b1000
    values = (number, 1, 0.25, 0b0101, 0b1111, 0b10, 0b10, 0.5, 2.5, 0b101)
    wire.send(struct.pack('>HBBIdBBBBddI', 3 + 37, ord('U'), *values))
    shared_box.step(2)
    assert (c.robot.slider, c.digital_outputs) == (0.25, 0b1101)
    assert c.analog_output(1) == 5.0 and c.input_floats[3] == 2.5
    assert [n for n, level in enumerate(c.input_bits) if level] == [0, 2]
    c.robot.slider, c.digital_outputs = 1.0, 0


def test_version_1_has_neither_rate_nor_number(shared_box):
    wire = shared_box.connect(RTDE)
    assert wire.request('O', b'timestamp,robot_mode') == b'DOUBLE,INT32'
    wire.request('S')
    assert struct.unpack('>di', wire.rtde()[1])[1] == 7
    wire.socket.close()


def test_cb3_has_125_hz_and_no_field_of_a_later_series(make_box):
    wire = make_box('ur5').connect(RTDE)
    wire.request('V', b'\x00\x02')
    assert struct.unpack('>IIII', wire.request('v'))[:2] == (3, 15)
    assert outputs(wire, 'timestamp', 126.0)[0] == 0
    assert outputs(wire, 'ft_raw_wrench', 125.0) == (0, 'NOT_FOUND')


@pytest.mark.parametrize(
    'junk', [b'\x00\x03\xff', b'\x00\x04U\x07', b'\x00\x03I', b'\x00\x03O', b'\x00\x05VV\xff']
)
def test_junk_is_answered_and_too_much_of_it_ends_the_connection(shared_box, junk):
    wire = shared_box.connect(RTDE)
    wire.send(junk)
    assert wire.request('v')
    wire.send(b'\x00\x03\xff' * 50)
    assert wire.is_closed()


def test_an_impossible_size_ends_the_connection(shared_box):
    wire = shared_box.connect(RTDE)
    wire.send(b'\x00\x02V')
    assert wire.is_closed()


def test_a_client_that_never_reads_costs_a_bounded_buffer(shared_box):
    wire = shared_box.connect(RTDE)
    names = ','.join(f'output_double_register_{n}' for n in range(48)).encode()
    wire.request('O', names)
    wire.request('S')
    shared_box.step(3000)
    (client,) = shared_box.server.ports['RTDE'].clients
    assert client.unsent_bytes <= 1 << 18
    assert not client.ended
    wire.socket.close()
