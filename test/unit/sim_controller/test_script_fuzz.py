# SPDX-License-Identifier: Apache-2.0
"""Broken and hostile programs: refused or ended; bounded in time and memory; no exception."""

import time
import tracemalloc

import pytest
from script_robot import ScriptRobot

from ur5_pick_place.sim.controller.script.program import Program, ScriptError

GOOD = """def good():
  global q = [0.1, -1.4, 1.5, -1.6, -1.5, 0.3]
  def f(x, y=2): return x * y + q[1] end
  thread t():
    while True:
      q[0] = f(0.1)
      sync()
    end
  end
  r = run t()
  i = 0
  while i < 3 and not False:
    movej(q, a=3, v=1, t=0.1, r=0.01)
    if i % 2 == 0: textmsg("i=", i) elif i > 5: halt else: sleep(0.01) end
    s = struct(a=[1, 2], b="c")
    s.a[0] = p[0, 0, 0.1, 0, 0, 0][2]
    m = [[1, 2], [3, 4]] * 2 - 2 / i
    speedl([0, 0, 0.1, 0, 0, 0], 0.5, 0.02) stopl(2)
    set_digital_out(i, True)
    socket_open("127.0.0.1", 1, "a")
    x = socket_read_binary_integer(2, "a", 0.01)
    i = i + 1
  end
  kill r
end
"""
WORDS = [*GOOD.split(), 'end', *'()],".=-', '1e999', 'p[', 'local', 'join']


def survive(text, cycles=30):
    """Compile and run a text; anything but `ScriptError` fails the test."""
    robot = ScriptRobot()
    try:
        program = Program(text, robot)
    except ScriptError as error:
        assert error.line >= 1 and error.column >= 1 and error.text
        return robot
    for _ in range(cycles):
        robot.cycle(program)
        program.line  # noqa: B018
    program.kill()
    assert program.is_over
    return robot


def test_truncated_programs(rng):
    for end in range(0, len(GOOD), 7):
        survive(GOOD[:end], 3)


def test_programs_with_random_damage(rng):
    for _ in range(250):
        words = list(WORDS[: len(GOOD.split())])
        for _ in range(int(rng.integers(1, 6))):
            words[int(rng.integers(len(words)))] = WORDS[int(rng.integers(len(WORDS)))]
        survive(' '.join(words), 10)


def test_random_characters(rng):
    for size in (1, 10, 100, 1000):
        for _ in range(25):
            survive(''.join(chr(c) for c in rng.integers(1, 300, size)))
            survive(''.join(chr(c) for c in rng.integers(32, 127, size)))


HOSTILE = {
    'loop': 'while True:\nend',
    'loop in critical': 'enter_critical\nwhile True:\nend',
    'nested calls': 'def f(n):\n f(n - 1)\n f(n - 1)\nend\nf(22)',
    'recursion': 'def f(n): return f(n + 1) end\nf(0)',
    'recursion of threads': 'thread t():\n run_id = run t()\n sync()\n run_id = run t()\nend\n'
    'r = run t()\nsleep(1)',
    'doubling a number': 'x = 3\nwhile True:\n x = x * x\n y = x + x\nend',
    'doubling a string': 's = "ab"\nwhile True:\n s = str_cat(s, s)\nend',
    'nesting a list': 'l = [1]\nwhile True:\n l = [l, l]\nend',
    'large lists': f'l = [{", ".join("1" * 1000)}]\nwhile True:\n l = l * 2 + l / 3\nend',
    'many sockets': 'i = 0\nwhile True:\n socket_open("127.0.0.1", 9, to_str(i))\n i = i + 1\nend',
    'messages': 'while True:\n textmsg("a", [1, 2, 3])\nend',
    'inverse kinematics': 'while True:\n q = get_inverse_kin(get_actual_tcp_pose())\nend',
    'not a number': 'movej([1e308 * 10, 0, 0, 0, 0, 0])',
    'speed': 'speedj([1e300, 0, 0, 0, 0, 0], 1e300, 1)',
    'no acceleration': 'movej([0, 0, 0, 0, 0, 0], a=0)',
    'servo far away': 'while True:\n servoj([1e6, 0, 0, 0, 0, 0], t=0.008, gain=1e9)\nend',
    'endless sleep': 'sleep(1e308)',
    'negative times': 'sleep(-1)\nservoj([0, 0, 0, 0, 0, 0], t=-1)',
    'itself': 'thread t():\n sync()\n kill r\nend\nr = run t()\njoin r\njoin r\nkill 1e9',
    'power': 'x = pow(10, 1000)',
    'modulo': 'x = (1e308 * 10) % 2',
    'huge index': 'l = [1]\nl[1e300] = 2',
}


@pytest.mark.parametrize('case', HOSTILE)
def test_hostile_programs_cost_neither_time_nor_memory(case):
    tracemalloc.start()
    begin = time.process_time()
    robot = survive(f'def f():\n{HOSTILE[case]}\nend\n', 150)
    spent = time.process_time() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6
    assert spent < 150 * 0.2  # a cycle is 8 ms; tracing and a busy machine cost most of this
    assert all(abs(q).max() < 1e9 for q, _ in robot.targets)


POSE = 'p[0.1, -0.4, 0.3, 2.2, 2.2, 0.1]'


@pytest.mark.parametrize(
    'costly, most',
    [
        ('x', 400),
        (f'pose_trans({POSE}, {POSE})', 10),
        (f'get_inverse_kin({POSE})', 10),
        ('get_actual_tcp_pose()', 30),
        ('get_jacobian()', 30),
    ],
)
def test_a_costly_built_in_takes_more_of_the_computing_of_a_cycle(costly, most):
    robot = ScriptRobot()
    text = f'x = 1\ni = 0\nwhile True:\n y = {costly}\n i = i + 1\n'
    program = Program(f'def f():\n{text}write_output_integer_register(0, i)\nend\nend\n', robot)
    for _ in range(5):
        before = robot.output_ints[0]
        robot.cycle(program)
        assert 0 < robot.output_ints[0] - before <= most
    program.kill()


def test_huge_texts_are_refused_at_once_or_compiled():
    with pytest.raises(ScriptError):
        Program('def f():\n' + '  x = 1\n' * 2_000_000 + 'end\n', ScriptRobot())
    survive('def f():\n' + '  movej([0, 0, 0, 0, 0, 0])\n' * 1500 + 'end\n', 3)
    functions = ''.join(f'  def f{i}(): x = {i} end\n' for i in range(500))
    survive(f'def f():\n{functions}end\n', 3)
    survive('if x == 1:\n' + 'elif True:\n' * 1000 + 'end\n', 3)


@pytest.mark.parametrize('costly', ['pose_inv(get_actual_tcp_pose())', 'get_actual_tcp_pose()'])
@pytest.mark.parametrize(
    'statement', ['x = [norm({0}), {1}]', 'x = norm({0}) + {2}', 'x = max([norm({0}), {1}])']
)
def test_a_long_statement_takes_as_many_cycles_as_it_costs(statement, costly):
    more = [f'norm({costly})'] * 280
    text = statement.format(costly, ', '.join(more), ' + '.join(more))
    robot = ScriptRobot()
    program = Program(f'def f():\n def max(l): return l[0] end\n {text}\nend\n', robot)
    cycles = 0
    while not program.is_over:
        robot.cycle(program)
        cycles += 1
    assert 8 < cycles < 200 and not robot.events
