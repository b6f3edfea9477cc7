# SPDX-License-Identifier: Apache-2.0
"""URScript's language: values, scope, statements, and the place of an error."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from script_robot import ScriptRobot

from ur5_pick_place.sim.controller.script.program import Program, ScriptError


def texts_of(body):
    """Run a program of these lines; return its messages."""
    robot = ScriptRobot()
    program = robot.run(f'def test():\n{body}\nend\n', seconds=5.0)
    assert program.is_over
    assert [event for event in robot.events if event[0] != 'text'] == []
    return robot.texts()


def value_of(expression, before=''):
    """Return the value of an expression, as the text of a message."""
    (found,) = texts_of(f'{before}\ntextmsg({expression})')
    return found


@pytest.mark.parametrize(
    ('expression', 'text'),
    [
        ('1 + 2 * 3 - 4', '3'),
        ('(1 + 2) * 3', '9'),
        ('7 / 2', '3.5'),
        ('6 / 2 + 0.5', '3.5'),
        ('7 % 3', '1'),
        ('-7 % 3', '-1'),
        ('5.5 % 2', '1.5'),
        ('2 - 3 - 4', '-5'),
        ('-2 * -3', '6'),
        ('1e-3 + .5', '0.501'),
        ('0x1F', '31'),
        ('2147483647', '2147483647'),
        ('2147483647 + 1', '2.14748e+09'),
        ('not True or True', 'True'),
        ('not 1 == 2 and 3 >= 3', 'True'),
        ('True xor True', 'False'),
        ('1 < 2 == True', 'True'),
        ('[1, 2.5, True]', '[1, 2.5, True]'),
        ('(0, 0, 1)', '[0, 0, 1]'),
        ('-2 * [1, 2] + [0.5, 0] / 2', '[-1.75, -4]'),
        ('[1, 2, 3] == [1, 2, 3]', 'True'),
        ('p[1, 2, 3, 0, 0, 0.5]', 'p[1, 2, 3, 0, 0, 0.5]'),
        ('p[1, 2, 3, 0, 0, 0][2.0]', '3'),
        ('[[1, 2], [3, 4]][1, 0]', '3'),
        ('[[1, 2], [3, 4]] * 2', '[[2, 4], [6, 8]]'),
        ('struct(a=1, b=[2]).b[0]', '2'),
        ('str_cat("n", 0.25)', 'n0.25'),
        ('str_sub("abcdef", 2, 3)', 'cde'),
        ('str_at("abc", 1)', 'b'),
        ('str_find("abcabc", "ca")', '2'),
        ('str_len("abc") + to_num("2.5")', '5.5'),
        ('integer_to_binary_list(5)[2]', 'True'),
        ('binary_list_to_integer([True, False, True])', '5'),
        ('norm([3, 4])', '5'),
        ('norm(-2)', '2'),
        ('get_list_length([1, 2])', '2'),
        ('floor(-1.5) + ceil(1.2)', '0'),
        ('pow(2, 10)', '1024'),
        ('log(10, 1000)', '3'),
        ('r2d(atan2(1, 0))', '90'),
        ('get_steptime()', '0.008'),
    ],
)
def test_an_expression_has_its_value(expression, text):
    assert value_of(expression) == text


def test_line_ends_are_blanks_and_statements_need_no_separator():
    assert texts_of(
        'global a = # here the value is missing\n7    global b = [1,\n 2] x = a or\nFalse\n'
        '$ 3 "a label of the pendant"\ntextmsg("a", a) textmsg("b", b)'
    ) == ['a7', 'b[1, 2]']


def test_a_pose_with_one_element_is_an_index_of_the_variable_p():
    assert value_of('f([4, 5])', 'def f(p): return p[1] + p[0] end') == '9'


def test_an_assignment_copies():
    assert texts_of(
        'a = [1, 2]\nb = a\nb[0] = 9\ntextmsg(a)\ntextmsg(b)\nq = p[0, 0, 0, 0, 0, 0]\nq[2] = 1\n'
        'm = [[1, 2], [3, 4]]\nm[1, 0] = 7\nm[0][1] = 8\ntextmsg(q)\ntextmsg(m)\n'
        's = struct(a=1)\ns.a = 2\ntextmsg(s)'
    ) == ['[1, 2]', '[9, 2]', 'p[0, 0, 1, 0, 0, 0]', '[[1, 8], [7, 4]]', 'struct(a=2)']


def test_a_name_belongs_to_the_nearest_scope_that_knows_it():
    assert texts_of(
        'a = 1\nb = 1\n'
        'def f():\n  a = 2\n  local b = 2\n  c = 2\n  global d = 2\n'
        '  def g():\n    c = 3\n    b = 3\n  end\n  g()\n  textmsg("c", c)\n'
        '  textmsg("b", b)\nend\n'
        'c = 1\nf()\ntextmsg([a, b, c, d])'
    ) == ['c3', 'b3', '[2, 1, 1, 2]']


def test_functions_take_defaults_names_and_are_known_before_they_are_defined():
    assert texts_of(
        'base = 8\ntextmsg(f(1))\ntextmsg(f(c=5, a=1))\n'
        'def f(a, b=base, c=3): return [a, b, c] end\n'
        'def h(n):\n  if n < 2:\n    return 1\n  end\n  return n * h(n - 1)\nend\ntextmsg(h(10))'
    ) == ['[1, 8, 3]', '[1, 8, 5]', '3628800']


def test_loops_and_branches():
    assert texts_of(
        'i = 0\nwhile True:\n  i = i + 1\n  if i == 2:\n    continue\n  elif i == 5:\n    break\n'
        '  else:\n    textmsg(i)\n  end\nend'
    ) == ['1', '3', '4']


def test_poses_compose_as_rotations_do(rng):
    a, b = (np.concatenate([rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3)]) for _ in range(2))
    Ra, Rb = Rotation.from_rotvec(a[3:]), Rotation.from_rotvec(b[3:])
    expected = {
        'pose_trans(a, b)': (a[:3] + Ra.apply(b[:3]), Ra * Rb),
        'pose_inv(a)': (-Ra.inv().apply(a[:3]), Ra.inv()),
        'pose_add(a, b)': (a[:3] + b[:3], Ra * Rb),
        'pose_sub(a, b)': (a[:3] - b[:3], Ra * Rb.inv()),
        'interpolate_pose(a, b, 0.3)': (
            0.7 * a[:3] + 0.3 * b[:3],
            Ra * Rotation.from_rotvec(0.3 * (Ra.inv() * Rb).as_rotvec()),
        ),
    }
    robot = ScriptRobot()
    lines = [f'a = p{a.tolist()}', f'b = p{b.tolist()}']
    for expression in expected:
        lines += [f'x = {expression}']
        lines += [f'write_output_float_register({6 * k + i}, x[{i}])' for i in range(6)
                  for k in [list(expected).index(expression)]]  # fmt: skip
    lines += ['rpy = rotvec2rpy([a[3], a[4], a[5]])', 'textmsg(rpy2rotvec(rpy))']
    robot.run('def f():\n' + '\n'.join(lines) + '\nend\n')
    for k, (position, rotation) in enumerate(expected.values()):
        found = np.array(robot.output_floats[6 * k : 6 * k + 6])
        assert found[:3] == pytest.approx(position, abs=1e-12)
        assert found[3:] == pytest.approx(rotation.as_rotvec(), abs=1e-9)
    assert robot.texts() == [f'[{", ".join(f"{x:g}" for x in a[3:])}]']


@pytest.mark.parametrize(
    ('text', 'line', 'column', 'part'),
    [
        ('def f():\n  nothing(1)\nend\n', 2, 3, 'compile_error_name_not_found:nothing:'),
        ('def f():\n  x = 1 + y\nend\n', 2, 11, 'compile_error_name_not_found:y:'),
        ('def f():\n  x = = 1\nend\n', 2, 7, 'syntax_error_on_token:=:'),
        ('def f():\n  if True:\n  x = 1\nend\n', 5, 1, 'end of program'),
        ('def f():\n  break\nend\n', 2, 3, 'break'),
        ('def f():\n  x = "open\nend\n', 2, 7, 'token'),
        ('def 7_f():\nend\n', 1, 5, 'token:7:'),
        ('def f:\nend\n', 1, 6, 'token'),
        ('def f():\n  1 + 2\nend\n', 2, 5, 'token'),
        ('def f():\n  x = p[1, 2]\nend\n', 2, 7, '6_numbers'),
        ('def f():\n  sin()\nend\n', 2, 3, 'arguments'),
        ('def f():\n  servoj([0], gian=1)\nend\n', 2, 3, 'gian'),
        ('def f():\n  g(1)\n  def g(): x = 1 end\nend\n', 2, 3, 'arguments'),
        ('def f():\nend\ndef g():\nend\n', 3, 1, 'def'),
        ('x = ' + '(' * 5000 + '1\n', 1, 1, 'nested_too_deeply'),
        ('x = ' + '-' * 5000 + '1\n', 1, 1, 'nested_too_deeply'),
        ('x = 1' + ' + 1' * 5000 + '\n', 1, 1, 'too_long'),
        ('if True:\n' * 50 + 'end\n' * 50, 1, 1, 'nested_too_deeply'),
        ('x = [' + '1,' * 5000 + '1]\n', 1, 1, 'too_long'),
        ('x = 1\n' * 200_000, 1, 1, '1000000 characters'),
    ],
)
def test_what_does_not_compile_is_refused_with_its_place(text, line, column, part):
    with pytest.raises(ScriptError) as caught:
        Program(text, ScriptRobot())
    assert part in caught.value.text
    if len(text) < 100:
        assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ('body', 'line', 'column', 'part'),
    [
        ('  x = [1]\n  textmsg(x[1])', 3, 12, 'out of range'),
        ('  x = [1]\n  x[-1] = 2', 3, 3, 'out of range'),
        ('  x = 1\n  x[0] = 2', 3, 3, 'a number has no elements'),
        ('  x = 0\n  y = 1 / x', 3, 9, 'division by zero'),
        ('  x = "a" + 1', 2, 11, 'type error'),
        ('  x = [1, 2] + [1]', 2, 14, 'type error'),
        ('  x = sqrt(-1)', 2, 7, 'domain'),
        ('  x = [[1], [2, 3]]', 2, 7, 'rows'),
        ('  x = [[[1]]]', 2, 7, 'deeper'),
        ('  movej([0, 0, 0])', 2, 3, '6 numbers'),
        ('  movej([9, 0, 0, 0, 0, 0])', 2, 3, 'limits'),
        ('  movej(p[10, 0, 0, 0, 0, 0])', 2, 3, 'inverse'),
        ('  set_digital_out(18, True)', 2, 3, '0 to 17'),
        ('  def g(n): return g(n + 1) end\n  g(0)', 2, 20, 'stack overflow'),
        ('  if 1 == 2:\n  x = 1\n  end\n  textmsg(x)', 5, 11, 'x'),
        ('  while True:\n  x = 1\n  end', 2, 3, 'too much behind'),
        ('  direct_torque([0, 0, 0, 0, 0, 0])', 2, 3, 'by position'),
    ],
)
def test_a_runtime_exception_is_reported_with_its_place(body, line, column, part):
    robot = ScriptRobot()
    program = robot.run(f'def f():\n{body}\nend\n', seconds=2.0)
    assert program.is_over
    ((kind, *place, text),) = robot.events
    assert kind == 'exception' and part in text
    if 'stack' not in part and 'behind' not in part:
        assert place == [line, column]


def test_names_of_the_language_below_cannot_be_reached():
    for name in ('__import__', '__builtins__', 'open', 'h_spend', 'UNSET', 'exec', 'print'):
        with pytest.raises(ScriptError, match='name_not_found'):
            Program(f'x = {name}\n', ScriptRobot())
        with pytest.raises(ScriptError, match='name_not_found'):
            Program(f'{name}("os")\n', ScriptRobot())
    robot = ScriptRobot()
    robot.run('x = [1]\nx = x.__class__\n')
    assert robot.events[0][0] == 'exception'


def test_arithmetic_overflow_is_a_number_or_an_exception():
    assert value_of('1e308 * 10') == 'inf'
    assert math.isnan(float(value_of('1e308 * 10 - 1e308 * 10')))
