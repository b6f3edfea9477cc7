# SPDX-License-Identifier: Apache-2.0
"""
Expressions of URScript as Python's syntax trees.

A node's `lineno` is the number of its word, from 1, so that an error finds its place in the text.
Words of the program become constants, or identifiers with a prefix (`v` a variable, `f` a
function, `b` a built-in, `h` a helper): none of its text is evaluated.
"""

import ast
import inspect
from typing import Any, NoReturn

from ur5_pick_place.sim.controller.script.lexer import ScriptError, Word, Words
from ur5_pick_place.sim.controller.script.scheduler import Steps, Wait
from ur5_pick_place.sim.controller.script.scope import Scope, place
from ur5_pick_place.sim.controller.script.values import LONGEST_LIST, BuiltIns

LONGEST_CHAIN = 300  # operators of one level, or branches of one if
_DEEPEST = 60  # nested expressions
_BREATH = 16  # values that are computed without a look at what is spent of the cycle
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    '==': ast.Eq, '!=': ast.NotEq, '<': ast.Lt, '<=': ast.LtE, '>': ast.Gt, '>=': ast.GtE,
}  # fmt: skip
_COMPARING = 3
_STRENGTHS = {  # of binary operators, weakest first; 'not' takes comparisons and what is stronger
    'or': 1, 'xor': 1, 'and': 2, **dict.fromkeys(_COMPARISONS, _COMPARING),
    '+': 4, '-': 4, '*': 5, '/': 5, '%': 5,
}  # fmt: skip
_UNARY = 6
_HELPERS = {
    'xor': 'xor', '+': 'add', '-': 'subtract', '*': 'multiply', '/': 'divide', '%': 'modulo',
}  # fmt: skip
ARRAYS = {'digital_in', 'digital_out', 'analog_in', 'analog_out'}
"""Lists that older programs read and assign, as `digital_out[3] = True`."""
KEYWORDS = {
    'def', 'sec', 'thread', 'end', 'if', 'elif', 'else', 'while', 'return', 'global', 'local',
    'run', 'kill', 'join', 'and', 'or', 'xor', 'not', 'True', 'False',
    'break', 'continue', 'enter_critical', 'exit_critical', 'halt', 'pause',
}  # fmt: skip

class Expressions:
    """Parses expressions that may call these built-ins."""

    def __init__(self, text: str, builtins: BuiltIns) -> None:
        self._builtins = builtins
        self._scope = Scope(0, 'main', 0, None, {})
        self._read(text)

    def _read(self, text: str) -> None:
        self._words = Words(text)
        self._list = self._words.words
        self._at = self._depth = self._values = 0
        heads = zip(self._list, self._list[1:], strict=False)
        self._defined = {b.text for a, b in heads if a.text in ('def', 'thread')}
        self._calls: list[tuple[ast.Call, Scope, str, int]] = []

    @property
    def _peek(self) -> Word:
        return self._list[self._at]

    def _next(self) -> Word:
        word = self._list[self._at]
        self._at += word.kind != 'end'
        return word

    def _accept(self, *texts: str) -> str:
        word = self._list[self._at]
        if word.text in texts and word.kind in ('name', 'sign'):
            self._at += 1
            return word.text
        return ''

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail()

    def _identifier(self) -> str:
        word = self._peek
        if word.kind != 'name' or word.text in KEYWORDS:
            self._fail()
        return self._next().text

    def _fail(self, text: str = '', at: int | None = None) -> NoReturn:
        """Raise, at the word of this index or at the next one."""
        index = self._at if at is None else at
        word = self._list[index].text or 'end of program'
        raise ScriptError(
            *self._words.position(index), text or f'compile_error_syntax_error_on_token:{word}:'
        )

    def _here(self, index: int | None = None) -> dict[str, Any]:
        return place((self._at if index is None else index) + 1)

    def _helper(self, name: str, *args: ast.expr, at: int | None = None) -> ast.Call:
        here = self._here(at)
        return ast.Call(ast.Name(f'h_{name}', ast.Load(), **here), list(args), [], **here)

    def _breathe(self, value: ast.expr) -> ast.expr:
        """Return a value, every so often as the last of a pair: it can wait for a cycle."""
        self._values += 1
        if self._values % _BREATH:
            return value
        here = self._here()
        wait = ast.YieldFrom(self._helper('breathe'), **here)
        pair = ast.Tuple([wait, value], ast.Load(), **here)
        return ast.Subscript(pair, ast.Constant(1, **here), ast.Load(), **here)

    def _variable(self, name: str, at: int) -> ast.Name:
        """Return a variable whose identifier is found when the whole text has been read."""
        node = ast.Name(name, ast.Load(), **self._here(at))
        self._scope.uses.append((node, name, at))
        return node

    def _expression(self, weakest: int = 1) -> ast.expr:
        """Return an expression of operators of at least this strength."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail('compile_error_nested_too_deeply:')
        left = self._first(weakest)
        for _ in range(LONGEST_CHAIN):
            at, word = self._at, self._list[self._at]
            strength = _STRENGTHS.get(word.text, 0)
            if strength < weakest:
                self._depth -= 1
                return left
            self._at += 1
            right = self._breathe(self._expression(strength + 1))
            left = self._operation(word.text, left, right, at)
        self._fail('compile_error_expression_too_long:')

    def _first(self, weakest: int) -> ast.expr:
        at = self._at
        if weakest <= _COMPARING and self._accept('not'):
            return ast.UnaryOp(ast.Not(), self._expression(_COMPARING), **self._here(at))
        if not self._accept('-'):
            self._accept('+')
            return self._postfix()
        operand = self._expression(_UNARY)
        if isinstance(operand, ast.Constant) and isinstance(operand.value, int | float):
            return ast.Constant(-operand.value, **self._here(at))
        return self._helper('subtract', ast.Constant(0, **self._here(at)), operand, at=at)

    def _operation(self, sign: str, left: ast.expr, right: ast.expr, at: int) -> ast.expr:
        if sign in _HELPERS:
            return self._helper(_HELPERS[sign], left, right, at=at)
        if sign in _COMPARISONS:
            return ast.Compare(left, [_COMPARISONS[sign]()], [right], **self._here(at))
        operator = ast.Or() if sign == 'or' else ast.And()
        return ast.BoolOp(operator, [left, right], **self._here(at))

    def _postfix(self) -> ast.expr:
        value = self._primary()
        for _ in range(LONGEST_CHAIN):
            at = self._at
            if isinstance(value, ast.Constant):
                return value
            if self._accept('['):
                index = self._index(at)
                if isinstance(value, ast.Name) and value.id in ARRAYS and self._peek.text != '=':
                    value = self._array('get', value, index)
                else:
                    value = ast.Subscript(value, index, ast.Load(), **self._here(at))
            elif self._accept('.'):
                name = ast.Constant(self._identifier(), **self._here(at))
                value = ast.Subscript(value, name, ast.Load(), **self._here(at))
            else:
                return value
        self._fail('compile_error_expression_too_long:')

    def _index(self, at: int) -> ast.expr:
        items = self._items(']')
        if len(items) == 1:
            return items[0]
        if len(items) != 2:
            self._fail(at=at)
        return ast.Tuple(items, ast.Load(), **self._here(at))

    def _array(self, verb: str, array: ast.Name, *args: ast.expr) -> ast.Call:
        """Return the call that stands for an element of an array of `ARRAYS`."""
        self._scope.uses = [use for use in self._scope.uses if use[0] is not array]
        call = self._helper(f'{verb}_{array.id}', *args, at=array.lineno - 1)
        assert isinstance(call.func, ast.Name)
        call.func.id = f'b_{verb}_{array.id}'
        return call

    def _items(self, end: str) -> list[ast.expr]:
        items: list[ast.expr] = []
        while not self._accept(end):
            if items:
                self._expect(',')
            items.append(self._breathe(self._expression()))
            if len(items) > LONGEST_LIST:
                self._fail('compile_error_list_too_long:')
        return items

    def _primary(self) -> ast.expr:
        at, word = self._at, self._next()
        if word.kind == 'number':
            return ast.Constant(_number(word.text), **self._here(at))
        if word.kind == 'string':
            return ast.Constant(word.text[1:-1], **self._here(at))
        if word.kind == 'sign' and word.text in '([':
            items = self._items(')' if word.text == '(' else ']')
            if word.text == '(' and len(items) == 1:
                return items[0]
            return self._helper('make_list', *items, at=at)
        if word.kind == 'name' and word.text in ('True', 'False'):
            return ast.Constant(word.text == 'True', **self._here(at))
        if word.kind == 'name' and word.text == 'run':
            index, name = self._at, self._identifier()
            self._expect('(')
            return self._helper('run', self._call(name, index, is_run=True), at=at)
        if word.kind != 'name' or word.text in KEYWORDS:
            self._fail(at=at)
        if word.text == 'p' and self._accept('['):
            return self._pose(at)
        if self._accept('('):
            return self._call(word.text, at)
        return self._variable(word.text, at)

    def _pose(self, at: int) -> ast.expr:
        """Return p[...]: a pose of six numbers, or an element of a variable p."""
        items = self._items(']')
        if len(items) == 1:
            return ast.Subscript(self._variable('p', at), items[0], ast.Load(), **self._here(at))
        if len(items) != 6:
            self._fail('compile_error_a_pose_has_6_numbers:', at)
        return self._helper('make_pose', *items, at=at)

    def _call(self, name: str, at: int, is_run: bool = False) -> ast.expr:
        args: list[ast.expr] = []
        keywords: dict[str, ast.expr] = {}
        while not self._accept(')'):
            if args or keywords:
                self._expect(',')
            if self._peek.kind == 'name' and self._list[self._at + 1].text == '=':
                key = self._identifier()
                self._next()
                if key in keywords:
                    self._fail()
                keywords[key] = self._breathe(self._expression())
            elif keywords:
                self._fail()
            else:
                args.append(self._breathe(self._expression()))
            if len(args) + len(keywords) > LONGEST_LIST:
                self._fail('compile_error_too_many_arguments:')
        here = self._here(at)
        named = [ast.keyword(key, value, **here) for key, value in keywords.items()]
        function = ast.Name(f'b_{name}', ast.Load(), **here)
        call = ast.Call(function, args, named, **here)
        if name in self._defined or is_run or name not in self._builtins:
            self._calls.append((call, self._scope, name, at))
            return call if is_run else ast.YieldFrom(call, **here)
        built_in = self._builtins[name]
        try:
            inspect.signature(built_in).bind(*args, **keywords)
        except TypeError as error:
            self._fail(f'compile_error_arguments:{name}: {error}', at)
        takes_time = built_in.__annotations__.get('return') in (Steps, Wait)
        return ast.YieldFrom(call, **here) if takes_time else call


def _number(text: str) -> float:
    """Return a number of the text: an int if it is written as one and fits 32 bits."""
    if text[:2] in ('0x', '0X'):
        value: float = int(text, 16) if len(text) < 20 else float('inf')
    else:
        value = float(text) if set(text) & set('.eE') or len(text) > 10 else int(text)
    return value if -(2**31) <= value < 2**31 else float(value)
