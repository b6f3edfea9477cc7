# SPDX-License-Identifier: Apache-2.0
"""The words of a URScript text."""

import re
from bisect import bisect_right
from typing import NamedTuple

from ur5_pick_place.errors import InvalidInput

LONGEST_PROGRAM = 1_000_000  # characters

_WORD = re.compile(
    r"""
    (?P<blank>[ \t\r\n]+|\#[^\n]*|^[ \t]*\$[^\n]*)  # a line of $ is PolyScope's label of a node
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)
    |(?P<string>"[^"\n]*")
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>==|!=|<=|>=|[-+*/%<>=()\[\],:.])
    """,
    re.VERBOSE | re.MULTILINE | re.ASCII,
)


class ScriptError(InvalidInput):
    """
    A program that does not compile.

    `line`, `column`: where, from 1 in the text as sent. `text`: as a robot reports it.
    """

    def __init__(self, line: int, column: int, text: str) -> None:
        super().__init__(f'{line}:{column}: {text}')
        self.line, self.column, self.text = line, column, text


class Word(NamedTuple):
    """A word: `kind` is number, string, name, sign or end; `start`: where, from 0."""

    kind: str
    text: str
    start: int


class Words:
    """
    The words of a text, ended by one of kind `end`.

    Line ends are blanks, as on a robot. Raises `ScriptError`: a character of no word, or a text
    that is too long.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_PROGRAM:
            raise ScriptError(1, 1, f'the program has over {LONGEST_PROGRAM} characters')
        self._lines = [0, *(found.end() for found in re.finditer('\n', text))]
        self.words: list[Word] = []
        at = 0
        while at < len(text):
            found = _WORD.match(text, at)
            if found is None:
                self.words.append(Word('', text[at], at))
                raise ScriptError(*self.position(-1), f'syntax_error_on_token:{text[at]!r}:')
            if found.lastgroup != 'blank':
                self.words.append(Word(found.lastgroup or '', found.group(), at))
            at = found.end()
        self.words.append(Word('end', '', at))

    def position(self, index: int) -> tuple[int, int]:
        """Return line and column of a word, from 1."""
        at = self.words[index].start
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1
