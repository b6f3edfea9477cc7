# SPDX-License-Identifier: Apache-2.0
"""What PolyScope has saved (.urp) as a script, with External Control nodes from the PC."""

import gzip
import re
import socket
import time
import zlib
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ur5_pick_place.errors import InvalidInput

_PORT = 50002  # of the PC, which sends the program for External Control nodes
_CONNECT_TIME, _ANSWER_TIME, _QUIET_TIME = 5.0, 0.5, 0.05  # [s]
_MOST, _LONGEST = 10_000_000, 5.0  # bytes, [s]; of a program, from a PC that does not stop
_EXTERNAL = '# External Control'
_HEADER = re.compile(r'^[ \t]*# HEADER_(?:BEGIN|END)[ \t]*$', re.MULTILINE)
_SIGNS = {'≟': '==', '≠': '!=', '≤': '<=', '≥': '>='}
_LOOP = 'while True:\n{within}\nend'
# By tag and kind of a node: its statements, of its attributes and those of the nodes around it.
_FORMS = {
    'URProgram': 'def {program}():\n{within}\nend\n',
    'SpecialSequence BeforeStart': '{within}', 'Folder': '{within}', 'Move': '{within}',
    'InitVariablesNode': '', 'Comment': '',
    'MainProgram true': '{within}', 'MainProgram false': _LOOP, 'Loop Forever': _LOOP,
    'Thread true': 'thread {name}():\n{within}\nend\nrun {name}()',
    'Thread false': f'thread {{name}}():\n{_LOOP}\nend\nrun {{name}}()',
    'Loop While': 'while {text}:\n{within}\nend', 'If If': 'if {text}:\n{within}\nend',
    'Wait Sleep': 'sleep({waitTime})', 'Script Line': '{text}', 'Script File': '{cachedContents}',
    'Assignment': 'global {variable} = {text}',
    'Waypoint Variable': '{call}({variable}, {acceleration}, {speed})',
    'Waypoint Fixed': '{call}([{angles}], {acceleration}, {speed})',
    'Contributed External Control': _EXTERNAL,
}  # fmt: skip
_KINDS = 'type', 'strategyProgramNodeType', 'runOnlyOnce'


def script_of(data: bytes, name: str) -> str:
    """Return a .urp file as the script `name`; raises `InvalidInput`: it cannot be simulated."""
    try:
        xml = gzip.decompress(data) if data.startswith(b'\x1f\x8b') else data
        root = ElementTree.fromstring(xml)
    except (OSError, EOFError, zlib.error, ElementTree.ParseError) as error:
        raise InvalidInput(f'no program of PolyScope: {error}') from None
    parents = {child: node for node in root.iter() for child in node}
    try:
        return _script(root, {'program': name}, parents)
    except RecursionError:
        raise InvalidInput('its nodes are nested too deeply') from None


def _script(node: Element, around: dict[str, str], parents: dict[Element, Element]) -> str:
    kinds = [node.tag, *[kind for key in _KINDS if (kind := node.get(key))]]
    kind = ' '.join(kinds[: 1 if node.tag == 'Assignment' else 2])
    fields = {**around, **node.attrib, **{child.tag: child.text or '' for child in node}}
    if 'motionType' in fields:
        fields['call'] = fields['motionType'].lower()
    for part in node.findall('position/JointAngles'):
        fields |= part.attrib
    for part in node.findall('variable'):
        fields['variable'] = _name(part, parents)
    words = [
        word.get('character') or word.get('token') or _name(next(iter(word), word), parents)
        for word in node.findall('expression/*')
    ]
    fields['text'] = ''.join(_SIGNS.get(word, word) for word in words)
    # the main program comes last: it starts when the threads run
    nodes = sorted(node.findall('children/*'), key=lambda child: child.tag == 'MainProgram')
    fields['within'] = '\n'.join(_script(child, fields, parents) for child in nodes)
    try:
        return _FORMS[kind].format_map(fields)
    except KeyError as error:
        raise InvalidInput(f'node {kind}: {error} is not simulated') from None


def _name(variable: Element, parents: dict[Element, Element]) -> str:
    """Return the name of a variable, or of the one that it refers to by a relative path."""
    path, found = variable.get('reference', ''), variable
    for _ in range(path.count('../')):
        found = parents.get(found, found)
    target = found.find(path.replace('../', '')) if path else found
    if target is None or not (name := target.get('name')):
        raise InvalidInput(f'variable {path}: has no name')
    return name


def with_external_control(script: str, host: str) -> str:
    """Return a script with what the PC `host` sends in the place of its External Control nodes."""
    if _EXTERNAL not in script:
        return script
    parts = _HEADER.split(_request(host))
    header, body = parts[1:] if len(parts) == 3 else ('', parts[0])
    first, _, others = script.partition('\n')
    return '\n'.join([first, header, others.replace(_EXTERNAL, body)])


def _request(host: str) -> str:
    received = b''
    try:
        with socket.create_connection((host, _PORT), _CONNECT_TIME) as wire:
            wire.sendall(b'request_program\n')
            wire.settimeout(_ANSWER_TIME)
            end = time.monotonic() + _LONGEST
            while part := wire.recv(1 << 16):
                received += part
                if len(received) > _MOST or time.monotonic() > end:
                    received = b''
                    raise OSError(f'it sends over {_MOST} bytes, or for over {_LONGEST} s')
                wire.settimeout(_QUIET_TIME)
    except OSError as error:
        if not received:
            text = f'no program from {host}:{_PORT}: {error}'
            return f'popup("{text}", "External Control", error=True, blocking=True)\nhalt\n'
    return received.decode('utf-8', 'replace')
