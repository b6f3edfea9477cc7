# SPDX-License-Identifier: Apache-2.0
"""Sockets of a program, on loopback, and programs built as those of common clients are."""

import socket
import struct
import time

import numpy as np
import pytest
from script_robot import ScriptRobot

from ur5_pick_place.sim.controller.script.program import Program


class Peer:
    """The PC's side of one connection, which a program of these lines opens."""

    def __init__(self, body, step=0.008):
        server = socket.create_server(('127.0.0.1', 0))
        self.robot = ScriptRobot(step)
        text = f'def test():\n{body}\nend\n'.replace('PORT', str(server.getsockname()[1]))
        self.program = Program(text, self.robot)
        server.setblocking(False)
        self.link = self.run(lambda: accepted(server))
        self.link.settimeout(10)
        server.close()

    def run(self, condition, cycles=3000):
        """Run cycles until a condition holds; return its value."""
        for _ in range(cycles):
            self.robot.cycle(self.program)
            if value := condition():
                return value
            time.sleep(0.0002)  # loopback needs a moment of real time
        raise AssertionError(f'not reached: {self.robot.events}')

    def end(self):
        """Run to the end; return the messages."""
        self.run(lambda: self.program.is_over)
        self.link.close()
        return self.robot.texts()


def accepted(server):
    try:
        return server.accept()[0]
    except BlockingIOError:
        return None


def test_a_peer_that_floods_a_program_does_not_end_it():
    peer = Peer(
        'socket_open("127.0.0.1", PORT, "s")\ni = 0\nwhile i >= 0:\n'
        ' i = socket_read_binary_integer(1, "s", 0)[1]\nend', step=0.05
    )  # fmt: skip
    for _ in range(25):  # 1.25 s
        peer.link.sendall(struct.pack('>i', 7) * 500)
        peer.robot.cycle(peer.program)
    assert not peer.program.is_over and peer.robot.events == []
    peer.program.kill()


def test_integers_floats_and_strings_are_read_as_they_come():
    peer = Peer(
        'textmsg(socket_open("127.0.0.1", PORT, "s"))\n'
        'textmsg(socket_read_binary_integer(3, "s", 0))\n'
        'textmsg(socket_read_ascii_float(2, "s", 0))\n'
        'textmsg(socket_read_ascii_float(3, "s", 0))\n'
        'textmsg(socket_read_string("s", prefix=">", suffix="<", timeout=0))\n'
        'textmsg(socket_read_line("s", 0))\n'
        'textmsg(socket_read_byte_list(2, "s", 0))\n'
        'textmsg(socket_get_var("size", "s"))'
    )
    data = struct.pack('>3i', 1, -2, 3) + b'(1.5, 2) (1, 2) noise >word< line\n' + b'\x05\x06'
    for part in (data[:2], data[2:9], data[9:]):
        peer.link.sendall(part)
        for _ in range(3):
            peer.robot.cycle(peer.program)
    peer.run(lambda: len(peer.robot.texts()) == 7)
    assert peer.link.recv(100) == b'GET size\n'
    peer.link.sendall(b'size 42\n')
    assert peer.end() == [
        'True', '[3, 1, -2, 3]', '[2, 1.5, 2]', '[0, nan, nan, nan]', 'word', ' line',
        '[2, 5, 6]', '42',
    ]  # fmt: skip


def test_what_is_sent_arrives_as_a_robot_sends_it():
    peer = Peer(
        'socket_open("localhost", PORT)\nsocket_send_int(-2)\nsocket_send_string("ab")\n'
        'socket_send_line("c")\nsocket_send_byte(7)\nsocket_set_var("x", 1)\nsync()\n'
        'socket_close()\n'
        'textmsg(socket_send_string("late"))'
    )
    assert peer.end() == ['False']


def test_a_silent_peer_is_a_timeout_and_a_closed_one_ends_the_wait():
    peer = Peer(
        'socket_open("127.0.0.1", PORT, "s")\n'
        'textmsg(socket_read_binary_integer(2, "s", 0.08))\n'
        'textmsg(socket_read_string("s", timeout=0.08))\n'
        'textmsg("w")\ntextmsg(socket_read_binary_integer(1, "s", 0))\n'
    )
    peer.run(lambda: 'w' in peer.robot.texts())
    assert len(peer.robot.targets) >= 20
    peer.link.close()
    assert peer.end() == ['[0, -1, -1]', '', 'w', '[0, -1]']


def test_a_refused_connection_is_false_and_other_hosts_are_an_exception():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        robot = ScriptRobot()
        robot.run(f'textmsg(socket_open("127.0.0.1", {free.getsockname()[1]}))\n')
    assert robot.texts() == ['False']
    for host in ('192.168.56.1', 'example.org'):
        robot = ScriptRobot()
        robot.run(f'socket_open("{host}", 80)\n')
        assert robot.events[0][0] == 'exception' and host in robot.events[0][3]


def test_sockets_close_with_the_program():
    peer = Peer('socket_open("127.0.0.1", PORT)\nsleep(1)')
    peer.run(lambda: len(peer.robot.targets) > 5)
    peer.program.kill()
    assert peer.link.recv(10) == b''


SERVO_PROGRAM = """
  global target = get_joint_positions()
  global mode = 0
  global mover = 0
  steptime = get_steptime()
  thread servo():
    while mode == 1:
      enter_critical
      q = target
      servoj(q, t=steptime, lookahead_time=0.03, gain=2000)
      exit_critical
    end
    stopj(4.0)
  end
  timeout = 0.0
  going = socket_open("127.0.0.1", PORT, "reverse")
  while going:
    enter_critical
    got = socket_read_binary_integer(8, "reverse", timeout)
    if got[0] > 0:
      timeout = got[1] / 1000.0
      if mode != got[8]:
        mode = got[8]
        join mover
        if mode == 1:
          mover = run servo()
        end
      end
      if mode == 1:
        target = [got[2] / 1000000, got[3] / 1000000, got[4] / 1000000, got[5] / 1000000,
          got[6] / 1000000, got[7] / 1000000]
      end
    else:
      textmsg("lost")
      mode = -2
      join mover
      halt
    end
    exit_critical
  end
"""


@pytest.mark.parametrize('step', [0.008, 0.002])
def test_a_program_follows_setpoints_from_its_socket_and_stops_without_them(step):
    peer = Peer(SERVO_PROGRAM, step)
    start = peer.robot.q.copy()
    goal = start
    for k in range(round(1.0 / step)):
        goal = start + 0.1 * (1.0 - np.cos(np.pi * k * step))
        values = np.round(goal * 1e6).astype(int)
        peer.link.sendall(struct.pack('>8i', 200, *values, 1))
        peer.robot.cycle(peer.program)
    peer.run(lambda: np.abs(peer.robot.q - goal).max() < 1e-4)
    assert peer.end() == ['lost']
    assert not peer.robot.target_qd.any()
    speeds = np.array([qd for _, qd in peer.robot.targets])
    assert np.abs(np.diff(speeds, axis=0)).max() / step < 20.0


REGISTER_PROGRAM = """
  global goal = [0, 0, 0, 0, 0, 0]
  global mover = 0
  def read_six(first):
    q = [0, 0, 0, 0, 0, 0]
    i = 0
    while i < 6:
      q[i] = read_input_float_register(first + i)
      i = i + 1
    end
    return q
  end
  thread move():
    movej(goal, a=1.4, v=1.05)
    write_output_integer_register(1, 1)
  end
  def process(command):
    if command == 1:
      goal = read_six(0)
      global mover = run move()
    elif command == 2:
      kill mover
      stopj(2.0)
    end
    return command != 255
  end
  running = True
  while running:
    running = process(read_input_integer_register(0))
    write_output_integer_register(0, 2)
    while read_input_integer_register(0) != 0:
      sync()
    end
    if running:
      write_output_integer_register(0, 1)
    end
    sync()
  end
"""


def test_a_program_obeys_registers_while_a_thread_moves():
    robot = ScriptRobot()
    program = Program(f'def control():\n{REGISTER_PROGRAM}\nend\n', robot)

    def command(number):
        robot.input_ints[0] = number
        while robot.output_ints[0] != 2 and len(robot.targets) < 2000:
            robot.cycle(program)
        assert robot.output_ints[0] == 2
        robot.input_ints[0] = 0
        while robot.output_ints[0] != 1 and not program.is_over:
            robot.cycle(program)

    goal = robot.q + 0.5
    robot.input_floats[:6] = goal.tolist()
    command(1)
    for _ in range(300):
        robot.cycle(program)
    assert robot.q == pytest.approx(goal, abs=1e-12) and robot.output_ints[1] == 1
    robot.input_floats[:6] = (goal - 0.5).tolist()
    command(1)
    for _ in range(50):
        robot.cycle(program)
    assert robot.target_qd.any()
    command(2)
    assert not robot.target_qd.any() and np.abs(robot.q - goal).max() < 0.45
    command(255)
    assert program.is_over
    assert robot.events == []
