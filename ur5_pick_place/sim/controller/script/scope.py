# SPDX-License-Identifier: Apache-2.0
"""
Which variable and which function a name means.

A name that is `local`, or a parameter, belongs to its function. Another name is that of the
nearest outer function or program that assigns it; one that the function assigns as well, only if
the outer assignment stands before the function. `global` names belong to the program. What
belongs to it is global in generated code too, so that interpreted statements share it.
"""

import ast
from dataclasses import dataclass, field
from typing import Any


def place(lineno: int = 1) -> dict[str, Any]:
    """Return where a node stands; see `expressions`."""
    return {'lineno': lineno, 'col_offset': 0, 'end_lineno': lineno, 'end_col_offset': 0}


@dataclass(eq=False)
class Scope:
    """
    The names of a function, thread or program, and its code.

    `begin`: index of the word that it starts at. `parameters`: defaults by name.
    """

    number: int
    name: str
    begin: int
    parent: 'Scope | None'
    parameters: dict[str, ast.expr | None]
    assigned: dict[str, int] = field(default_factory=dict)  # name: word of the first assignment
    own: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    functions: dict[str, 'Scope'] = field(default_factory=dict)
    uses: list[tuple[ast.Name, str, int]] = field(default_factory=list)
    definitions: list[ast.stmt] = field(default_factory=list)  # of the functions within
    body: list[ast.stmt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own.update(self.parameters)
        self.assigned.update(dict.fromkeys(self.parameters, self.begin))

    @property
    def program(self) -> 'Scope':
        return self if self.parent is None else self.parent.program

    @property
    def function_identifier(self) -> str:
        return f'f{self.number}_{self.name}'

    def identifier(self, name: str) -> str:
        return f'v{self.number}_{name}'

    def find_function(self, name: str) -> 'Scope | None':
        if name in self.functions or self.parent is None:
            return self.functions.get(name)
        return self.parent.find_function(name)

    def owner(self, name: str) -> 'Scope | None':
        if name in self.own:
            return self
        if name in self.shared:
            return self.program
        outer = self.parent
        while outer is not None:
            first = outer.assigned.get(name)
            if first is not None and (first < self.begin or name not in self.assigned):
                return outer.owner(name)
            outer = outer.parent
        return self if name in self.assigned else None

    def declarations(self) -> list[ast.stmt]:
        """Return what tells Python which names of others the function assigns."""
        owners = [(name, owner) for name in self.assigned if (owner := self.owner(name))]
        ours = [owner.identifier(name) for name, owner in owners if not owner.parent]
        outer = [o.identifier(name) for name, o in owners if o.parent and o is not self]
        head: list[ast.stmt] = [ast.Global(ours, **place())] if ours else []
        return head + ([ast.Nonlocal(outer, **place())] if outer else [])
