# SPDX-License-Identifier: Apache-2.0
"""Statements, functions and programs of URScript as Python's syntax trees."""

import ast
import copy

from ur5_pick_place.sim.controller.script.expressions import ARRAYS, LONGEST_CHAIN, Expressions
from ur5_pick_place.sim.controller.script.scope import Scope, place

_DEEPEST = 18  # nested blocks: Python has 20 for loops


class Parser(Expressions):
    """
    Parses a program to a module with the generator function `f0_main`.

    Every function and thread is a generator. It yields where its time of a cycle is spent; loops,
    functions and long texts also where the computing of a cycle is (`h_spend`, `h_breathe`).
    """

    name = 'unnamed'
    is_secondary = False
    _blocks = 0
    _loops = 0

    def parse(self) -> ast.Module:
        self._scopes = [self._scope]
        is_block = self._peek.text in ('def', 'sec') and self._peek.kind == 'name'
        if is_block:
            self.is_secondary = self._next().text == 'sec'
            self.name = self._identifier()
            for sign in '():':
                self._expect(sign)
        self._scope.body = [self._pause(), *self._block('end' if is_block else '')]
        if is_block:
            self._expect('end')
        return self._module(self._scopes)

    def parse_statement(self, text: str) -> ast.Module:
        """Return the module of a statement that is interpreted within the program."""
        parser = copy.copy(self)
        parser._read(text)
        program, known = self._scopes[0], len(self._scopes)
        program.assigned = dict.fromkeys(program.assigned, -1)  # before whatever comes now
        program.uses, program.definitions = [], []
        program.body = [parser._pause(), *parser._block('')]
        return parser._module([program, *self._scopes[known:]])

    def _module(self, scopes: list[Scope]) -> ast.Module:
        """Return the module of new scopes, the program's first."""
        if self._peek.kind != 'end':
            self._fail()
        self._resolve(scopes)
        for scope in scopes:
            inner = [] if scope.parent is None else scope.definitions
            scope.body[:0] = scope.declarations() + inner
        functions = [*scopes[0].definitions, self._definition(scopes[0])]
        return ast.Module(body=functions, type_ignores=[])

    def position(self, lineno: int) -> tuple[int, int]:
        """Return line and column of a node's `lineno`."""
        return self._words.position(min(max(lineno, 1), len(self._list)) - 1)

    # functions

    def _define(self, word: str, at: int) -> ast.stmt:
        name = self._identifier()
        outer = self._scope
        if name in outer.functions:
            self._fail(f'compile_error_function_defined_twice:{name}:', self._at - 1)
        defaults = self._parameters()
        self._expect(':')
        scope = Scope(len(self._scopes), name, at, outer, defaults)
        self._scopes.append(scope)
        outer.functions[name] = self._scope = scope
        loops, self._loops = self._loops, 0
        scope.body = [self._pause(), *self._block('end')]
        self._expect('end')
        self._scope, self._loops = outer, loops
        outer.definitions.append(self._definition(scope))
        return ast.Pass(**self._here(at))

    def _parameters(self) -> dict[str, ast.expr | None]:
        """Return the defaults of the parameters by name, None where there is none."""
        defaults: dict[str, ast.expr | None] = {}
        if not self._accept('('):
            return defaults
        while not self._accept(')'):
            if defaults:
                self._expect(',')
            name = self._identifier()
            if name in defaults:
                self._fail(f'compile_error_parameter_defined_twice:{name}:', self._at - 1)
            default = self._expression() if self._accept('=') else None
            if default is None and any(defaults.values()):
                self._fail()
            defaults[name] = default
        return defaults

    def _definition(self, scope: Scope) -> ast.FunctionDef:
        args = [ast.arg(scope.identifier(name), **place()) for name in scope.parameters]
        arguments = ast.arguments([], args, None, [], [], None, [])
        return ast.FunctionDef(scope.function_identifier, arguments, scope.body, [], **place())

    def _pause(self) -> ast.stmt:
        """Return 'yield, if the computing of this cycle is spent'."""
        suspend = ast.Expr(ast.Yield(None, **self._here()), **self._here())
        return ast.If(self._helper('spend'), [suspend], [], **self._here())

    def _resolve(self, scopes: list[Scope]) -> None:
        for scope in scopes:
            for node, name, at in scope.uses:
                owner = scope.owner(name)
                if owner is None:
                    self._fail(f'compile_error_name_not_found:{name}:', at)
                node.id = owner.identifier(name)
        for call, scope, name, at in self._calls:
            function = scope.find_function(name)
            if function is None:
                self._fail(f'compile_error_name_not_found:{name}:', at)
            self._bind(call, function, at)

    def _bind(self, call: ast.Call, function: Scope, at: int) -> None:
        """Point a call to its function, and add defaults; refuses arguments that do not fit."""
        names = list(function.parameters)
        given = names[: len(call.args)] + [key.arg or '' for key in call.keywords]
        for name, default in function.parameters.items():
            if default is not None and name not in given:
                given.append(name)
                call.keywords.append(ast.keyword(name, default, **self._here(at)))
        if len(call.args) > len(names) or sorted(given) != sorted(names):
            wanted = ', '.join(names) or 'none'
            self._fail(f'compile_error_arguments:{function.name} takes: {wanted}', at)
        assert isinstance(call.func, ast.Name)
        call.func.id = function.function_identifier
        for key in call.keywords:
            key.arg = function.identifier(key.arg or '')

    # statements

    def _block(self, *ends: str) -> list[ast.stmt]:
        """Return statements up to a word of `ends`, which stays, or to the end of the text."""
        self._blocks += 1
        if self._blocks > _DEEPEST:
            self._fail('compile_error_nested_too_deeply:')
        statements: list[ast.stmt] = []
        while self._goes_on(ends):
            statements.append(self._statement())
        self._blocks -= 1
        return statements or [ast.Pass(**self._here())]

    def _goes_on(self, ends: tuple[str, ...]) -> bool:
        word = self._peek
        return word.kind != 'end' and not (word.kind == 'name' and word.text in ends)

    def _statement(self) -> ast.stmt:
        at, word = self._at, self._peek
        if word.kind == 'name' and word.text in _STATEMENTS:
            self._next()
            return _STATEMENTS[word.text](self, word.text, at)
        target = self._postfix()
        if self._accept('='):
            return self._assignment(target, self._breathe(self._expression()), at)
        if not isinstance(target, ast.Call | ast.YieldFrom):
            self._fail()
        return ast.Expr(self._breathe(target), **self._here(at))

    def _assignment(self, target: ast.expr, value: ast.expr, at: int) -> ast.stmt:
        """Return an assignment; one to an element replaces the whole value, see `values.put`."""
        while isinstance(target, ast.Subscript):
            base = target.value
            if isinstance(base, ast.Name) and base.id in ARRAYS:
                return ast.Expr(self._array('set', base, target.slice, value), **self._here(at))
            value = self._helper('put', base, target.slice, value, at=at)
            target = base
        if not isinstance(target, ast.Name):
            self._fail(at=at)
        name = target.id
        self._scope.assigned.setdefault(name, at)
        store = ast.Name(name, ast.Store(), **self._here(at))
        self._scope.uses.append((store, name, at))
        return ast.Assign([store], value, **self._here(at))

    def _declaration(self, word: str, at: int) -> ast.stmt:
        index, name = self._at, self._identifier()
        self._expect('=')
        value = self._breathe(self._expression())
        if word == 'local':
            self._scope.own.add(name)
        else:
            self._scope.shared.add(name)
            self._scope.program.assigned.setdefault(name, index)
        return self._assignment(ast.Name(name, ast.Load()), value, index)

    def _if(self, word: str, at: int) -> ast.stmt:
        first = branch = ast.If(self._condition(), self._block(*_BRANCHES), [], **self._here(at))
        for _ in range(LONGEST_CHAIN):
            index = self._at
            if not self._accept('elif'):
                break
            test, here = self._condition(), self._here(index)
            following = ast.If(test, self._block(*_BRANCHES), [], **here)
            branch.orelse = [following]
            branch = following
        if self._accept('else'):
            self._expect(':')
            branch.orelse = self._block('end')
        self._expect('end')
        return first

    def _condition(self) -> ast.expr:
        test = self._expression()
        self._expect(':')
        return test

    def _while(self, word: str, at: int) -> ast.stmt:
        test = self._condition()
        self._loops += 1
        body = [self._pause(), *self._block('end')]
        self._loops -= 1
        self._expect('end')
        return ast.While(test, body, [], **self._here(at))

    def _return(self, word: str, at: int) -> ast.stmt:
        is_bare = not self._goes_on(_BRANCHES)
        return ast.Return(None if is_bare else self._expression(), **self._here(at))

    def _leave(self, word: str, at: int) -> ast.stmt:
        if not self._loops:
            self._fail(at=at)
        return ast.Break(**self._here(at)) if word == 'break' else ast.Continue(**self._here(at))

    def _simple(self, word: str, at: int) -> ast.stmt:
        args = [self._expression()] if word in ('kill', 'join') else []
        call: ast.expr = self._helper(word, *args, at=at)
        if word in ('join', 'pause'):
            call = ast.YieldFrom(call, **self._here(at))
        return ast.Expr(call, **self._here(at))


_BRANCHES = ('end', 'elif', 'else')
_STATEMENTS = {
    **dict.fromkeys(('def', 'thread'), Parser._define),
    'if': Parser._if,
    'while': Parser._while,
    'return': Parser._return,
    **dict.fromkeys(('global', 'local'), Parser._declaration),
    **dict.fromkeys(('break', 'continue'), Parser._leave),
    **dict.fromkeys(
        ('enter_critical', 'exit_critical', 'halt', 'pause', 'kill', 'join'), Parser._simple
    ),
}
